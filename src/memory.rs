//! Memory is estimated before it is taken: a request beyond the limit is an error that says what would fit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The share of the available memory that is used by default.
const DEFAULT_SHARE: f64 = 0.8;

/// A limit set by the user, in bytes; zero means none.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Sets the limit in bytes for the whole process (`None`: back to 80 % of the memory available at start-up).
pub fn set_limit(bytes: Option<u64>) {
    LIMIT.store(bytes.unwrap_or(0), Ordering::Relaxed);
}

/// The limit in bytes: what the user set, or 80 % of the memory that was available when first asked.
pub fn limit() -> u64 {
    static AVAILABLE: OnceLock<u64> = OnceLock::new();
    match LIMIT.load(Ordering::Relaxed) {
        0 => (*AVAILABLE.get_or_init(available) as f64 * DEFAULT_SHARE) as u64,
        bytes => bytes,
    }
}

/// Bytes of memory available now, the control group's limit included where there is one.
fn available() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX / 2 };
    system.refresh_memory();
    let free = system.available_memory();
    match system.cgroup_limits() {
        Some(group) if group.free_memory > 0 => free.min(group.free_memory),
        _ => free,
    }
}

/// An amount in GB (10⁹ bytes) for a message: two decimals, or two digits where that would say 0.
pub(crate) fn gigabytes(amount: f64) -> String {
    let decimals = if amount > 0.0 && amount < 0.1 { (1.0 - amount.log10().floor()).min(9.0) } else { 2.0 };
    format!("{amount:.*} GB", decimals as usize)
}

/// Checks that arrays of `numbers` f64 values fit within the limit.
///
/// ```
/// use riemannian_laplace::memory;
/// assert!(memory::check("a small matrix", 1_000.0, "nothing to advise").is_ok());
/// let error = memory::check("the precision matrix", 1e15, "use the function-space solver").unwrap_err();
/// assert!(error.to_string().contains("8000000.00 GB"));
/// ```
pub fn check(what: &str, numbers: f64, advice: impl Into<String>) -> Result<()> {
    let (needed, limit) = (numbers * 8.0, limit() as f64);
    if needed <= limit {
        return Ok(());
    }
    Err(Error::Memory { what: what.to_string(), needed: needed / 1e9, limit: limit / 1e9, advice: advice.into() })
}
