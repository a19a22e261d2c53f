//! The ways to predict: one enum, one match. A new method is a new arm.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use riemannian_laplace::Family;
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::predict::{self, MonteCarlo, SamplingReport};
use riemannian_laplace::{Draws, Link};
use riemannian_laplace::{Error, Unsupported};

use super::console::Console;
use super::draws::DrawArgs;
use super::failure::Failure;
use super::posterior;

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
    /// All of these, side by side (evaluate only)
    All,
}

/// How a Gaussian over logits becomes class probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkName {
    /// Logits less their mean, with their full covariance: probit for two classes, Laplace bridge for more
    Centred,
    /// Logits less their mean, and the probit approximation for any number of classes
    CentredProbit,
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
    #[command(flatten)]
    draws: DrawArgs,
}

impl MethodArgs {
    /// Checks that the options fit together, before any file is read.
    pub fn check(&self) -> Result<(), Failure> {
        let geodesics = matches!(self.method, Method::Riemannian | Method::All);
        self.draws.check(geodesics, &name_of(self.method))?;
        match self.link {
            Some(_) if !matches!(self.method, Method::Glm | Method::All) => {
                let method = name_of(self.method);
                Err(Failure::Usage(format!("--link belongs to --method glm; leave it out with --method {method}")))
            }
            _ => Ok(()),
        }
    }

    /// The same, and checks that one method was asked for.
    pub fn check_single(&self) -> Result<(), Failure> {
        if self.method == Method::All {
            return Err(Failure::Usage("--method all belongs to `rla evaluate`; predict with one method".to_string()));
        }
        self.check()
    }

    /// The same as [`check`](Self::check), and checks that the method predicts y, so that it can be scored.
    pub fn check_scorable(&self) -> Result<(), Failure> {
        if self.link == Some(LinkName::None) {
            return Err(unscorable());
        }
        self.check()
    }

    /// The file of samples, if any.
    pub fn samples_file(&self) -> Option<&Path> {
        self.draws.file()
    }

    /// The methods that were asked for, cheapest first.
    pub fn methods(&self) -> Vec<Method> {
        match self.method {
            Method::All => vec![Method::Map, Method::Glm, Method::Nn, Method::Riemannian],
            method => vec![method],
        }
    }

    /// The name of a method, with its link where that matters.
    pub fn describe(&self, method: Method, family: &Family) -> String {
        match (method, self.link_for(family)) {
            (Method::Nn, _) => format!("nn, {} samples", self.draws.count()),
            (Method::Riemannian, _) => format!("riemannian, {}", self.draws.describe()),
            (Method::Glm, Ok(Some(link))) if is_classification(family) => {
                let samples = match link {
                    Link::MonteCarlo(settings) => format!(", {} samples", settings.samples),
                    Link::Centred | Link::CentredProbit | Link::Probit | Link::Bridge => String::new(),
                };
                format!("glm, {}{samples}", link.name())
            }
            (method, _) => name_of(method),
        }
    }

    /// Whether all methods were asked for.
    pub fn is_all(&self) -> bool {
        self.method == Method::All
    }

    /// Whether the Gaussian over the raw outputs was requested.
    pub fn wants_latent(&self) -> bool {
        self.link == Some(LinkName::None)
    }

    /// The method that was asked for.
    pub fn single(&self) -> Method {
        self.method
    }

    /// A method as the library takes it; its samples, if any, are drawn here.
    pub fn library_method(
        &self,
        method: Method,
        laplace: &Laplace,
        console: &Console,
    ) -> Result<predict::Method, Failure> {
        if method == Method::Glm {
            posterior::note_of_error(laplace, console);
        }
        Ok(match method {
            Method::Glm => predict::Method::Glm(self.link_for(laplace.family())?.unwrap_or_default()),
            Method::Nn => predict::Method::Nn(Draws::first(self.draws.count(), self.draws.seed())),
            Method::Riemannian => predict::Method::Samples(Arc::new(self.draws.draw_or_read(laplace, console)?)),
            Method::Map | Method::All => predict::Method::Map,
        })
    }

    /// The link for a family; `None` when the raw outputs were requested.
    fn link_for(&self, family: &Family) -> Result<Option<Link>, Failure> {
        let link = match self.link {
            Some(LinkName::None) => return Ok(None),
            None => return Ok(Some(Link::default())),
            Some(LinkName::Centred) => Link::Centred,
            Some(LinkName::CentredProbit) => Link::CentredProbit,
            Some(LinkName::Probit) => Link::Probit,
            Some(LinkName::Mc) => {
                Link::MonteCarlo(MonteCarlo { samples: self.draws.output_count(), seed: self.draws.seed() })
            }
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

/// How the samples of a method ended, if it has any.
pub fn sampling_report(method: &predict::Method) -> Option<SamplingReport> {
    match method {
        predict::Method::Samples(samples) => Some(SamplingReport::of(samples)),
        predict::Method::Mixture(mixture) => {
            let others = mixture.others.iter().filter_map(|member| sampling_report(&member.method));
            sampling_report(&mixture.method).into_iter().chain(others).reduce(SamplingReport::and)
        }
        _ => None,
    }
}

fn unscorable() -> Failure {
    Failure::Usage(
        "--link none gives no probabilities to score; use centred, centred-probit, probit, mc or bridge".to_string(),
    )
}

fn is_classification(family: &Family) -> bool {
    family.has_classes()
}

/// The name on the command line.
pub fn name_of(method: Method) -> String {
    method.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}
