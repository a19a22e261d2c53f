//! Arguments that several commands share, and the parsers of single values.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use riemannian_laplace::internals::likelihood::{Entry, REGISTER, TargetKind};
use riemannian_laplace::{Activation, Family};

/// A likelihood by name.
#[derive(Debug, Clone, Copy)]
pub struct LikelihoodName(&'static Entry);

impl ValueEnum for LikelihoodName {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: OnceLock<Vec<LikelihoodName>> = OnceLock::new();
        ALL.get_or_init(|| REGISTER.iter().map(LikelihoodName).collect())
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.help))
    }
}

impl LikelihoodName {
    /// The name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The kind of its targets.
    pub fn kind(self) -> TargetKind {
        self.0.family().likelihood().kind()
    }

    /// Whether the targets are classes, which may be named by words.
    pub fn takes_classes(self) -> bool {
        self.kind().has_classes()
    }

    /// Whether the targets are real numbers, which may be standardised.
    pub fn takes_reals(self) -> bool {
        self.kind().has_units()
    }

    /// The family of that name, with default parameters.
    pub fn family(self) -> Family {
        self.0.family()
    }
}

/// Parses an activation; the error lists all of them.
pub fn activation() -> impl TypedValueParser<Value = Activation> {
    PossibleValuesParser::new(Activation::ALL.map(Activation::name)).try_map(|name| name.parse::<Activation>())
}

/// Parses a positive finite number.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("it must be a positive finite number".to_string()),
    }
}

/// Parses a finite number.
pub fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("it must be a finite number".to_string()),
    }
}

/// Parses a number between 0 and 1, both excluded.
pub fn share(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && 0.5 * (1.0 + value) < 1.0 => Ok(value),
        _ => Err("it must be a number between 0 and 1".to_string()),
    }
}

/// Parses a number from 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("it must be a number from 0 to 1".to_string()),
    }
}

/// Parses a finite number that is at least zero.
pub fn non_negative(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("it must be a finite number, at least 0".to_string()),
    }
}

/// Parses a whole number that is at least one.
pub fn count(text: &str) -> Result<usize, String> {
    match text.trim().parse::<usize>() {
        Ok(value) if value > 0 => Ok(value),
        _ => Err("it must be a whole number, at least 1".to_string()),
    }
}

/// Parses a time: seconds, or a number with s, m or h.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) = match text.chars().last() {
        Some('s') => (text.trim_end_matches('s'), 1.0),
        Some('m') => (text.trim_end_matches('m'), 60.0),
        Some('h') => (text.trim_end_matches('h'), 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * unit);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "it must be a time such as 90s, 10m or 2h".to_string())
}

/// The most samples of one command. The error of a mean over as many is below 1e-3 of a standard deviation.
const MOST_SAMPLES: usize = 10_000_000;

/// Parses a number of samples.
pub fn samples(text: &str) -> Result<usize, String> {
    match count(text)? {
        samples if samples <= MOST_SAMPLES => Ok(samples),
        _ => Err(format!("at most {MOST_SAMPLES} samples can be drawn at once")),
    }
}

/// Parses a range `A..B` with at least one number in it.
pub fn range(text: &str) -> Result<Range<usize>, String> {
    let parsed = text.split_once("..").and_then(|(start, end)| {
        let (start, end) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
        (start < end).then_some(start..end)
    });
    match parsed {
        Some(range) if range.len() > MOST_SAMPLES => {
            Err(format!("at most {MOST_SAMPLES} samples can be drawn at once"))
        }
        parsed => parsed.ok_or_else(|| "it must be A..B with whole numbers A < B, such as 100..200".to_string()),
    }
}

/// Parses an amount of memory: bytes, or a number with a decimal (GB) or binary (GiB) unit.
pub fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KIB", 1024.0),
        ("MIB", 1_048_576.0),
        ("GIB", 1_073_741_824.0),
        ("TIB", 1_099_511_627_776.0),
        ("B", 1.0),
    ];
    let upper = text.trim().to_ascii_uppercase();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| upper.strip_suffix(name).map(|number| (number, *unit)))
        .unwrap_or((upper.as_str(), 1.0));
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value * unit >= 1.0 => Ok((value * unit) as u64),
        _ => Err("it must be a positive amount such as 2GB, 500MB or 4096 (bytes)".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_understood() {
        assert_eq!(range("0..3"), Ok(0..3));
        assert_eq!(range("100..200"), Ok(100..200));
        for text in ["", "3", "..3", "3..", "3..3", "5..3", "-1..3", "1..=3", "0..18446744073709551616"] {
            assert!(range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_of_memory_are_understood() {
        assert_eq!(bytes("2GB"), Ok(2_000_000_000));
        assert_eq!(bytes("0.5 gib"), Ok(536_870_912));
        assert_eq!(bytes("500mb"), Ok(500_000_000));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("10B"), Ok(10));
        for text in ["", "GB", "-1GB", "0", "inf", "nan", "2 apples"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
