//! Limits of the address space (`ulimit -v`) and of the data segment (`ulimit -d`), read from `/proc`.
//!
//! Where the operating system refuses memory, an allocation aborts the process. What is left is therefore compared with
//! every request. A part is always kept free, for what is too small to be asked for: buffers, stacks, the allocator's own.

use std::sync::OnceLock;

/// Bytes that are never promised to a request.
const KEPT_FREE: u64 = 24 << 20;

/// A limit in bytes, and the name of what it limits in `/proc/self/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    counted: &'static str,
}

/// The limits of this process and the bytes used when they were first asked for.
fn limits() -> &'static [(Limit, u64)] {
    static LIMITS: OnceLock<Vec<(Limit, u64)>> = OnceLock::new();
    LIMITS.get_or_init(|| {
        let limits = parse_limits(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default());
        if limits.is_empty() {
            return Vec::new();
        }
        let status = status();
        limits.into_iter().map(|limit| (limit, parse_size(&status, limit.counted).unwrap_or(0))).collect()
    })
}

/// The contents of `/proc/self/status`; empty where there is none.
fn status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Bytes that the address space had room for when it was first asked for; none where it is not limited.
pub(super) fn room_at_start() -> Option<u64> {
    limits().iter().map(|(limit, used)| limit.bytes.saturating_sub(used + KEPT_FREE)).min()
}

/// The tightest limit and the bytes of it that are in use, those kept free included; none where there is no limit.
pub(super) fn used() -> Option<(u64, u64)> {
    let limits = limits();
    if limits.is_empty() {
        return None;
    }
    let status = status();
    let used = |limit: &Limit| parse_size(&status, limit.counted).unwrap_or(0) + KEPT_FREE;
    limits.iter().map(|(limit, _)| (limit.bytes, used(limit))).min_by_key(|(limit, used)| limit.saturating_sub(*used))
}

/// The bytes in use once everything reserved is allocated, on top of what was in use at the start.
pub(super) fn promised(reserved: u64) -> u64 {
    let used =
        limits().iter().min_by_key(|(limit, used)| limit.bytes.saturating_sub(*used)).map_or(0, |(_, used)| *used);
    used.saturating_add(reserved).saturating_add(KEPT_FREE)
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
