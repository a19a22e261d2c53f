//! The exact Hessian: against differences of gradients, of a formula, of a linear model, and where it is indefinite.

use ndarray::array;
use riemannian_laplace::{
    Activation, CurvatureKind, Dataset, Error, Family, FitOptions, FunctionModel, Laplace, Network, Structure, Taylor,
};

use crate::common::{
    Outcome, architecture, assert_all_close, normal_matrix, normal_vector, random_data, random_network,
};
use crate::{Case, options};

/// −∇²ℓ u by five-point differences of gradients along u. With steps of 1e-3 truncation is h⁴/30 fifth derivatives, and
/// rounding 1e-16·1e2/h ≈ 1e-11.
fn differences(laplace: &Laplace, direction: &[f64]) -> Result<Vec<f64>, Error> {
    let target = laplace.target("a check")?;
    let mut evaluator = target.evaluator();
    let (step, theta) = (1e-3, laplace.parameters());
    let mut product = vec![0.0; theta.len()];
    for (multiple, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
        let moved: Vec<f64> = theta.iter().zip(direction).map(|(theta, u)| theta + multiple * step * u).collect();
        let mut gradient = vec![0.0; theta.len()];
        evaluator.gradient(&moved, &mut gradient);
        product.iter_mut().zip(&gradient).for_each(|(sum, entry)| *sum -= weight * entry / (12.0 * step));
    }
    Ok(product)
}

#[test]
fn the_hessian_is_the_derivative_of_the_gradient() -> Outcome {
    let mut cases = Case::all()?;
    cases.push(Case::new(2, Family::gaussian_per_output(&[0.4, 0.9])?, 12));
    for case in cases {
        let laplace = case.fit(&options(CurvatureKind::Hessian, Structure::WeightSpace))?;
        for seed in [3, 4] {
            let (direction, mut product) = (normal_vector(case.n_params(), seed), vec![0.0; case.n_params()]);
            laplace.precision().times(&direction, &mut product);
            assert_all_close(&product, &differences(&laplace, &direction)?, 1e-8, &case.name());
        }
    }
    Ok(())
}

#[test]
fn the_hessian_of_a_formula_comes_from_jets() -> Outcome {
    // f(x) = θ₀ exp(−θ₁x), which offers no products of its second derivatives.
    let decay = |theta: &[Taylor], x: &[f64], f: &mut [Taylor]| f[0] = theta[0] * (-theta[1] * x[0]).exp();
    let model = FunctionModel::new(vec![1.8, 0.9], 1, 1, decay)?;
    let data = Dataset::new(array![[0.0], [0.5], [1.0], [2.0]], array![[2.1], [1.1], [0.8], [0.2]])?;
    let options = FitOptions { curvature: CurvatureKind::Hessian, ..Default::default() };
    let laplace = Laplace::fit(model, data, Family::gaussian(0.2)?, &options)?;
    for direction in [[1.0, 0.0], [0.3, -0.7]] {
        let mut product = vec![0.0; 2];
        laplace.precision().times(&direction, &mut product);
        assert_all_close(&product, &differences(&laplace, &direction)?, 1e-9, "a decay");
    }
    Ok(())
}

#[test]
fn without_hidden_layers_the_hessian_is_the_gauss_newton_matrix() -> Outcome {
    for (outputs, family) in [(1, Family::gaussian(0.4)?), (3, "categorical".parse()?), (1, "poisson".parse()?)] {
        let network = random_network(architecture(&[2, outputs], &[true], Activation::Identity), 5);
        let data = random_data(&network, &family, 20, 6);
        let fit = |curvature| {
            let options = FitOptions { curvature, structure: Structure::WeightSpace, ..Default::default() };
            Laplace::fit(network.clone(), data.clone(), family.clone(), &options)
        };
        let [ggn, hessian] = [fit(CurvatureKind::Ggn)?, fit(CurvatureKind::Hessian)?];
        let inputs = normal_matrix(4, 2, 7);
        let [ggn, hessian] = [ggn.linearized(&inputs)?.covariance, hessian.linearized(&inputs)?.covariance];
        assert_all_close(&ggn, &hessian, 1e-12, family.likelihood().name());
    }
    Ok(())
}

#[test]
fn an_indefinite_hessian_says_how_much_prior_it_needs() -> Outcome {
    // A network that was never trained: residuals of order 1 at σ = 0.1.
    let case = Case::new(1, Family::gaussian(0.1)?, 30);
    let fit = |prior: f64| {
        let curvature = CurvatureKind::Hessian;
        case.fit(&FitOptions { prior_precision: prior.into(), curvature, ..Default::default() })
    };
    let error = fit(1e-3).expect_err("an indefinite Hessian");
    let Error::IndefiniteHessian { least, shared: Some(prior) } = error else { panic!("{error}") };
    assert!(least < 0.0 && prior == 1e-3, "{error}");
    assert!(error.to_string().contains("raise the prior precision to at least"), "{error}");
    fit(1.001 * (prior - least))?;
    assert!(matches!(fit(0.999 * (prior - least)), Err(Error::IndefiniteHessian { .. })));
    let layers = FitOptions {
        prior_precision: vec![1e-3, 1e-3].into(),
        curvature: CurvatureKind::Hessian,
        ..Default::default()
    };
    let error = case.fit(&layers).expect_err("an indefinite Hessian");
    assert!(error.to_string().contains("raise every prior precision by at least"), "{error}");
    let _: &Network = &case.network;
    Ok(())
}
