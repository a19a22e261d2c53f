//! Activations against exact references, finite differences and their symmetries, and the slice forms against the
//! scalar.

use std::collections::BTreeMap;
use std::error::Error;

use riemannian_laplace::Activation;
use riemannian_laplace::internals::elementary;

type Outcome = Result<(), Box<dyn Error>>;

const EPSILON: f64 = f64::EPSILON;

/// The slope of silu, gelu and gelu_tanh and the second derivative of silu and gelu_tanh change sign away from zero:
/// near such a root an error can only be relative to the summands, which are at most 1.
fn crosses_zero(activation: Activation, order: usize) -> bool {
    match activation {
        Activation::Silu | Activation::GeluTanh => order > 0,
        Activation::Gelu => order == 1,
        _ => false,
    }
}

#[test]
fn agrees_with_exact_references() -> Outcome {
    let text = include_str!("fixtures/activation/reference.json");
    let tables: BTreeMap<String, Vec<[String; 4]>> = serde_json::from_str(text)?;
    assert_eq!(tables.len(), Activation::ALL.len());
    for (name, rows) in &tables {
        let activation: Activation = name.parse()?;
        assert!(rows.len() >= 60);
        for row in rows {
            let z: f64 = row[0].parse()?;
            let (value, slope, second) = activation.derivatives(z);
            for (order, got) in [value, slope, second].into_iter().enumerate() {
                let exact: f64 = row[order + 1].parse()?;
                // An ulp is half an eps to one eps; the largest error on 40,000 other points was 6.6 ulp.
                let summands = if crosses_zero(activation, order) && z.abs() < 3.0 { 1.0 } else { 0.0 };
                let tolerance = 4.0 * EPSILON * exact.abs().max(summands);
                assert!((got - exact).abs() <= tolerance, "{name} order {order} at {z}: {got} for {exact}");
            }
        }
    }
    Ok(())
}

#[test]
fn derivatives_match_central_differences() {
    let step = 1e-5;
    for activation in Activation::ALL {
        for i in -50..50 {
            let z = 0.1 * f64::from(i) + 0.037; // no hinge within a step
            let (_, slope, second) = activation.derivatives(z);
            let (below, above) = (activation.derivatives(z - step), activation.derivatives(z + step));
            // Truncation |f‴| step²/6 < 1e-10, rounding eps |f|/step < 1.2e-10 for |f| < 5.
            for (difference, exact) in [(above.0 - below.0, slope), (above.1 - below.1, second)] {
                let numeric = difference / (2.0 * step);
                assert!((numeric - exact).abs() < 4e-10, "{activation} at {z}: {numeric} for {exact}");
            }
        }
    }
}

#[test]
fn finite_and_right_far_out() {
    for activation in Activation::ALL {
        for magnitude in [1e3, 1e5, 1e154, 1e200, 1e308, f64::MAX] {
            for z in [-magnitude, magnitude] {
                let (value, slope, second) = activation.derivatives(z);
                assert!(value.is_finite() && slope.is_finite() && second.is_finite(), "{activation} at {z}");
            }
            if activation == Activation::Sin {
                continue;
            }
            let (left, right) = (activation.derivatives(-magnitude), activation.derivatives(magnitude));
            let expected_left = match activation {
                Activation::Identity => (-magnitude, 1.0),
                Activation::Tanh | Activation::Elu => (-1.0, 0.0),
                Activation::LeakyRelu => (-0.01 * magnitude, 0.01),
                _ => (0.0, 0.0),
            };
            let expected_right = match activation {
                Activation::Tanh | Activation::Sigmoid => (1.0, 0.0),
                _ => (magnitude, 1.0),
            };
            assert_eq!((left.0, left.1, left.2), (expected_left.0, expected_left.1, 0.0), "{activation}");
            assert_eq!((right.0, right.1, right.2), (expected_right.0, expected_right.1, 0.0), "{activation}");
        }
    }
}

#[test]
fn infinite_arguments_give_limits_and_nan_stays() {
    for activation in Activation::ALL {
        assert!(activation.value(f64::NAN).is_nan(), "{activation}");
        if activation != Activation::Sin {
            let (far, limit) = (activation.derivatives(-1e3), activation.derivatives(f64::NEG_INFINITY));
            assert_eq!((far.1, far.2), (limit.1, limit.2), "{activation}");
            assert!(!limit.0.is_nan() && !activation.value(f64::INFINITY).is_nan(), "{activation}");
        }
    }
}

#[test]
fn symmetries_hold() {
    for i in 0..4000 {
        let z = 0.01 * f64::from(i);
        for odd in [Activation::Identity, Activation::Tanh, Activation::Sin] {
            let (right, left) = (odd.derivatives(z), odd.derivatives(-z));
            assert_eq!((right.0, right.1, right.2), (-left.0, left.1, -left.2), "{odd} at {z}");
        }
        let (right, left) = (Activation::Sigmoid.derivatives(z), Activation::Sigmoid.derivatives(-z));
        assert_eq!((right.1, right.2), (left.1, -left.2));
        assert!((right.0 + left.0 - 1.0).abs() <= EPSILON);
        // Softplus, and the gates z·P(z) with P(z) + P(−z) = 1.
        for gate in [Activation::Softplus, Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
            let difference = gate.value(z) - gate.value(-z);
            assert!((difference - z).abs() <= 4.0 * EPSILON * z.max(1.0), "{gate} at {z}");
        }
    }
}

#[test]
fn monotone_where_the_function_is() {
    let monotone = [
        Activation::Identity,
        Activation::Tanh,
        Activation::Relu,
        Activation::Sigmoid,
        Activation::Softplus,
        Activation::Elu,
        Activation::LeakyRelu,
    ];
    for activation in monotone {
        let mut last = f64::NEG_INFINITY;
        for i in -40_000..40_000 {
            let value = activation.value(1e-3 * f64::from(i));
            assert!(value >= last, "{activation} falls before {}", 1e-3 * f64::from(i));
            last = value;
        }
    }
}

#[test]
fn slices_equal_scalars_for_every_length() {
    for activation in Activation::ALL {
        for length in 0..19 {
            let z: Vec<f64> = (0..length).map(|i| 1.7 * f64::from(i) - 11.3).collect();
            let [mut h, mut slope1, mut z2, mut slope2] = [(); 4].map(|()| vec![0.0; z.len()]);
            let (mut h1, mut h2, mut z1) = (z.clone(), z.clone(), vec![2.0; z.len()]);
            activation.apply(&z, &mut h);
            activation.replace_with_slope(&mut h1, &mut slope1);
            activation.replace_taylor(&mut h2, &mut z1, &mut z2, &mut slope2);
            for i in 0..z.len() {
                let jet = activation.derivatives(z[i]);
                assert_eq!((h[i], h1[i], slope1[i]), (jet.0, jet.0, jet.1), "{activation} at {}", z[i]);
                assert_eq!((h2[i], slope2[i]), (jet.0, jet.1), "{activation} at {}", z[i]);
                // z = … + 2t: φ(z)′ = 2φ′ and φ(z)″/2 = 2φ″, exact except for a zero slope times a zero coefficient.
                assert_eq!((z1[i], z2[i]), (2.0 * jet.1, 2.0 * jet.2), "{activation} at {}", z[i]);
            }
        }
    }
}

#[test]
fn names_go_there_and_back() -> Outcome {
    for activation in Activation::ALL {
        assert_eq!(activation.to_string().parse::<Activation>()?, activation);
        let json = serde_json::to_string(&activation)?;
        assert_eq!(json, format!("\"{activation}\""));
        assert_eq!(serde_json::from_str::<Activation>(&json)?, activation);
        let linear = [Activation::Identity, Activation::Relu, Activation::LeakyRelu].contains(&activation);
        assert_eq!(activation.is_piecewise_linear(), linear);
    }
    let message = "swish".parse::<Activation>().err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message.contains("`swish`") && message.contains("leaky_relu, sin"), "{message}");
    Ok(())
}

#[test]
fn hinges_take_the_left_slope() {
    assert_eq!(Activation::Relu.derivatives(0.0), (0.0, 0.0, 0.0));
    assert_eq!(Activation::LeakyRelu.derivatives(0.0), (0.0, 0.01, 0.0));
    assert_eq!(Activation::Elu.derivatives(0.0), (0.0, 1.0, 1.0));
}

/// Steps of the f64 grid between two numbers of the same sign.
fn steps_apart(a: f64, b: f64) -> u64 {
    a.to_bits().abs_diff(b.to_bits())
}

#[test]
fn elementary_functions_agree_with_libm() {
    for i in 0..400_000_u32 {
        let fraction = f64::from(i) / 400_000.0;
        for x in [1456.0 * fraction - 746.0, 2.0 * fraction - 1.0, 50.0 * fraction - 25.0] {
            // Bounds are the measured errors of both sides: exp 0.9 + 1 ulp, tanh 2.5 + 2 ulp.
            assert!(steps_apart(elementary::exp(x), libm::exp(x)) <= 1, "exp({x})");
            assert!(steps_apart(elementary::tanh(x), libm::tanh(x)) <= 4, "tanh({x})");
            assert!(
                steps_apart(elementary::softplus(-x.abs()), libm::log1p(libm::exp(-x.abs()))) <= 3,
                "softplus({x})"
            );
        }
        let tiny = 10.0_f64.powf(-300.0 * fraction - 1.0);
        assert!(steps_apart(elementary::tanh(tiny), libm::tanh(tiny)) <= 3, "tanh({tiny})");
    }
}

#[test]
fn exponential_at_the_ends_of_the_range() {
    assert_eq!(elementary::exp(f64::NEG_INFINITY), 0.0);
    assert_eq!(elementary::exp(-745.2), 0.0);
    assert_eq!(elementary::exp(-745.1), 5e-324); // the smallest subnormal
    assert_eq!(elementary::exp(-740.0), libm::exp(-740.0)); // 4.2e-322, subnormal too
    assert!(elementary::exp(709.782).is_finite());
    assert_eq!(elementary::exp(709.79), f64::INFINITY);
    assert!(elementary::exp(f64::NAN).is_nan());
}
