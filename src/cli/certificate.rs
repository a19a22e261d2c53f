//! How many samples may fail or be uncertified before a command says so by its exit status.

use clap::Args;
use riemannian_laplace::Error;
use riemannian_laplace::internals::predict::SamplingReport;

use super::arguments;
use super::failure::Failure;

/// The share of samples that may fail.
#[derive(Debug, Args)]
pub struct CertificateArgs {
    /// The share of samples that may fail or be uncertified; beyond it the exit status is 3
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = arguments::fraction)]
    allow_uncertified: f64,
}

impl CertificateArgs {
    /// Fails, once the work is done and written, if too many samples failed or are uncertified.
    pub fn check(&self, report: SamplingReport) -> Result<(), Failure> {
        if report.failed_share() <= self.allow_uncertified {
            return Ok(());
        }
        Err(Error::Uncertified { report, allowed: self.allow_uncertified }.into())
    }
}
