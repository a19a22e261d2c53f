//! Rank normalisation: z = Φ⁻¹((r − 3/8)/(S + 1/4)) with r the rank among all S draws (Vehtari et al. 2021, equation
//! 14), so that diagnostics need no finite moments and see every monotone transformation alike.

/// The normal score of every value; ties share their mean rank.
pub(super) fn normal_scores(values: &[f64]) -> Vec<f64> {
    let count = values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut scores = vec![0.0; count];
    let mut first = 0;
    while first < count {
        let tied = order[first..].iter().take_while(|&&i| values[i] == values[order[first]]).count().max(1);
        let mean_rank = first as f64 + 0.5 * (tied + 1) as f64;
        let score = normal_quantile((mean_rank - 0.375) / (count as f64 + 0.25));
        order[first..first + tied].iter().for_each(|&i| scores[i] = score);
        first += tied;
    }
    scores
}

/// |x − median|: lets R̂ detect chains with the same location and different scales.
pub(super) fn folded(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let median = match sorted.len() {
        0 => return sorted,
        count if count % 2 == 1 => sorted[half],
        _ => 0.5 * (sorted[half - 1] + sorted[half]),
    };
    values.iter().map(|value| (value - median).abs()).collect()
}

/// Φ⁻¹(p) for 0 < p < 1, to a relative error of 1.2e-9 (Acklam's rational approximations): far below the resolution of
/// ranks in a finite sample.
fn normal_quantile(probability: f64) -> f64 {
    const CENTRAL_ABOVE: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const CENTRAL_BELOW: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const TAIL_ABOVE: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const TAIL_BELOW: [f64; 5] =
        [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
    const TAIL: f64 = 0.02425;

    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    if probability > 0.5 {
        return -normal_quantile(1.0 - probability);
    }
    if probability < TAIL {
        let x = (-2.0 * probability.ln()).sqrt();
        return polynomial(&TAIL_ABOVE, x) / polynomial(&TAIL_BELOW, x);
    }
    let x = probability - 0.5;
    x * polynomial(&CENTRAL_ABOVE, x * x) / polynomial(&CENTRAL_BELOW, x * x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_the_error_function() {
        for step in 1..2000 {
            let probability = f64::from(step) / 2000.0;
            let back = 0.5 * libm::erfc(-normal_quantile(probability) * std::f64::consts::FRAC_1_SQRT_2);
            // dp = φ(z)dz, and |z|φ(z) < 0.25: an error of 1.2e-9·|z| moves p by less than 3e-10.
            assert!((back - probability).abs() < 5e-10, "{probability}: {back}");
        }
        for exponent in 4..12 {
            let probability = 10f64.powi(-exponent);
            let back = 0.5 * libm::erfc(-normal_quantile(probability) * std::f64::consts::FRAC_1_SQRT_2);
            // Relatively, p moves by z²·1.2e-9 < 6e-8.
            assert!((back / probability - 1.0).abs() < 1e-7, "{probability}: {back}");
        }
    }

    #[test]
    fn ties_share_their_mean_rank() {
        let scores = normal_scores(&[3.0, 1.0, 3.0, 2.0]);
        assert_eq!(scores[0], scores[2]);
        assert!((scores[0] - normal_quantile((3.5 - 0.375) / 4.25)).abs() < 1e-15);
        assert!((scores[1] - normal_quantile((1.0 - 0.375) / 4.25)).abs() < 1e-15);
    }

    #[test]
    fn folding_is_around_the_median() {
        assert_eq!(folded(&[1.0, 5.0, 2.0]), [1.0, 3.0, 0.0]);
        assert_eq!(folded(&[1.0, 2.0, 4.0, 8.0]), [2.0, 1.0, 1.0, 5.0]);
        assert!(folded(&[]).is_empty());
    }
}
