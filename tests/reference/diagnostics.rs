//! R̂ and effective sample sizes of chains whose mixing is known in closed form.

use std::path::Path;

use ndarray::{Array2, ArrayView1, Axis, array};
use riemannian_laplace::internals::paper::reference::{
    Convergence, Diagnostics, InvalidChains, LEAST_BULK_ESS, WORST_R_HAT,
};
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::{Error, Result};

/// Stationary chains xₜ = φxₜ₋₁ + √(1 − φ²)·εₜ, one after another.
fn autoregressive(coefficient: f64, chains: usize, length: usize, seed: u64) -> Vec<f64> {
    let mut values = vec![0.0; chains * length];
    fill_standard_normal(&mut stream(seed, Purpose::Velocity, 0), &mut values);
    let noise = (1.0 - coefficient * coefficient).sqrt();
    for chain in values.chunks_exact_mut(length) {
        for t in 1..length {
            chain[t] = coefficient * chain[t - 1] + noise * chain[t];
        }
    }
    values
}

fn of(values: &[f64], chains: usize) -> Result<Convergence> {
    Convergence::of(ArrayView1::from(values), chains)
}

#[test]
fn independent_draws_are_worth_their_number() -> Result<()> {
    let values = autoregressive(0.0, 4, 2500, 1);
    let convergence = of(&values, 4)?;
    assert!((convergence.r_hat - 1.0).abs() < 0.003, "{convergence:?}");
    for size in [convergence.bulk_ess, convergence.mean_ess] {
        assert!((size / 10_000.0 - 1.0).abs() < 0.1, "{convergence:?}");
    }
    Ok(())
}

/// ESS/n = (1 − φ)/(1 + φ), above 1 for antithetic chains. Estimates scatter by a few per cent at this length.
#[test]
fn autoregressive_chains_have_their_effective_size() -> Result<()> {
    for (coefficient, tolerance) in [(0.3, 0.08), (0.5, 0.08), (0.9, 0.15), (-0.3, 0.08), (-0.5, 0.1)] {
        for seed in 1..4 {
            let values = autoregressive(coefficient, 4, 20_000, seed);
            let convergence = of(&values, 4)?;
            let expected = 80_000.0 * (1.0 - coefficient) / (1.0 + coefficient);
            let found = convergence.mean_ess;
            assert!((found / expected - 1.0).abs() < tolerance, "{coefficient}: {found}, expected {expected}");
            assert!(convergence.r_hat < 1.01, "{coefficient}: {convergence:?}");
        }
    }
    Ok(())
}

/// ArviZ computes the same from the same chains. Its normal scores are exact, ours to 1.2e-9.
#[test]
fn agrees_with_arviz() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reference/arviz.json");
    let reference: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let cases = reference["cases"].as_array().ok_or("no cases")?;
    assert_eq!(cases.len(), 10);
    for case in cases {
        let values: Vec<f64> = serde_json::from_value(case["values"].clone())?;
        let found = of(&values, case["chains"].as_u64().ok_or("no chains")? as usize)?;
        for (name, found) in [("r_hat", found.r_hat), ("bulk_ess", found.bulk_ess), ("mean_ess", found.mean_ess)] {
            // ArviZ has no R̂ for a single chain; we compare its halves.
            let Some(expected) = case[name].as_f64() else { continue };
            assert!((found / expected - 1.0).abs() < 1e-7, "{}, {name}: {found}, ArviZ {expected}", case["name"]);
        }
    }
    Ok(())
}

#[test]
fn ranks_do_not_see_monotone_transformations_or_heavy_tails() -> Result<()> {
    let values = autoregressive(0.5, 4, 1000, 2);
    let stretched: Vec<f64> = values.iter().map(|value| value.exp()).collect();
    assert_eq!(of(&values, 4)?.bulk_ess, of(&stretched, 4)?.bulk_ess);
    // Ratios of normals are Cauchy: no mean, but a bulk.
    let (above, below) = (autoregressive(0.0, 4, 1000, 3), autoregressive(0.0, 4, 1000, 4));
    let cauchy: Vec<f64> = above.iter().zip(&below).map(|(a, b)| a / b).collect();
    let convergence = of(&cauchy, 4)?;
    assert!(convergence.r_hat < 1.01 && (convergence.bulk_ess / 4000.0 - 1.0).abs() < 0.2, "{convergence:?}");
    Ok(())
}

#[test]
fn chains_that_differ_are_seen() -> Result<()> {
    let values = autoregressive(0.0, 4, 1000, 6);
    let mut shifted = values.clone();
    shifted[..1000].iter_mut().for_each(|value| *value += 2.0);
    let mut wide = values.clone();
    wide[..1000].iter_mut().for_each(|value| *value *= 4.0);
    // The same trend in every chain: only halves disagree.
    let trend: Vec<f64> = values.iter().enumerate().map(|(i, value)| value + 2e-3 * (i % 1000) as f64).collect();
    for (what, values) in [("shift", shifted), ("scale", wide), ("trend", trend)] {
        let convergence = of(&values, 4)?;
        assert!(convergence.r_hat > 1.1, "{what}: {convergence:?}");
    }
    Ok(())
}

/// A quantity that never changes tells nothing: its R̂ is unknown, and refused. Chains that stay at different points
/// have R̂ = ∞.
#[test]
fn chains_that_stand_still() -> Result<()> {
    let still = of(&[0.1; 400], 4)?;
    assert!(still.r_hat.is_nan() && still.bulk_ess.is_nan() && still.mean_ess.is_nan());
    let apart: Vec<f64> = (0..400).map(|i| 0.1 * f64::from(i / 100)).collect();
    let convergence = of(&apart, 4)?;
    assert_eq!(convergence.r_hat, f64::INFINITY);
    assert!(convergence.bulk_ess < 10.0, "{convergence:?}");

    let moving = autoregressive(0.0, 4, 1000, 7);
    let values = Array2::from_shape_fn((4000, 2), |(row, column)| if column == 0 { moving[row] } else { 0.1 });
    let diagnostics = Diagnostics::of(values.view(), 4)?;
    assert!(matches!(diagnostics.worst_r_hat(), Some((1, r_hat)) if r_hat.is_nan()));
    assert!(matches!(diagnostics.least_bulk_ess(), Some((1, size)) if size.is_nan()));
    assert!(diagnostics.verdict().is_err());
    let first = Diagnostics::of(values.view().split_at(Axis(1), 1).0, 4)?.verdict()?;
    assert!(first.r_hat <= WORST_R_HAT && first.bulk_ess >= LEAST_BULK_ESS);
    Ok(())
}

#[test]
fn a_binary_quantity_has_diagnostics() -> Result<()> {
    let signs: Vec<f64> = autoregressive(0.0, 4, 1000, 8).iter().map(|value| value.signum()).collect();
    let convergence = of(&signs, 4)?;
    assert!(convergence.r_hat < 1.01 && convergence.bulk_ess > 3000.0, "{convergence:?}");
    Ok(())
}

#[test]
fn what_cannot_be_diagnosed() -> Result<()> {
    let values = array![[1.0], [2.0], [f64::INFINITY]];
    assert!(matches!(Diagnostics::of(values.view(), 1), Err(Error::NotFinite { row: 2, column: 0, .. })));
    assert!(matches!(
        Diagnostics::of(values.view(), 2),
        Err(Error::Chains(InvalidChains::Unequal { chains: 2, draws: 3 }))
    ));
    assert!(matches!(
        Diagnostics::of(values.view(), 0),
        Err(Error::Chains(InvalidChains::Unequal { chains: 0, draws: 3 }))
    ));
    assert!(of(&[1.0, 2.0, 3.0], 1)?.r_hat.is_nan());
    assert!(of(&[], 1)?.r_hat.is_nan());
    let nothing = Diagnostics::of(Array2::zeros((100, 0)).view(), 4)?;
    assert!(nothing.worst_r_hat().is_none() && nothing.verdict().is_err());
    // Eleven draws make halves of five, one too few; twelve are enough.
    assert!(of(&autoregressive(0.0, 1, 11, 9), 1)?.r_hat.is_nan());
    assert!(of(&autoregressive(0.0, 1, 12, 9), 1)?.r_hat.is_finite());
    Ok(())
}
