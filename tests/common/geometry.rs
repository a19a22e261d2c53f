//! What the tests share: golden cases, small random models, relative errors.

use super::{normal_matrix, normal_vector};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::likelihood::{
    Bernoulli, Categorical, Gaussian, Heteroscedastic, Likelihood, Poisson,
};
use riemannian_laplace::internals::network::NetworkMap;
use riemannian_laplace::internals::prior::{Prior, PriorPrecision};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::internals::tensors::{Tensor, TensorFile};
use riemannian_laplace::{Activation, Architecture, Network};
use riemannian_laplace::{FitOptions, Laplace};

/// A reference case under `tests/golden`.
pub struct Golden {
    pub folder: PathBuf,
    pub config: serde_json::Value,
    pub expected: serde_json::Value,
    pub tensors: TensorFile,
    pub velocities: TensorFile,
}

impl Golden {
    pub fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        let json = |file: &str| serde_json::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap();
        Self {
            config: json("config.json"),
            expected: json("expected.json"),
            tensors: TensorFile::read(&folder.join("expected.safetensors")).unwrap(),
            velocities: TensorFile::read(&folder.join("velocities.safetensors")).unwrap(),
            folder,
        }
    }

    /// The posterior at the case's own hyperparameters.
    pub fn fit(&self) -> Laplace {
        let activation: Activation = self.config["activation"].as_str().unwrap().parse().unwrap();
        let network = Network::load(&self.folder.join("model.safetensors"), Some(activation)).unwrap();
        let family = match self.config["sigma"].as_f64() {
            Some(sigma) => Family::gaussian(sigma).unwrap(),
            None => self.config["likelihood"].as_str().unwrap().parse().unwrap(),
        };
        let table = Table::read(&self.folder.join("train.csv")).unwrap();
        let targets: Vec<String> = table.columns().iter().filter(|name| name.starts_with('y')).cloned().collect();
        let prior_precision = self.config["prior_precision"].as_f64().unwrap().into();
        let options = FitOptions { prior_precision, ..Default::default() };
        Laplace::fit(network, table.dataset(&targets).unwrap(), family, &options).unwrap()
    }

    pub fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.tensors.get(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }
}

/// A tensor with two axes as rows.
pub fn rows(tensor: &Tensor) -> ArrayView2<'_, f64> {
    ArrayView2::from_shape((tensor.shape[0], tensor.shape[1]), &tensor.values).unwrap()
}

/// max |a − b| / max |b|.
pub fn relative_error<'a>(got: impl IntoIterator<Item = &'a f64>, want: impl IntoIterator<Item = &'a f64>) -> f64 {
    let (mut error, mut scale) = (0.0_f64, 0.0_f64);
    let (mut got, mut want) = (got.into_iter(), want.into_iter());
    loop {
        match (got.next(), want.next()) {
            (Some(a), Some(b)) => {
                assert!(a.is_finite() && b.is_finite(), "{a} against {b}");
                error = error.max((a - b).abs());
                scale = scale.max(b.abs());
            }
            (None, None) => return if error == 0.0 { 0.0 } else { error / scale },
            _ => panic!("arrays of different length"),
        }
    }
}

/// Every likelihood, with the number of outputs it is tried with.
pub fn likelihoods() -> Vec<(Arc<dyn Likelihood>, usize)> {
    vec![
        (Arc::new(Gaussian::new(0.3).unwrap()), 1),
        (Arc::new(Gaussian::per_output(vec![0.3, 1.5]).unwrap()), 2),
        (Arc::new(Bernoulli), 1),
        (Arc::new(Bernoulli), 2),
        (Arc::new(Categorical), 3),
        (Arc::new(Poisson), 1),
        (Arc::new(Poisson), 2),
        (Arc::new(Heteroscedastic), 2),
        (Arc::new(Heteroscedastic), 4),
    ]
}

/// Targets that a likelihood can have produced.
pub fn plausible_targets(likelihood: &dyn Likelihood, points: usize, outputs: usize, seed: u64) -> Array2<f64> {
    let noise = normal_vector(points * outputs, seed);
    let value = |n: usize, k: usize| noise[n * outputs + k];
    match likelihood.name() {
        "gaussian" => Array2::from_shape_fn((points, outputs), |(n, k)| value(n, k)),
        "bernoulli" => Array2::from_shape_fn((points, outputs), |(n, k)| f64::from(u8::from(value(n, k) > 0.0))),
        "categorical" => Array2::from_shape_fn((points, 1), |(n, _)| (n * 7 % outputs) as f64),
        "heteroscedastic" => Array2::from_shape_fn((points, outputs / 2), |(n, k)| value(n, k)),
        _ => Array2::from_shape_fn((points, outputs), |(n, k)| (2.0 * value(n, k).abs()).floor()),
    }
}

/// A random network with random data.
pub fn random_target(
    sizes: &[usize],
    activation: Activation,
    likelihood: Arc<dyn Likelihood>,
    points: usize,
    seed: u64,
) -> (Target, Vec<f64>) {
    let architecture = Architecture::new(sizes, activation).unwrap();
    let inputs = normal_matrix(points, sizes[0], seed);
    let targets = plausible_targets(&*likelihood, points, architecture.n_outputs(), seed + 1);
    let theta: Vec<f64> = normal_vector(architecture.n_params(), seed + 2).iter().map(|value| 0.7 * value).collect();
    let prior = PriorPrecision::scalar(0.6, &architecture.layer_params()).unwrap();
    let map = Arc::new(NetworkMap::new(architecture, inputs.view()).unwrap());
    (Target::new(map, likelihood, targets.view(), Prior::gaussian(prior)).unwrap(), theta)
}

/// A data set from the folder `data`.
pub fn dataset(name: &str, target: &str) -> Dataset {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    Table::read(&path).unwrap().dataset(&[target.to_string()]).unwrap()
}
