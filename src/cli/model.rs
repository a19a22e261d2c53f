//! The trained network that a posterior is fitted to.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::{Activation, Network};

use super::arguments;
use super::console::Console;
use super::failure::Failure;

/// The model file, and what it does not say.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// The trained network: safetensors, named as a PyTorch nn.Sequential or a candle VarMap
    #[arg(id = "model", long = "model", value_name = "FILE")]
    pub path: PathBuf,
    /// The activation after every hidden layer [default: the one the model file names]
    #[arg(long, value_name = "NAME", value_parser = arguments::activation())]
    activation: Option<Activation>,
}

impl ModelArgs {
    /// Reads the network, and warns when the requested activation is not the one it was saved with.
    pub fn read(&self, console: &Console) -> Result<Network, Failure> {
        let network = Network::load(&self.path, self.activation).map_err(Failure::about(&self.path))?;
        if let Some(asked) = self.activation
            && let Ok(saved) = Network::load(&self.path, None)
            && network.architecture().linear_layers().len() > 1
            && saved.architecture().activation() != Some(asked)
        {
            let saved = match saved.architecture().activation() {
                Some(activation) => format!("its activation is {activation}"),
                None => format!("its layers are {}", saved.architecture()),
            };
            console.warn(format!("{} says {saved}; {asked} is used, as requested", self.path.display()));
        }
        Ok(network)
    }
}
