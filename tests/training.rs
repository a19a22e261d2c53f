//! Training: Adam by hand, decay as in PyTorch, batches, seeds, divergence, and weights that come from candle.

mod common;

use std::sync::Mutex;

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{VarBuilder, VarMap};
use ndarray::{Array2, array};
use riemannian_laplace::Dataset;
use riemannian_laplace::Error;
use riemannian_laplace::Family;
use riemannian_laplace::Progress;
use riemannian_laplace::internals::network::{Decay, Mlp, UnknownActivation};
use riemannian_laplace::{Activation, Architecture, Network, Training, TrainingOptions, train};

use common::{Outcome, architecture, assert_all_close, draw_targets, forward, is_close, normal_matrix, random_network};

fn run(start: &Network, data: &Dataset, family: &Family, options: &TrainingOptions) -> Result<Training, Error> {
    train(start, data, family, options, &())
}

/// Data that a network of that shape could have made.
fn data_for(family: &Family, outputs: usize, points: usize) -> Dataset {
    let truth = random_network(architecture(&[2, 6, outputs], &[true, true], Activation::Tanh), 77);
    let inputs = normal_matrix(points, 2, 5);
    let outputs = 2.0 * forward(truth.architecture(), truth.parameters(), &inputs);
    let targets = draw_targets(family, &outputs, 6);
    Dataset::new(inputs, targets).expect("finite data")
}

/// The mean loss that training minimises, from its definition.
fn mean_loss(network: &Network, data: &Dataset, family: &Family) -> f64 {
    let outputs = forward(network.architecture(), network.parameters(), data.inputs());
    let rows = outputs.rows().into_iter().zip(data.targets().rows());
    let loss = |(f, y): (ndarray::ArrayView1<'_, f64>, ndarray::ArrayView1<'_, f64>)| match family.likelihood().name() {
        "gaussian" => (&f - &y).mapv(|error| error * error).sum() / f.len() as f64,
        "poisson" => f.iter().zip(y).map(|(f, y)| f.exp() - y * f).sum(),
        _ => -family.likelihood().log_density(&y.to_vec(), &f.to_vec()),
    };
    rows.map(loss).sum::<f64>() / data.len() as f64
}

/// What training reports; cancelled after so many reports, where there is a limit.
#[derive(Default)]
struct Watched {
    reports: Mutex<Vec<(usize, f64)>>,
    limit: Option<usize>,
}

impl Watched {
    fn seen(&self) -> Vec<(usize, f64)> {
        self.reports.lock().expect("no other thread holds the reports").clone()
    }
}

impl Progress for Watched {
    fn step(&self, done: usize, value: f64) {
        self.reports.lock().expect("no other thread holds the reports").push((done, value));
    }

    fn is_cancelled(&self) -> bool {
        self.limit.is_some_and(|limit| self.seen().len() >= limit)
    }
}

#[test]
fn cancelled_training_ends_at_the_next_epoch() -> Outcome {
    let family = Family::gaussian(0.1)?;
    let data = data_for(&family, 1, 20);
    let start = Network::random(Architecture::new(&[2, 4, 1], Activation::Tanh)?, 3);
    let options = TrainingOptions { epochs: 100_000, ..Default::default() };
    let watched = Watched { limit: Some(2), ..Default::default() };
    let cancelled = train(&start, &data, &family, &options, &watched);
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert_eq!(watched.seen().iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(), [1, 101]);
    Ok(())
}

#[test]
fn the_loss_falls_for_every_family() -> Outcome {
    for (family, outputs) in
        [(Family::gaussian(0.1)?, 2), ("bernoulli".parse()?, 2), ("categorical".parse()?, 3), ("poisson".parse()?, 1)]
    {
        let data = data_for(&family, outputs, 40);
        let start = Network::random(Architecture::new(&[2, 8, outputs], Activation::Tanh)?, 3);
        for batch_size in [None, Some(16)] {
            let options = TrainingOptions { epochs: 250, batch_size, ..Default::default() };
            let watched = Watched::default();
            let trained = train(&start, &data, &family, &options, &watched)?;
            let seen = watched.seen();
            let name = format!("{}, batches of {batch_size:?}", family.likelihood().name());
            let (before, after) = (mean_loss(&start, &data, &family), mean_loss(&trained.network, &data, &family));
            assert!(after < before - 0.1 * before.abs(), "{name}: from {before} to {after}");
            assert!(is_close(trained.loss, after, 1e-12, 0.0), "{name}: {} for {after}", trained.loss);
            assert_eq!(trained.epochs, 250);
            assert_eq!(seen.iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(), [1, 101, 201, 250]);
            if batch_size.is_none() {
                assert!(is_close(seen[0].1, before, 1e-12, 0.0), "{name}: first loss {}, not {before}", seen[0].1);
            }
        }
    }
    Ok(())
}

/// Adam, written out, on the gradient of the mean squared error of a linear network plus λθ in the gradient (L2) or in
/// addition to the step (decoupled).
fn adam_by_hand(start: &[f64], batches: &[Dataset], options: &TrainingOptions) -> Vec<f64> {
    let (first, second, epsilon) = (0.9f64, 0.999f64, 1e-8);
    let mut theta = start.to_vec();
    let (mut m, mut v) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
    for (step, data) in batches.iter().enumerate() {
        // f = w·x + b: the gradient of the mean of (f − y)² is the mean of 2(f − y)(x, 1).
        let mut gradient = vec![0.0; theta.len()];
        let last = theta.len() - 1;
        for (x, y) in data.inputs().rows().into_iter().zip(data.targets()) {
            let f: f64 = x.iter().zip(&theta).map(|(x, w)| x * w).sum::<f64>() + theta[last];
            for (slot, x) in gradient.iter_mut().zip(x.iter().chain(&[1.0])) {
                *slot += 2.0 * (f - y) * x / data.len() as f64;
            }
        }
        let count = step as i32 + 1;
        for d in 0..theta.len() {
            if options.decay == Decay::L2 {
                gradient[d] += options.weight_decay * theta[d];
            } else {
                theta[d] *= 1.0 - options.learning_rate * options.weight_decay;
            }
            m[d] = first * m[d] + (1.0 - first) * gradient[d];
            v[d] = second * v[d] + (1.0 - second) * gradient[d] * gradient[d];
            let (m_hat, v_hat) = (m[d] / (1.0 - first.powi(count)), v[d] / (1.0 - second.powi(count)));
            theta[d] -= options.learning_rate * m_hat / (v_hat.sqrt() + epsilon);
        }
    }
    theta
}

#[test]
fn steps_are_those_of_adam() -> Outcome {
    let start = Network::new(Architecture::new(&[2, 1], Activation::Identity)?, vec![0.7, -1.2, 0.4])?;
    let data = Dataset::new(array![[0.5, 1.0], [-1.0, 2.0], [0.3, -0.7]], array![[1.0], [-0.5], [2.0]])?;
    let family = Family::gaussian(1.0)?;
    for decay in [Decay::L2, Decay::Decoupled] {
        for epochs in [1, 2, 7] {
            // A decay so strong that the two kinds cannot be confused.
            let options =
                TrainingOptions { epochs, learning_rate: 0.05, weight_decay: 0.8, decay, ..Default::default() };
            let found = run(&start, &data, &family, &options)?;
            let expected = adam_by_hand(start.parameters(), &vec![data.clone(); epochs], &options);
            assert_all_close(found.network.parameters(), &expected, 1e-13, &format!("{decay:?}, {epochs} steps"));
        }
    }
    Ok(())
}

#[test]
fn batches_cover_the_data_once_an_epoch() -> Outcome {
    // Three points in batches of one: after an epoch the parameters are those of one of the six orders.
    let start = Network::new(Architecture::new(&[2, 1], Activation::Identity)?, vec![0.7, -1.2, 0.4])?;
    let data = Dataset::new(array![[0.5, 1.0], [-1.0, 2.0], [0.3, -0.7]], array![[1.0], [-0.5], [2.0]])?;
    let family = Family::gaussian(1.0)?;
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let mut met = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let options = TrainingOptions { epochs: 1, batch_size: Some(1), seed, ..Default::default() };
        let found = run(&start, &data, &family, &options)?.network;
        let is_order = |order: &[usize; 3]| -> Result<bool, Error> {
            let batches = order.iter().map(|&row| data.select(&[row])).collect::<Result<Vec<_>, _>>()?;
            let expected = adam_by_hand(start.parameters(), &batches, &options);
            Ok(found.parameters().iter().zip(&expected).all(|(a, b)| is_close(*a, *b, 1e-12, 0.0)))
        };
        let mut matching = Vec::new();
        for (index, order) in orders.iter().enumerate() {
            if is_order(order)? {
                matching.push(index);
            }
        }
        assert_eq!(matching.len(), 1, "seed {seed} matches the orders {matching:?}");
        met.insert(matching[0]);
    }
    assert!(met.len() >= 3, "twelve seeds gave only the orders {met:?}");

    // A batch as large as the data, or larger, is the full batch.
    let whole = run(&start, &data, &family, &TrainingOptions { epochs: 5, ..Default::default() })?;
    for size in [3, 100] {
        let options = TrainingOptions { epochs: 5, batch_size: Some(size), seed: 9, ..Default::default() };
        assert_eq!(run(&start, &data, &family, &options)?, whole);
    }
    Ok(())
}

#[test]
fn l2_decay_ends_at_the_maximum_a_posteriori() -> Outcome {
    // Ridge regression: minimise mean (f − y)² + ½λ‖θ‖², whose solution is (2XᵀX/N + λ)⁻¹ 2Xᵀy/N.
    let data = Dataset::new(array![[0.5], [-1.0], [0.3], [2.0]], array![[1.0], [-0.5], [2.0], [1.5]])?;
    let start = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![0.0, 0.0])?;
    let options = TrainingOptions { epochs: 6000, learning_rate: 3e-3, weight_decay: 0.5, ..Default::default() };
    let found = run(&start, &data, &Family::gaussian(1.0)?, &options)?.network;
    let (mut xx, mut x, mut xy, mut y) = (0.0, 0.0, 0.0, 0.0);
    for (a, b) in data.inputs().iter().zip(data.targets()) {
        (xx, x, xy, y) = (xx + a * a / 2.0, x + a / 2.0, xy + a * b / 2.0, y + b / 2.0);
    }
    let (p, q, r) = (xx + 0.5, x, 2.0 + 0.5);
    let determinant = p * r - q * q;
    let expected = [(r * xy - q * y) / determinant, (p * y - q * xy) / determinant];
    assert_all_close(found.parameters(), &expected, 1e-6, "ridge regression");
    Ok(())
}

#[test]
fn the_same_seed_gives_the_same_network() -> Outcome {
    let family = Family::gaussian(0.1)?;
    let data = data_for(&family, 1, 30);
    let shape = Architecture::new(&[2, 8, 1], Activation::Tanh)?;
    assert_eq!(Network::random(shape.clone(), 4), Network::random(shape.clone(), 4));
    assert_ne!(Network::random(shape.clone(), 4), Network::random(shape.clone(), 5));
    let start = Network::random(shape, 4);
    let options = TrainingOptions { epochs: 60, batch_size: Some(7), seed: 2, ..Default::default() };
    let first = run(&start, &data, &family, &options)?;
    assert_eq!(first, run(&start, &data, &family, &options)?);
    let other = run(&start, &data, &family, &TrainingOptions { seed: 3, ..options })?;
    assert_ne!(first.network, other.network);
    Ok(())
}

#[test]
fn divergence_is_an_error() -> Outcome {
    let family = Family::gaussian(0.1)?;
    let data = data_for(&family, 1, 20);
    let start = Network::random(Architecture::new(&[2, 8, 1], Activation::Relu)?, 1);
    for (learning_rate, epochs) in [(1e200, 50), (1e200, 1), (1e308, 2)] {
        let options = TrainingOptions { epochs, learning_rate, ..Default::default() };
        match run(&start, &data, &family, &options) {
            Err(error @ Error::TrainingDiverged { .. }) => {
                assert!(error.to_string().contains("lower the learning rate") && !error.is_input(), "{error}");
            }
            outcome => panic!("{learning_rate}, {epochs} epochs: {outcome:?}"),
        }
    }
    let counts: Family = "poisson".parse()?;
    let data = data_for(&counts, 1, 20);
    let options = TrainingOptions { epochs: 200, learning_rate: 1e3, ..Default::default() };
    assert!(matches!(run(&start, &data, &counts, &options), Err(Error::TrainingDiverged { .. })));
    Ok(())
}

#[test]
fn settings_and_data_are_checked() -> Outcome {
    let family = Family::gaussian(0.1)?;
    let data = data_for(&family, 1, 8);
    let start = Network::random(Architecture::new(&[2, 3, 1], Activation::Tanh)?, 1);
    let good = TrainingOptions { epochs: 2, ..Default::default() };
    for options in [
        TrainingOptions { epochs: 0, ..good.clone() },
        TrainingOptions { learning_rate: 0.0, ..good.clone() },
        TrainingOptions { learning_rate: f64::NAN, ..good.clone() },
        TrainingOptions { weight_decay: -1.0, ..good.clone() },
        TrainingOptions { weight_decay: f64::INFINITY, ..good.clone() },
        TrainingOptions { batch_size: Some(0), ..good.clone() },
    ] {
        assert!(matches!(run(&start, &data, &family, &options), Err(Error::Training(_))), "{options:?}");
    }
    assert!(matches!(run(&start, &data, &"bernoulli".parse()?, &good), Err(Error::Target { row: 0, .. })));
    let wide = Dataset::new(Array2::zeros((4, 3)), Array2::zeros((4, 1)))?;
    assert!(matches!(run(&start, &wide, &family, &good), Err(Error::Size { expected: 2, found: 3, .. })));
    Ok(())
}

#[test]
fn networks_saved_by_candle_are_read() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let inputs = normal_matrix(5, 2, 1);
    for dtype in [DType::F32, DType::F64] {
        let variables = VarMap::new();
        let shape = architecture(&[2, 5, 3, 2], &[true, false, true], Activation::Silu);
        let mlp = Mlp::new(shape.clone(), VarBuilder::from_varmap(&variables, dtype, &Device::Cpu))?;
        variables.save(&path)?;
        let network = Network::load(&path, Some(Activation::Silu))?;
        assert_eq!(*network.architecture(), shape);
        assert_eq!(network.parameters(), mlp.parameters()?);
        assert_eq!(network, Network::from_mlp(&mlp)?);
        let tensor = Tensor::from_vec(inputs.iter().copied().collect(), inputs.dim(), &Device::Cpu)?.to_dtype(dtype)?;
        let expected = mlp.forward(&tensor)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
        let found = forward(network.architecture(), network.parameters(), &inputs);
        let tolerance = if dtype == DType::F32 { 1e-5 } else { 1e-13 };
        assert_all_close(&found, &expected, tolerance, &format!("{dtype:?}"));
        // The file does not say which activation.
        assert!(matches!(Network::load(&path, None), Err(Error::MissingActivation { .. })));
    }

    // A network that has no hidden layer needs no activation, and one that was saved here names its own.
    let variables = VarMap::new();
    let linear = architecture(&[4, 1], &[true], Activation::Identity);
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let mlp = Mlp::new(linear.clone(), builder.pp("model"))?;
    variables.save(&path)?;
    let network = Network::load(&path, None)?;
    assert_eq!((network.architecture(), network.parameters()), (&linear, &mlp.parameters()?[..]));
    network.save(&path)?;
    assert_eq!(Network::load(&path, None)?, network);
    let unknown = "relu6".parse::<Activation>();
    assert!(matches!(unknown, Err(UnknownActivation { name, .. }) if name == "relu6"));
    Ok(())
}

#[test]
fn files_that_are_no_network_are_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    type Entry = (&'static str, &'static [usize]);
    let cases: Vec<(&[Entry], &str)> = vec![
        (&[("0.weight", &[3, 2]), ("0.bias", &[3]), ("2.weight", &[1, 4])], "the layer before it has 3 outputs"),
        (&[("0.weight", &[3, 2]), ("0.bias", &[2])], "its weight has 3 outputs"),
        (&[("0.weight", &[3])], "belongs to a normalisation"),
        (&[("0.weight", &[0, 2])], "shape [outputs, inputs]"),
        (&[("0.weight", &[3, 2]), ("1.bias", &[3])], "`1.weight` is missing"),
        (&[("0.running_mean", &[3])], "belongs to a batch normalisation"),
        (&[("a.0.weight", &[3, 2]), ("b.1.weight", &[1, 3])], "is not numbered as in an nn.Sequential"),
        (&[], "no layers"),
    ];
    for (entries, words) in cases {
        let values: Vec<Vec<f64>> = entries.iter().map(|(_, shape)| vec![0.5; shape.iter().product()]).collect();
        let list: Vec<_> = entries
            .iter()
            .zip(&values)
            .map(|((name, shape), values)| {
                (*name, shape.to_vec(), riemannian_laplace::internals::tensors::Values::Real(values.as_slice()))
            })
            .collect();
        riemannian_laplace::internals::tensors::write(&path, &list, Default::default())?;
        let error = Network::load(&path, Some(Activation::Tanh)).expect_err(words);
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    }
    Ok(())
}
