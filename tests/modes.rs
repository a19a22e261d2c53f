//! Training to a mode, and the choice of a prior by cross-validation: against normal equations, gradients and closed forms.

mod common;

use common::{Outcome, is_close, normal_matrix, random_data, random_network};
use ndarray::{Array2, array};
use riemannian_laplace::internals::evaluate::{
    ClosedForms, PriorPathOptions, stacking_weights, train_along_priors, train_committee,
};
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::internals::likelihood::{Bernoulli, Categorical, Poisson};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Error, Family, Laplace, Link, Network, PriorValues, Unsupported,
};

/// y = 2x + 1 and noise of size 0.3, in a fixed sequence.
fn line(points: usize) -> Result<Dataset, Error> {
    let (inputs, noise) = (normal_matrix(points, 1, 1), normal_matrix(points, 1, 2));
    let targets = Array2::from_shape_fn((points, 1), |at| 1.0 + 2.0 * inputs[at] + 0.3 * noise[at]);
    Dataset::new(inputs, targets)
}

fn straight() -> Result<Network, Error> {
    Ok(Network::random(Architecture::new(&[1, 1], Activation::Identity)?, 3))
}

/// The weights (w, b) of ridge regression by the normal equations, its sum of squared errors and its effective parameters.
fn ridge(data: &Dataset, alpha: f64, sigma: f64) -> ([f64; 2], f64, f64) {
    let scale = sigma.powi(-2);
    let (mut xx, mut x1, mut xy, mut y1) = (0.0, 0.0, 0.0, 0.0);
    for (x, y) in data.inputs().iter().zip(data.targets()) {
        (xx, x1, xy, y1) = (xx + scale * x * x, x1 + scale * x, xy + scale * x * y, y1 + scale * y);
    }
    let n = scale * data.len() as f64;
    let determinant = (xx + alpha) * (n + alpha) - x1 * x1;
    let theta = [((n + alpha) * xy - x1 * y1) / determinant, ((xx + alpha) * y1 - x1 * xy) / determinant];
    let error = |(x, y): (&f64, &f64)| (y - theta[0] * x - theta[1]).powi(2);
    let errors = data.inputs().iter().zip(data.targets()).map(error).sum();
    let inverse_trace = (xx + n + 2.0 * alpha) / determinant;
    (theta, errors, 2.0 - alpha * inverse_trace)
}

#[test]
fn a_straight_line_ends_at_the_solution_of_the_normal_equations() -> Outcome {
    let (data, alpha) = (line(30)?, 0.7);
    let options = ModeOptions { prior_precision: alpha.into(), tolerance: 1e-20, ..Default::default() };
    let fixed = ModeOptions { noise: Noise::Fixed, ..options.clone() };
    let mode = train_to_mode(&straight()?, &data, &Family::gaussian(0.5)?, &fixed, &())?;
    let (theta, ..) = ridge(&data, alpha, 0.5);
    assert!(mode.converged && mode.laplace.family().sigma() == Some(&[0.5]));
    // Steps whose gain rounds to zero: 1e-8 of the weights.
    for (found, expected) in mode.network.parameters().iter().zip(theta) {
        assert!(is_close(*found, expected, 1e-7, 0.0), "{found} for {expected}");
    }
    // σ² = ‖y − f‖²/(N − γ), known to the 2e-3 at which it counts as settled.
    let mode = train_to_mode(&straight()?, &data, &Family::gaussian(0.5)?, &options, &())?;
    let sigma = mode.laplace.sigma().ok_or("no sigma")?[0];
    let (theta, errors, gamma) = ridge(&data, alpha, sigma);
    assert!(is_close(sigma * sigma, errors / (30.0 - gamma), 2e-3, 0.0));
    assert!(is_close(mode.laplace.effective_parameters(), gamma, 1e-9, 0.0));
    assert!(is_close(mode.network.parameters()[0], theta[0], 1e-6, 0.0));
    Ok(())
}

/// What a Newton step would still gain: ½gᵀG⁻¹g.
fn gain_left(laplace: &Laplace) -> Result<f64, Error> {
    let mut gradient = vec![0.0; laplace.parameters().len()];
    laplace.target("a test")?.evaluator().gradient(laplace.parameters(), &mut gradient);
    let mut step = gradient.clone();
    laplace.precision().solve(&gradient, &mut step);
    Ok(0.5 * step.iter().zip(&gradient).map(|(a, b)| a * b).sum::<f64>())
}

#[test]
fn the_gradient_vanishes_at_the_mode_whatever_the_likelihood() -> Outcome {
    for (family, outputs) in [
        (Family::gaussian(1.0)?, 1),
        (Family::new(Bernoulli), 1),
        (Family::new(Categorical), 3),
        (Family::new(Poisson), 1),
    ] {
        let truth = random_network(Architecture::new(&[2, 4, outputs], Activation::Tanh)?, 5);
        let data = random_data(&truth, &family, 60, 6);
        let start = Network::random(Architecture::new(&[2, 6, outputs], Activation::Tanh)?, 7);
        for prior in [PriorValues::Shared(2.0), PriorValues::PerGroup(vec![1.0, 3.0])] {
            let options =
                ModeOptions { prior_precision: prior.clone(), tolerance: 1e-6, steps: 500, ..Default::default() };
            let mode = train_to_mode(&start, &data, &family, &options, &())?;
            assert!(mode.converged, "{family:?} {prior:?}: {} steps, {}", mode.steps, mode.last_gain);
            // Gauss-Newton steps converge linearly, slowly where the network's own curvature is nearly that of the prior, so
            // more may be left than the last step gained (measured: 1e-3 nats of hundreds).
            let left = gain_left(&mode.laplace)?;
            assert!((0.0..1e-2).contains(&left), "{family:?} {prior:?}: {left}");
            assert_eq!(mode.laplace.prior().values().len(), if prior == PriorValues::Shared(2.0) { 1 } else { 2 });
            // From there, no step is needed, and the same call gives the same bits.
            let again = train_to_mode(&start, &data, &family, &options, &())?;
            assert_eq!(again.network.parameters(), mode.network.parameters());
        }
    }
    Ok(())
}

#[test]
fn one_fold_per_row_is_leave_one_out() -> Outcome {
    let data = line(12)?;
    let mode = ModeOptions { noise: Noise::Fixed, tolerance: 1e-18, ..Default::default() };
    let options = PriorPathOptions {
        precisions: vec![3.0, 1.0],
        folds: 12,
        on_the_way: mode.clone(),
        at_the_end: mode,
        ..Default::default()
    };
    let path = train_along_priors(&straight()?, &data, &Family::gaussian(0.4)?, &options, &())?;
    assert_eq!(path.best, path.steps[1]);
    // A linear model at its mode: the closed form is exact.
    let closed = ClosedForms::of(&path.mode.laplace, Link::default())?;
    let expected = closed.linearized.elpd() / 12.0;
    assert!(is_close(path.steps[1].held_out, expected, 1e-8, 0.0), "{} for {expected}", path.steps[1].held_out);
    Ok(())
}

#[test]
fn pure_noise_gets_the_strongest_prior_and_a_clear_signal_a_weaker_one() -> Outcome {
    let inputs = normal_matrix(90, 2, 11);
    let noise = normal_matrix(90, 1, 12);
    let signal = Array2::from_shape_fn((90, 1), |(n, _)| {
        (2.0 * inputs[(n, 0)]).sin() + inputs[(n, 1)].cos() + 0.05 * noise[(n, 0)]
    });
    let start = Network::random(Architecture::new(&[2, 15, 1], Activation::Tanh)?, 1);
    let (family, options) = (Family::gaussian(1.0)?, PriorPathOptions::default());
    let path = |targets: Array2<f64>| -> Result<_, Error> {
        train_along_priors(&start, &Dataset::new(inputs.clone(), targets)?, &family, &options, &())
    };
    let (noisy, clear) = (path(noise.clone())?, path(signal)?);
    assert_eq!(noisy.best, noisy.steps[0], "{:?}", noisy.steps);
    assert!(clear.best.prior_precision < 5.0, "{:?}", clear.steps);
    let sigma = clear.mode.laplace.sigma().ok_or("no sigma")?[0];
    // 90 points leave σ known to a tenth; the rest is what 15 units cannot follow.
    assert!((0.03..0.09).contains(&sigma), "{sigma} {:?}", clear.steps);
    Ok(())
}

#[test]
fn what_makes_no_path_is_refused() -> Outcome {
    let (data, start, family) = (line(10)?, straight()?, Family::gaussian(1.0)?);
    for precisions in [vec![], vec![1.0, 2.0], vec![1.0, 0.0], vec![f64::NAN]] {
        let options = PriorPathOptions { precisions, ..Default::default() };
        assert!(matches!(train_along_priors(&start, &data, &family, &options, &()), Err(Error::Training(_))));
    }
    for folds in [0, 1, 11] {
        let options = PriorPathOptions { folds, ..Default::default() };
        assert!(matches!(train_along_priors(&start, &data, &family, &options, &()), Err(Error::Training(_))));
    }
    for options in [
        ModeOptions { steps: 0, ..Default::default() },
        ModeOptions { tolerance: 0.0, ..Default::default() },
        ModeOptions { tolerance: f64::NAN, ..Default::default() },
    ] {
        assert!(matches!(train_to_mode(&start, &data, &family, &options, &()), Err(Error::Training(_))));
    }
    let two = Network::random(Architecture::new(&[1, 2], Activation::Identity)?, 0);
    let data = Dataset::new(array![[0.0], [1.0]], array![[0.0, 1.0], [1.0, 0.0]])?;
    let levels = Family::gaussian_per_output(&[1.0, 2.0])?;
    let refused = train_to_mode(&two, &data, &levels, &ModeOptions::default(), &());
    assert!(matches!(refused, Err(Error::Unsupported(Unsupported::OnlineSigmas { levels: 2 }))));
    let fixed = ModeOptions { noise: Noise::Fixed, ..Default::default() };
    assert!(train_to_mode(&two, &data, &levels, &fixed, &())?.converged);
    Ok(())
}

#[test]
fn a_committee_of_one_prior_is_the_posteriors_without_each_fold() -> Outcome {
    let (data, alpha, sigma) = (line(12)?, 0.7, 0.4);
    let mode = ModeOptions { noise: Noise::Fixed, tolerance: 1e-18, ..Default::default() };
    let options = PriorPathOptions {
        precisions: vec![alpha],
        folds: 12,
        on_the_way: mode.clone(),
        at_the_end: mode,
        ..Default::default()
    };
    let family = Family::gaussian(sigma)?;
    let committee = train_committee(&straight()?, &data, &family, &options, &())?;
    assert_eq!(committee.members.len(), 12);
    // Each is the ridge regression of its own eleven points.
    for member in &committee.members {
        assert!(is_close(member.weight, 1.0 / 12.0, 1e-15, 0.0));
        let (theta, ..) = ridge(member.laplace.data().ok_or("no data")?, alpha, sigma);
        assert_eq!(member.laplace.n_data(), 11);
        for (found, expected) in member.laplace.parameters().iter().zip(theta) {
            assert!(is_close(*found, expected, 1e-7, 0.0), "{found} for {expected}");
        }
    }
    // Together they are also one way to predict with the first.
    let inputs = array![[0.3], [4.0]];
    let prediction = committee.predict(&inputs)?;
    let (first, method) = committee.clone().into_method()?;
    let same = first.predict(&inputs, &method)?;
    assert_eq!((&prediction.mean, &prediction.total_variance), (&same.mean, &same.total_variance));
    // A linear model at its mode: leave-one-out in closed form is exact.
    let all = Laplace::fit(
        train_to_mode(
            &straight()?,
            &data,
            &family,
            &ModeOptions { prior_precision: alpha.into(), ..options.at_the_end },
            &(),
        )?
        .network,
        data.clone(),
        family,
        &riemannian_laplace::FitOptions { prior_precision: alpha.into(), ..Default::default() },
    )?;
    let expected = ClosedForms::of(&all, Link::default())?.linearized.elpd() / 12.0;
    assert!(is_close(committee.held_out, expected, 1e-8, 0.0), "{} for {expected}", committee.held_out);
    Ok(())
}

#[test]
fn stacked_weights_meet_the_conditions_of_a_maximum() -> Outcome {
    let logs = normal_matrix(5, 200, 8).mapv(|value| 1.5 * value);
    let weights = stacking_weights(logs.view())?;
    assert!(is_close(weights.iter().sum(), 1.0, 1e-12, 0.0));
    // Karush, Kuhn and Tucker: mean p_j/mixture is 1 where the weight is positive, and at most 1 elsewhere. The last step gained
    // 1e-10 nats, so the conditions hold to about its root.
    for j in 0..5 {
        let ratio = |n: usize| logs[(j, n)].exp() / (0..5).map(|i| weights[i] * logs[(i, n)].exp()).sum::<f64>();
        let slope = (0..200).map(ratio).sum::<f64>() / 200.0;
        assert!(slope < 1.0 + 1e-4, "{j}: {slope}");
        assert!(weights[j] < 1e-2 || (slope - 1.0).abs() < 1e-4, "{j}: {slope} with weight {}", weights[j]);
    }
    // One that is better everywhere has all the weight.
    let clear = Array2::from_shape_fn((2, 30), |(j, n)| (n as f64).sin() - j as f64);
    assert!(stacking_weights(clear.view())?[0] > 1.0 - 1e-6);
    assert!(stacking_weights(Array2::zeros((0, 3)).view()).is_err());
    assert!(stacking_weights(array![[f64::NAN]].view()).is_err());
    Ok(())
}
