//! Limits of the address space (`ulimit -v`) and of the data segment (`ulimit -d`), read from `/proc`.
//!
//! Where the operating system refuses memory, an allocation aborts the process. What is left is therefore compared with
//! every request. A part is always kept free, for what is too small to be asked for: buffers, stacks, the allocator's own.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::told_by_kernel;

/// Bytes that are never promised to a request: tensors of a training step, buffers, stacks, the allocator's own.
const KEPT_FREE: u64 = 64 << 20;

/// The bytes of the tightest limit that were in use when counting began.
static BASE: AtomicU64 = AtomicU64::new(0);

/// A limit in bytes, the name of what it limits in `/proc/self/status`, and the command of the shell that sets it in kB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    counted: &'static str,
    command: &'static str,
}

/// A request that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shortage {
    /// The limit, in bytes.
    pub limit: u64,
    /// The bytes of it in use, those kept free included.
    pub used: u64,
    /// The limit that would have been enough for what was asked for until now.
    pub enough: u64,
    /// The command that sets the limit, in kB.
    pub command: &'static str,
}

/// The limits of this process.
fn limits() -> &'static [Limit] {
    static LIMITS: OnceLock<Vec<Limit>> = OnceLock::new();
    LIMITS.get_or_init(|| parse_limits(&told_by_kernel(Path::new("/proc/self/limits"))))
}

/// Whether there is a limit.
pub(super) fn is_limited() -> bool {
    !limits().is_empty()
}

/// The tightest limit and the bytes of it that are in use, those kept free included; none where there is no limit.
fn used() -> Option<(Limit, u64)> {
    let limits = limits();
    if limits.is_empty() {
        return None;
    }
    let status = told_by_kernel(Path::new("/proc/self/status"));
    let used = |limit: &Limit| parse_size(&status, limit.counted).unwrap_or(0) + KEPT_FREE;
    let each = limits.iter().map(|limit| (*limit, used(limit)));
    each.min_by_key(|(limit, used)| limit.bytes.saturating_sub(*used))
}

/// Counts what is in use now as the program's own: what is promised comes on top of it.
pub(super) fn count_from_here() {
    BASE.store(used().map_or(0, |(_, used)| used), Ordering::Relaxed);
}

/// What was in use when counting began, otherwise what is in use now.
fn base(used: u64) -> u64 {
    match BASE.load(Ordering::Relaxed) {
        0 => used,
        base => base,
    }
}

/// Bytes that the address space has room for beyond the program's own; none where it is not limited.
pub(super) fn room() -> Option<u64> {
    let (limit, used) = used()?;
    Some(limit.bytes.saturating_sub(base(used)))
}

/// Whether `bytes` more are too much, once everything `reserved` (the request included) is allocated.
pub(super) fn shortage(bytes: u64, reserved: u64) -> Option<Shortage> {
    let (limit, used) = used()?;
    let enough = enough(bytes, used, base(used), reserved);
    (enough > limit.bytes).then_some(Shortage { limit: limit.bytes, used, enough, command: limit.command })
}

/// The least limit under which a request is granted. What was reserved before may not have been allocated yet, so both
/// counts must fit: that of the kernel, with a quarter more because an estimate may be a little short and what the
/// allocator cannot give is the end of the program; and that of all reservations.
fn enough(bytes: u64, used: u64, base: u64, reserved: u64) -> u64 {
    let now = used.saturating_add(bytes).saturating_add(bytes / 4);
    now.max(base.saturating_add(reserved))
}

/// The soft limits in the text of `/proc/self/limits`.
fn parse_limits(text: &str) -> Vec<Limit> {
    let limit = |name: &str, counted: &'static str, command: &'static str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(Limit { bytes: line.split_whitespace().next()?.parse().ok()?, counted, command })
    };
    let both = [limit("Max address space", "VmSize:", "ulimit -v"), limit("Max data size", "VmData:", "ulimit -d")];
    both.into_iter().flatten().collect()
}

/// The bytes that a line of `/proc/self/status` states in kB.
fn parse_size(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_sizes_are_read_from_the_words_of_the_kernel() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max cpu time              unlimited            unlimited            seconds   \n\
                      Max data size             2000000              unlimited            bytes     \n\
                      Max address space         1000000              unlimited            bytes     \n";
        assert_eq!(
            parse_limits(limits),
            [
                Limit { bytes: 1_000_000, counted: "VmSize:", command: "ulimit -v" },
                Limit { bytes: 2_000_000, counted: "VmData:", command: "ulimit -d" }
            ]
        );
        assert_eq!(parse_limits("Max address space         unlimited            unlimited            bytes"), []);
        assert_eq!(parse_limits(""), []);
        let status = "Name:\trla\nVmPeak:\t   9 kB\nVmSize:\t  12 kB\nVmData:\t x kB\n";
        assert_eq!(parse_size(status, "VmSize:"), Some(12 * 1024));
        assert_eq!(parse_size(status, "VmData:"), None);
        assert_eq!(parse_size(status, "VmStk:"), None);
    }
    #[test]
    fn enough_is_what_the_kernel_and_the_reservations_count() {
        // 400 more on top of 1000 in use, with a quarter to spare.
        assert_eq!(enough(400, 1000, 900, 400), 1500);
        // 2000 were promised before, of which little is allocated yet.
        assert_eq!(enough(400, 1000, 900, 2400), 3300);
        assert_eq!(enough(u64::MAX, 1, 1, u64::MAX), u64::MAX);
    }
}
