//! `rla fit --from`: a posterior takes more data, or is the prior of the next task.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::{FitOptions, Laplace, Model, Network, PriorValues, Structure};

use super::arguments::LikelihoodName;
use super::console::Console;
use super::data::DataFile;
use super::failure::Failure;
use super::output::{Summary, counted};

/// The posterior that a fit goes on from.
#[derive(Debug, Args)]
pub struct FromArgs {
    /// Go on from a posterior: with the same network (or none named) it takes more data; with a network of other weights
    /// it is the prior, and stays as it is
    #[arg(
        long,
        value_name = "POSTERIOR",
        conflicts_with_all = [
            "prior_precision", "prior_mean", "prior", "temperature", "curvature", "standardize", "scaling", "solver",
            "weights"
        ]
    )]
    pub from: Option<PathBuf>,
}

/// Where a posterior comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A network and its data.
    New,
    /// A posterior, with data added to as many as these.
    MoreData { before: usize },
    /// A posterior of as many data points as these, which is the prior.
    NextTask { before: usize },
}

impl Origin {
    /// The word for `--json`; none for a fit of its own.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Origin::New => None,
            Origin::MoreData { .. } => Some("more-data"),
            Origin::NextTask { .. } => Some("prior"),
        }
    }

    /// Says in the summary what the posterior was used for.
    pub fn summarize(self, from: Option<&Path>, summary: &mut Summary) {
        let Some(from) = from else { return };
        match self {
            Origin::New => {}
            Origin::MoreData { before } => summary.row(
                "more data",
                format!("after {}", counted(before, "data point")),
                format!("of {}, with the same weights", from.display()),
            ),
            Origin::NextTask { before } => summary.row(
                "prior",
                "a posterior",
                format!("{}, of {}; it stays as it is", from.display(), counted(before, "data point")),
            ),
        }
    }
}

/// The posterior to go on from, with what the command line says of the likelihood.
pub struct Earlier {
    laplace: Laplace,
    path: PathBuf,
}

impl Earlier {
    /// Reads the posterior, and checks that the likelihood, where it is named, is its own.
    pub fn read(path: &Path, likelihood: Option<LikelihoodName>) -> Result<Self, Failure> {
        let laplace = Laplace::load(path).map_err(Failure::about(path))?;
        let own = laplace.family().likelihood().name();
        if let Some(name) = likelihood
            && name.name() != own
        {
            return Err(Failure::Usage(format!(
                "{}: its likelihood is {own}; leave out --likelihood, or fit a posterior of its own",
                path.display()
            )));
        }
        Ok(Self { laplace, path: path.to_path_buf() })
    }

    /// The posterior.
    pub fn laplace(&self) -> &Laplace {
        &self.laplace
    }

    /// Whether a network is the one that the posterior was fitted to; an error where it has other layers.
    fn has_weights_of(&self, network: &Network) -> Result<bool, Failure> {
        let model = self.laplace.model();
        if model.subset().is_some() {
            return Err(Failure::Usage(format!(
                "{}: only some of its weights are uncertain; it takes more data (leave out --model), but is no prior of \
                 another network",
                self.path.display(),
            )));
        }
        if model.group_sizes() != network.group_sizes() {
            return Err(Failure::Usage(format!(
                "{}: it is the posterior of {}, and the network is {}; the layers must be the same",
                self.path.display(),
                model.description(),
                network.description(),
            )));
        }
        Ok(model.parameters() == network.parameters() && model.record() == network.record())
    }

    /// The posterior with the data added, or of a network of other weights under this prior.
    pub fn go_on(
        self,
        network: Option<Network>,
        data: DataFile,
        sigma: &[f64],
        structure: Option<Structure>,
        console: &Console,
    ) -> Result<(Laplace, Origin), Failure> {
        let before = self.laplace.n_data();
        let sigma = match (self.laplace.family().sigma(), sigma) {
            (None, [_, ..]) => {
                let name = self.laplace.family().likelihood().name();
                return Err(Failure::Usage(format!("--sigma belongs to a gaussian likelihood; {name} has none")));
            }
            (_, []) => None,
            (Some(_), sigma) => Some(self.laplace.schema().scale_deviations(sigma)),
        };
        let network = match network {
            Some(network) if !self.has_weights_of(&network)? => network,
            Some(_) | None => return self.more_data(data, sigma, structure, console),
        };
        let family = match sigma {
            Some(sigma) => self.laplace.family().with_sigma(&sigma)?,
            None => self.laplace.family().clone(),
        };
        let mut options = FitOptions::following(&self.laplace)?;
        options.structure = structure.unwrap_or(options.structure);
        let _progress = console.spinner("fitting the posterior of the next task");
        Ok((Laplace::fit(network, data.dataset, family, &options)?, Origin::NextTask { before }))
    }

    fn more_data(
        self,
        data: DataFile,
        sigma: Option<Vec<f64>>,
        structure: Option<Structure>,
        console: &Console,
    ) -> Result<(Laplace, Origin), Failure> {
        let (mut laplace, before) = (self.laplace.clone(), self.laplace.n_data());
        if structure.is_some_and(|asked| asked.in_words() != laplace.structure().in_words()) {
            return Err(Failure::Usage(format!(
                "{}: its structure is {}, which more data do not change; leave out --structure",
                self.path.display(),
                laplace.structure().in_words(),
            )));
        }
        let _progress = console.spinner("adding the data to the posterior");
        laplace.update(data.dataset)?;
        if let Some(sigma) = sigma {
            laplace.set_hyperparameters(&PriorValues::of(laplace.prior()), &sigma)?;
        }
        Ok((laplace, Origin::MoreData { before }))
    }
}
