//! Numbers in sentences.

use super::number;

/// `1 point`, `2 points`, `12,345 points`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

/// `12,345`.
pub(super) fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `91.2 %`; whole numbers without a decimal.
pub(super) fn percent(share: f64) -> String {
    let tenths = format!("{:.1}", 100.0 * share);
    format!("{} %", tenths.strip_suffix(".0").unwrap_or(&tenths))
}

/// `0.0073 ± 0.0032`: the error with two significant digits, the value to the same place.
pub(super) fn plus_minus(value: f64, error: f64) -> String {
    if !(error.is_finite() && value.is_finite() && error > 0.0) {
        return format!("{} ± {}", number(value), number(error));
    }
    let decimals = 1.0 - error.log10().floor();
    if !(0.0..=6.0).contains(&decimals) {
        return format!("{} ± {}", number(value), number(error));
    }
    let decimals = decimals as usize;
    format!("{value:.decimals$} ± {error:.decimals$}").replace('-', "−")
}

/// Mean and standard error of the mean.
pub(super) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (square / (count - 1.0).max(1.0) / count.max(1.0)).sqrt())
}

/// How much greater the log densities of one method are than another's on the same rows: mean and standard error.
pub(super) fn gain_over(one: &[f64], other: &[f64]) -> (f64, f64) {
    let differences: Vec<f64> = one.iter().zip(other).map(|(a, b)| a - b).collect();
    mean_and_error(&differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shares_read_well() {
        assert_eq!(counted(1, "point"), "1 point");
        assert_eq!(counted(0, "point"), "0 points");
        assert_eq!(counted(1_234_567, "row"), "1,234,567 rows");
        assert_eq!(thousands(999), "999");
        assert_eq!(percent(0.9), "90 %");
        assert_eq!(percent(0.9123), "91.2 %");
    }

    #[test]
    fn errors_have_two_digits_and_values_as_many_decimals() {
        assert_eq!(plus_minus(0.007_271, 0.003_219), "0.0073 ± 0.0032");
        assert_eq!(plus_minus(-1.8561, 1.2741), "−1.9 ± 1.3");
        assert_eq!(plus_minus(123.4, 45.6), "123 ± 46");
        assert_eq!(plus_minus(1234.0, 456.0), "1234 ± 456");
        assert_eq!(plus_minus(0.0, 0.0), "0 ± 0");
        assert_eq!(plus_minus(f64::NAN, 1.0), "not a number ± 1");
    }

    #[test]
    fn the_standard_error_is_that_of_the_mean() {
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(mean, 2.5);
        assert!((error - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert_eq!(mean_and_error(&[2.0]), (2.0, 0.0));
    }
}
