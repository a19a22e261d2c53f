//! Agreement with SciPy's `solve_ivp`: counts exactly, states to rounding.

use riemannian_laplace::internals::ode::{Integrator, IvpOptions, Status, Workspace, solve_dense};
use serde_json::Value;

use super::{distance, options, pairs, problems, run};

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("a list");
    list.iter().map(|v| v.as_f64().expect("a number")).collect()
}

#[test]
fn counts_and_states_are_those_of_scipy() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ode/scipy.json");
    let text = std::fs::read_to_string(file).expect("the fixture is there");
    let fixture: Value = serde_json::from_str(&text).expect("the fixture is JSON");
    let cases = fixture["cases"].as_array().expect("a list of cases");
    assert_eq!(cases.len(), problems::all().len() * pairs().count() * 3);
    let mut differing = Vec::new();
    let mut worst = 0.0f64;
    for case in cases {
        let text = |key: &str| case[key].as_str().expect("a text");
        let number = |key: &str| case[key].as_f64().expect("a number");
        let count = |key: &str| case[key].as_u64().expect("a count") as usize;
        let problem = problems::named(text("problem"));
        let method: Integrator = text("method").parse().expect("a method");
        let options = IvpOptions { first_step: problem.first_step, ..options(method, number("rtol"), number("atol")) };
        let label = format!("{} {method} {:e}", problem.name, options.rtol);
        assert_eq!((problem.t0, problem.t1), (number("t0"), number("t1")), "{label}");
        assert!(distance(&problem.y0, &numbers(&case["y0"])) < 1e-15, "{label}");

        let (info, y) = run(&problem, &options);
        let mut dense_y = problem.y0.clone();
        let mut workspace = Workspace::new(method, dense_y.len());
        let mut rhs = problem.rhs;
        let (t0, t1) = (problem.t0, problem.t1);
        let (dense, path) =
            solve_dense(&mut rhs, t0, t1, &mut dense_y, &options, &mut workspace).expect("valid options");
        assert_eq!(info.status, problem.end, "{label}");
        let success = case["success"].as_bool().expect("a truth value");
        assert_eq!(info.status == Status::Reached, success, "{label}");
        assert_eq!(y, dense_y, "{label}");
        assert_eq!(path.times().len(), dense.accepted + 1, "{label}");
        assert_eq!(path.state(dense.accepted), y, "{label}");
        assert_eq!(path.state(dense.accepted + 1), [0.0; 0], "{label}");

        let ours = (info.evaluations, info.accepted, dense.evaluations);
        let theirs = (count("nfev"), count("accepted"), count("nfev_dense"));
        if ours != theirs {
            differing.push(format!("{label}: {ours:?}, SciPy {theirs:?}"));
        }
        let mut check = |what: &str, got: &[f64], expected: &[f64]| {
            let size = expected.iter().fold(0.0f64, |size, v| size.max(v.abs()));
            let error = distance(got, expected) / size;
            worst = worst.max(error);
            if error.is_nan() || error >= 1e-9 {
                differing.push(format!("{label}: {what} differs by {error:e}"));
            }
        };
        check("final time", &[info.t], &[number("t_end")]);
        if success {
            check("final state", &y, &numbers(&case["y_end"]));
        }
        let mut out = vec![0.0; path.dim()];
        let samples = case["dense_y"].as_array().expect("a list of states");
        for (t, expected) in numbers(&case["dense_t"]).into_iter().zip(samples) {
            path.at(t, &mut out);
            check("dense output", &out, &numbers(expected));
        }
    }
    println!("largest relative difference from SciPy: {worst:e}");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}
