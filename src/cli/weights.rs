//! `rla sample --weights-of-samples`: importance weights, what they are worth, and the evidence by them.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::internals::evaluate::Importance;
use riemannian_laplace::internals::geodesic::{MetricOptions, check_weights, sample_densities, write_samples};
use riemannian_laplace::{Error, Laplace, MetricName, Samples, Unsupported};
use serde::Serialize;

use super::console::Console;
use super::failure::Failure;
use super::output::{OutputFile, Summary, counted, short};

/// The weights of samples.
#[derive(Debug, Args)]
pub struct WeightArgs {
    /// Compute each sample's importance weight from the Jacobi fields beside its geodesic (at most 500 weights of the
    /// network), and the log evidence by them
    #[arg(long)]
    weights_of_samples: bool,
    /// Also write as many samples of the posterior itself, drawn from the weighted ones
    #[arg(long, value_name = "FILE", requires = "weights_of_samples")]
    resampled: Option<PathBuf>,
}

/// What `--json` adds.
#[derive(Debug, Serialize)]
pub struct WeightReport {
    /// k̂; null where the weights are constant to the solver's tolerance, or too few to estimate it.
    weights_k: Option<f64>,
    effective_share: f64,
    largest_share: f64,
    conjugate: usize,
    log_evidence: Option<f64>,
    log_evidence_error: Option<f64>,
    withheld: Option<String>,
    #[serde(skip)]
    laplace: f64,
}

impl WeightArgs {
    /// Checks the second file before the work begins.
    pub fn check(&self, inputs: &[&Path]) -> Result<Option<OutputFile>, Failure> {
        self.resampled.as_deref().map(|path| OutputFile::at(path, inputs)).transpose()
    }

    /// Checks that the samples can have weights, before they are drawn.
    pub fn check_possible(&self, laplace: &Laplace, metric: MetricName, how: &MetricOptions) -> Result<(), Failure> {
        if !self.weights_of_samples {
            return Ok(());
        }
        if how.batch.is_some() {
            return Err(Error::Unsupported(Unsupported::BatchFields).into());
        }
        Ok(check_weights(laplace, metric)?)
    }

    /// Computes the weights of samples, if they were asked for.
    pub fn attach(
        &self,
        laplace: &Laplace,
        metric: MetricName,
        samples: &mut Samples,
        console: &Console,
    ) -> Result<(), Failure> {
        if self.weights_of_samples {
            let progress = console.bar("following Jacobi fields", samples.len());
            let (range, seed) = (samples.range.clone(), samples.seed.unwrap_or_default());
            samples.density = Some(sample_densities(laplace, metric, range, seed, &progress)?);
        }
        Ok(())
    }

    /// What the weights of all samples say.
    pub fn report(
        &self,
        laplace: &Laplace,
        samples: &Samples,
        console: &Console,
    ) -> Result<Option<WeightReport>, Failure> {
        let Some(density) = &samples.density else { return Ok(None) };
        let importance = Importance::of(&density.log_weight, &density.conjugate)?;
        if importance.failed > 0 {
            console.warn(format!("{} have no weight", counted(importance.failed, "sample")));
        }
        let evidence = importance.log_evidence();
        if let Err(reason) = &evidence {
            console.warn(format!("the evidence by weights is withheld: {reason}"));
        }
        Ok(Some(WeightReport {
            weights_k: importance.k,
            effective_share: importance.effective_share,
            largest_share: importance.largest_share,
            conjugate: importance.conjugate,
            log_evidence: evidence.ok().map(|evidence| evidence.value + shift(laplace)),
            log_evidence_error: evidence.ok().map(|evidence| evidence.standard_error),
            withheld: evidence.err().map(|reason| reason.to_string()),
            laplace: laplace.log_marginal_likelihood(),
        }))
    }

    /// Writes samples of the posterior itself, if they were asked for.
    pub fn resample(&self, out: Option<&OutputFile>, samples: &Samples, console: &Console) -> Result<(), Failure> {
        let (Some(out), Some(density)) = (out, &samples.density) else { return Ok(()) };
        let importance = Importance::of(&density.log_weight, &density.conjugate)?;
        match importance.resampled(samples.len(), samples.seed.unwrap_or_default()) {
            Ok(rows) => Ok(write_samples(out.path(), &samples.select(&rows))?),
            Err(reason) => {
                console.warn(format!("{} is not written: {reason}", out.path().display()));
                Ok(())
            }
        }
    }
}

/// From the units of the network to those of the data.
fn shift(laplace: &Laplace) -> f64 {
    laplace.n_data() as f64 * laplace.schema().log_density_shift()
}

impl WeightReport {
    /// The same for people.
    pub fn add_to(&self, summary: &mut Summary) {
        let (k, meaning) = match self.weights_k {
            Some(k) => (short(k), "of the importance weights; above 0.7 they are unreliable"),
            None => ("–".to_string(), "the weights are constant to the solver's tolerance"),
        };
        summary.row("weights k̂", k, meaning);
        let share = format!("{:.1} %", 100.0 * self.effective_share);
        summary.row(
            "effective",
            share,
            format!("of the samples; the largest weight is {} of all", short(self.largest_share)),
        );
        summary.row("conjugate", self.conjugate, "samples that passed a conjugate point");
        if let (Some(value), Some(error)) = (self.log_evidence, self.log_evidence_error) {
            let meaning = format!("± {} nats, by weights; Laplace: {}", short(error), short(self.laplace));
            summary.row("log evidence", short(value), meaning);
        }
    }
}
