//! Progress of long work, and a way to stop it.

/// Told about finished pieces of work, and asked whether to go on.
pub trait Progress: Sync {
    /// One more piece is done; called from any thread.
    fn advance(&self) {}
    /// Whether the work should stop as soon as it can.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// No one is watching, and nothing stops the work.
impl Progress for () {}
