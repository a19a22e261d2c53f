//! How long work will take, said before it starts, from counted multiply-adds.

use super::console::Console;

/// Work below this many seconds is not announced.
pub const LEAST_SECONDS: f64 = 10.0;

/// Says how long work will take and what would be faster, where it is long.
pub fn announce(console: &Console, seconds: f64, what: &str, faster: &str) {
    if seconds >= LEAST_SECONDS {
        console.note(format!("{what} takes about {}; {faster}", duration(seconds)));
    }
}

/// `40 s`, `7 min`, `3 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 2.0 * 86_400.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_reads_well() {
        let words: Vec<String> = [12.4, 89.0, 420.0, 7200.0, 1e6].map(duration).to_vec();
        assert_eq!(words, ["12 s", "89 s", "7 min", "2 h", "12 days"]);
    }
}
