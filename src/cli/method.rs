//! The ways to predict: one enum, one match. A new method is a new arm.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use ndarray::Array2;
use riemannian_laplace::Family;
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::geodesic::{MetricOptions, read_samples};
use riemannian_laplace::internals::predict::{self, MonteCarlo};
use riemannian_laplace::{Draws, Link, Prediction};
use riemannian_laplace::{Error, Unsupported};
use riemannian_laplace::{MetricName, SamplerOptions, Samples};

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::geodesic;
use super::output::counted;
use super::smoothing::SampleSmoothingArgs;

/// How weights become predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// The network linearised around its trained weights: exact Gaussian over the outputs
    Glm,
    /// The network itself, averaged over draws of the weights
    Nn,
    /// The network itself, averaged over weights drawn along geodesics (see --metric)
    Riemannian,
    /// The trained network alone, without uncertainty about its weights
    Map,
}

/// How a Gaussian over logits becomes class probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkName {
    /// Logits less their mean, with their full covariance: probit for two classes, Laplace bridge for more
    Centred,
    /// The probit approximation, each logit by itself
    Probit,
    /// Monte Carlo over --samples draws of the logits
    Mc,
    /// The Laplace bridge to a Dirichlet distribution
    Bridge,
    /// None: the Gaussian over the raw outputs itself (predict only; any likelihood)
    None,
}

/// The method and its settings.
#[derive(Debug, Args)]
pub struct MethodArgs {
    /// How to predict
    #[arg(long, value_enum, default_value_t = Method::Glm)]
    method: Method,
    /// How --method glm turns logits into probabilities [default: centred]
    #[arg(long, value_enum)]
    link: Option<LinkName>,
    /// The metric of --method riemannian [default: fisher]
    #[arg(long, value_name = "METRIC", value_parser = geodesic::metric())]
    metric: Option<MetricName>,
    /// Draws, for --method nn, --method riemannian and --link mc
    #[arg(long, value_name = "S", default_value = "500", value_parser = arguments::count)]
    samples: usize,
    /// The seed of the draws; the same seed gives the same numbers on any number of threads
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The samples of --method riemannian, as `rla sample` wrote them, instead of drawing any
    #[arg(long, value_name = "FILE", conflicts_with_all = ["samples", "metric", "seed"])]
    samples_file: Option<PathBuf>,
    #[command(flatten)]
    smoothing: SampleSmoothingArgs,
}

impl MethodArgs {
    /// Checks that the options fit together, before any file is read.
    pub fn check(&self) -> Result<(), Failure> {
        if self.metric.is_some() && self.method != Method::Riemannian {
            let method = name_of(self.method);
            let message = format!("--metric belongs to --method riemannian; leave it out with --method {method}");
            return Err(Failure::Usage(message));
        }
        if self.smoothing.is_given() && (self.method != Method::Riemannian || self.samples_file.is_some()) {
            let message = "--smoothing belongs to the sampling of --method riemannian; leave it out otherwise";
            return Err(Failure::Usage(message.to_string()));
        }
        if self.samples_file.is_some() && self.method != Method::Riemannian {
            let method = name_of(self.method);
            let message = format!("--samples-file belongs to --method riemannian; leave it out with --method {method}");
            return Err(Failure::Usage(message));
        }
        match self.link {
            Some(_) if self.method != Method::Glm => {
                let method = name_of(self.method);
                Err(Failure::Usage(format!("--link belongs to --method glm; leave it out with --method {method}")))
            }
            _ => Ok(()),
        }
    }

    /// The same, and checks that the method predicts y, so that it can be scored.
    pub fn check_scorable(&self) -> Result<(), Failure> {
        if self.link == Some(LinkName::None) {
            return Err(unscorable());
        }
        self.check()
    }

    /// The file of samples, if any.
    pub fn samples_file(&self) -> Option<&Path> {
        self.samples_file.as_deref()
    }

    /// The name of the method, with its link where that matters.
    pub fn describe(&self, family: &Family) -> String {
        match (self.method, self.link_for(family)) {
            (Method::Nn, _) => format!("nn, {} samples", self.samples),
            (Method::Riemannian, _) => match &self.samples_file {
                Some(path) => format!("riemannian, samples of {}", path.display()),
                None => format!("riemannian, {} metric, {} samples", self.metric(), self.samples),
            },
            (Method::Glm, Ok(Some(link))) if is_classification(family) => {
                let samples = match link {
                    Link::MonteCarlo(settings) => format!(", {} samples", settings.samples),
                    Link::Centred | Link::Probit | Link::Bridge => String::new(),
                };
                format!("glm, {}{samples}", link.name())
            }
            (method, _) => name_of(method),
        }
    }

    /// Whether the Gaussian over the raw outputs was requested.
    pub fn wants_latent(&self) -> bool {
        self.link == Some(LinkName::None)
    }

    /// The prediction at the inputs.
    pub fn predict(&self, laplace: &Laplace, inputs: &Array2<f64>, console: &Console) -> Result<Prediction, Failure> {
        let method = match self.method {
            Method::Glm => predict::Method::Glm(self.link_for(laplace.family())?.unwrap_or_default()),
            Method::Nn => predict::Method::Nn(Draws::first(self.samples, self.seed)),
            Method::Riemannian => predict::Method::Samples(Arc::new(self.samples(laplace, console)?)),
            Method::Map => predict::Method::Map,
        };
        let _progress = console.spinner("predicting");
        Ok(laplace.predict(inputs, &method)?)
    }

    fn metric(&self) -> MetricName {
        self.metric.unwrap_or(MetricName::Fisher)
    }

    /// The samples of --method riemannian: from a file, or drawn.
    fn samples(&self, laplace: &Laplace, console: &Console) -> Result<Samples, Failure> {
        let samples = match &self.samples_file {
            Some(path) => read_fitting(path, laplace)?,
            None => {
                self.smoothing.announce(laplace, self.metric(), console);
                let options = SamplerOptions { seed: self.seed, ..SamplerOptions::first(self.samples) };
                let progress = console.bar("following geodesics", self.samples);
                let how = MetricOptions { smoothing: self.smoothing.smoothing(), ..Default::default() };
                laplace.sample_riemannian_with(self.metric(), &how, &options, &progress)?
            }
        };
        geodesic::report_failures(&samples, console);
        Ok(samples)
    }

    /// The link for a family; `None` when the raw outputs were requested.
    fn link_for(&self, family: &Family) -> Result<Option<Link>, Failure> {
        let link = match self.link {
            Some(LinkName::None) => return Ok(None),
            None => return Ok(Some(Link::default())),
            Some(LinkName::Centred) => Link::Centred,
            Some(LinkName::Probit) => Link::Probit,
            Some(LinkName::Mc) => Link::MonteCarlo(MonteCarlo { samples: self.samples, seed: self.seed }),
            Some(LinkName::Bridge) => Link::Bridge,
        };
        if is_classification(family) {
            return Ok(Some(link));
        }
        Err(Error::Unsupported(Unsupported::Link {
            link: link.name(),
            likelihood: family.likelihood().name(),
            instead: "no --link at all (the prediction has a closed form), or --link none for the raw outputs",
        })
        .into())
    }
}

/// Checks that the samples have as many parameters as the network.
fn read_fitting(path: &Path, laplace: &Laplace) -> Result<Samples, Failure> {
    let samples = read_samples(path)?;
    let (expected, found) = (laplace.parameters().len(), samples.theta.ncols());
    if expected != found {
        let network = counted(expected, "parameter");
        let message = format!("{}: the network has {network}, the samples {found}", path.display());
        return Err(Failure::Usage(message));
    }
    Ok(samples)
}

fn unscorable() -> Failure {
    Failure::Usage("--link none gives no probabilities to score; use centred, probit, mc or bridge".to_string())
}

fn is_classification(family: &Family) -> bool {
    family.has_classes()
}

fn name_of(method: Method) -> String {
    method.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}
