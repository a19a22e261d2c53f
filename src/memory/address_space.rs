//! Limits of the address space (`ulimit -v`) and of the data segment (`ulimit -d`), read from `/proc`.
//!
//! Where the operating system refuses memory, an allocation aborts the process. What is left is therefore compared with
//! every request. A part is always kept free, for what is too small to be asked for: buffers, stacks, the allocator's own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are never promised to a request: tensors of a training step, buffers, stacks, the allocator's own.
const KEPT_FREE: u64 = 64 << 20;

/// The bytes of the tightest limit that were in use when counting began.
static BASE: AtomicU64 = AtomicU64::new(0);

/// A limit in bytes, and the name of what it limits in `/proc/self/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    counted: &'static str,
}

/// The limits of this process.
fn limits() -> &'static [Limit] {
    static LIMITS: OnceLock<Vec<Limit>> = OnceLock::new();
    LIMITS.get_or_init(|| parse_limits(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default()))
}

/// The tightest limit and the bytes of it that are in use, those kept free included; none where there is no limit.
pub(super) fn used() -> Option<(u64, u64)> {
    let limits = limits();
    if limits.is_empty() {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let used = |limit: &Limit| parse_size(&status, limit.counted).unwrap_or(0) + KEPT_FREE;
    limits.iter().map(|limit| (limit.bytes, used(limit))).min_by_key(|(limit, used)| limit.saturating_sub(*used))
}

/// Counts what is in use now as the program's own: what is promised comes on top of it.
pub(super) fn count_from_here() {
    BASE.store(used().map_or(0, |(_, used)| used), Ordering::Relaxed);
}

/// Bytes that the address space has room for beyond the program's own; none where it is not limited.
pub(super) fn room() -> Option<u64> {
    let (limit, used) = used()?;
    let base = match BASE.load(Ordering::Relaxed) {
        0 => used,
        base => base,
    };
    Some(limit.saturating_sub(base))
}

/// The bytes in use once everything reserved is allocated, on top of what was in use when counting began.
pub(super) fn promised(reserved: u64) -> u64 {
    BASE.load(Ordering::Relaxed).saturating_add(reserved)
}

/// The soft limits in the text of `/proc/self/limits`.
fn parse_limits(text: &str) -> Vec<Limit> {
    let limit = |name: &str, counted: &'static str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(Limit { bytes: line.split_whitespace().next()?.parse().ok()?, counted })
    };
    [limit("Max address space", "VmSize:"), limit("Max data size", "VmData:")].into_iter().flatten().collect()
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
            [Limit { bytes: 1_000_000, counted: "VmSize:" }, Limit { bytes: 2_000_000, counted: "VmData:" }]
        );
        assert_eq!(parse_limits("Max address space         unlimited            unlimited            bytes"), []);
        assert_eq!(parse_limits(""), []);
        let status = "Name:\trla\nVmPeak:\t   9 kB\nVmSize:\t  12 kB\nVmData:\t x kB\n";
        assert_eq!(parse_size(status, "VmSize:"), Some(12 * 1024));
        assert_eq!(parse_size(status, "VmData:"), None);
        assert_eq!(parse_size(status, "VmStk:"), None);
    }
}
