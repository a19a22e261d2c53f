//! Ticks at round numbers, and their labels: steps of 1, 2 or 5 times a power of ten, or whole decades.

/// How an axis maps numbers to lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; numbers are positive.
    Log,
}

impl Scale {
    /// The number as a length in no unit.
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        }
    }
}

/// A place on an axis and what is written there.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Where, in the units of the data.
    pub value: f64,
    /// What.
    pub label: String,
}

/// At most about `count` ticks from `low` to `high`.
pub fn ticks(low: f64, high: f64, scale: Scale, count: usize) -> Vec<Tick> {
    match scale {
        Scale::Linear => linear_ticks(low, high, count),
        Scale::Log => log_ticks(low, high, count),
    }
}

/// The smallest step of 1, 2 or 5 times a power of ten that gives at most `count` intervals.
pub fn nice_step(span: f64, count: usize) -> f64 {
    let raw = span / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    // 1e-9: a step that equals a round number up to rounding is that number.
    [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= raw * (1.0 - 1e-9)).unwrap_or(10.0) * power
}

fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let step = nice_step(high - low, count);
    if !(step > 0.0 && step.is_finite()) {
        return Vec::new();
    }
    let slack = 1e-9 * step;
    let (first, last) = (((low - slack) / step).ceil(), ((high + slack) / step).floor());
    let places = (0..=(last - first).max(0.0) as usize).map(|index| (first + index as f64) * step);
    let most = low.abs().max(high.abs());
    // The digits that the step needs; 0.5 and 0.25 need the decimals of their own.
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let exponent = most >= 1e6 || step < 1e-4;
    places
        .map(|value| {
            let value = if value.abs() < slack { 0.0 } else { value };
            let label = if exponent { with_exponent(value, step) } else { minus(format!("{value:.decimals$}")) };
            Tick { value, label }
        })
        .collect()
}

/// `1.5×10⁶`, with the digits that the step needs.
fn with_exponent(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let power = value.abs().log10().floor();
    let digits = (power - step.log10().floor()).max(0.0) as usize;
    let mantissa = value / 10f64.powf(power);
    minus(format!("{mantissa:.digits$}×{}", power_of_ten(power as i32)))
}

/// Decades, or every second, third … of them; below two decades the numbers 1, 2 and 5 in between.
fn log_ticks(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let (first, last) = (low.log10() - 1e-9, high.log10() + 1e-9);
    let decades = (last.floor() - first.ceil()).max(-1.0) as i32 + 1;
    if decades >= 2 {
        let every = (decades as usize).div_ceil(count.max(1)).max(1);
        let powers = (first.ceil() as i32..=last.floor() as i32).filter(|power| power.rem_euclid(every as i32) == 0);
        return powers.map(|power| Tick { value: 10f64.powi(power), label: power_of_ten(power) }).collect();
    }
    let factors: &[f64] = if count >= 5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let mut found = Vec::new();
    for power in (first.floor() as i32)..=(last.ceil() as i32) {
        for factor in factors {
            let value = factor * 10f64.powi(power);
            if value.log10() >= first && value.log10() <= last {
                found.push(Tick { value, label: number(value) });
            }
        }
    }
    found
}

/// `10⁻³`.
pub fn power_of_ten(power: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digits = power.unsigned_abs().to_string();
    let raised = digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]);
    let sign = if power < 0 { Some('⁻') } else { None };
    "10".chars().chain(sign).chain(raised).collect()
}

/// A number for people: four significant digits, with a power of ten where plain digits would be mostly zeros.
///
/// ```
/// use riemannian_laplace::internals::report::number;
/// assert_eq!(number(0.293_23), "0.2932");
/// assert_eq!(number(-1_234_567.0), "−1.235×10⁶");
/// ```
pub fn number(value: f64) -> String {
    if value.is_nan() {
        return "not a number".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞".to_string() } else { "−∞".to_string() };
    }
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    if rounded == 0.0 || (1e-3..1e5).contains(&rounded.abs()) {
        return minus(rounded.to_string());
    }
    let power = rounded.abs().log10().floor();
    let mantissa: f64 = format!("{:.3}", rounded / 10f64.powf(power)).parse().unwrap_or(1.0);
    minus(format!("{mantissa}×{}", power_of_ten(power as i32)))
}

/// A hyphen in front of a number is a minus sign.
fn minus(text: String) -> String {
    text.strip_prefix('-').map_or(text.clone(), |rest| format!("−{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, scale: Scale, count: usize) -> Vec<String> {
        ticks(low, high, scale, count).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn steps_are_one_two_or_five_times_a_power_of_ten_and_no_more_than_asked_for() {
        for (span, count, step) in [(1.0, 5, 0.2), (1.0, 4, 0.5), (7.3, 5, 2.0), (0.03, 3, 0.01), (950.0, 10, 100.0)] {
            assert!((nice_step(span, count) - step).abs() < 1e-12 * step, "{span} {count}: {}", nice_step(span, count));
        }
        for exponent in -12..12 {
            for mantissa in [1.0, 1.3, 2.0, 3.7, 5.0, 9.99] {
                let span = mantissa * 10f64.powi(exponent);
                for count in 2..9 {
                    let found = ticks(-0.37 * span, 0.63 * span, Scale::Linear, count);
                    assert!((1..=count + 1).contains(&found.len()), "{span} {count}: {found:?}");
                    assert!(found.iter().all(|t| t.value >= -0.371 * span && t.value <= 0.631 * span));
                }
            }
        }
    }

    #[test]
    fn labels_have_the_digits_that_tell_them_apart() {
        assert_eq!(labels(0.0, 1.0, Scale::Linear, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(-20.0, 20.0, Scale::Linear, 4), ["−20", "−10", "0", "10", "20"]);
        assert_eq!(labels(0.0, 3e6, Scale::Linear, 3), ["0", "1×10⁶", "2×10⁶", "3×10⁶"]);
        assert_eq!(labels(0.0, 2e-5, Scale::Linear, 2), ["0", "1×10⁻⁵", "2×10⁻⁵"]);
        for (low, high) in [(1e9, 1e9 + 5.0), (123_456.0, 123_456.5), (-1e-7, 3e-7), (0.1, 0.3)] {
            let found = labels(low, high, Scale::Linear, 5);
            let mut distinct = found.clone();
            distinct.dedup();
            assert_eq!(found, distinct);
        }
    }

    #[test]
    fn decades_are_labelled_as_powers_and_thinned_when_there_are_many() {
        assert_eq!(labels(1e-3, 10.0, Scale::Log, 6), ["10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"]);
        assert_eq!(labels(1e-12, 1e12, Scale::Log, 6), ["10⁻¹⁰", "10⁻⁵", "10⁰", "10⁵", "10¹⁰"]);
        assert_eq!(labels(1.5, 9.0, Scale::Log, 6), ["2", "5"]);
    }

    #[test]
    fn axes_without_extent_or_with_numbers_that_are_none_have_no_ticks() {
        assert!(ticks(1.0, 1.0, Scale::Linear, 5).is_empty());
        assert!(ticks(f64::NAN, 1.0, Scale::Linear, 5).is_empty());
        assert!(ticks(0.0, f64::INFINITY, Scale::Linear, 5).is_empty());
    }

    #[test]
    fn numbers_for_people_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.123_456, "−0.1235"),
            (99_999.7, "1×10⁵"),
            (2.5e-7, "2.5×10⁻⁷"),
            (12345.6, "12350"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "not a number");
        assert_eq!(number(f64::NEG_INFINITY), "−∞");
    }
}
