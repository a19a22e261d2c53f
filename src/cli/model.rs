//! The trained network that a posterior is fitted to.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::{Activation, Family, Network};

use super::arguments;
use super::console::Console;
use super::failure::Failure;

/// The model file, and what it does not say.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// The trained network: ONNX, which says what its layers are, or safetensors, named as a PyTorch nn.Sequential or a
    /// candle VarMap
    #[arg(id = "model", long = "model", value_name = "FILE")]
    pub path: PathBuf,
    /// The activation after every hidden layer [default: the one the model file names]
    #[arg(long, value_name = "NAME", value_parser = arguments::activation())]
    activation: Option<Activation>,
}

impl ModelArgs {
    /// Reads the network whose outputs a likelihood takes.
    pub fn read(&self, family: &Family, console: &Console) -> Result<Network, Failure> {
        match is_onnx(&self.path) {
            true => self.read_onnx(family, console),
            false => self.read_safetensors(console),
        }
    }

    fn read_onnx(&self, family: &Family, console: &Console) -> Result<Network, Failure> {
        let path = self.path.display();
        if self.activation.is_some() {
            return Err(Failure::Usage(format!("{path}: an ONNX graph says its activations; leave out --activation")));
        }
        let imported = Network::from_onnx(&self.path)?;
        let n_layers = imported.network.architecture().layers().len();
        let (link, notes) = (imported.link, imported.notes.clone());
        let network = imported.for_family(family).map_err(Failure::about(&self.path))?;
        for note in notes {
            console.note(format!("{path}: {note}"));
        }
        if let Some(link) = link.filter(|_| network.architecture().layers().len() == n_layers) {
            console.note(format!(
                "{path}: the {link} at the end is left out: it belongs to the {} likelihood",
                link.likelihood()
            ));
        }
        Ok(network)
    }

    /// Warns when the requested activation is not the one the network was saved with.
    fn read_safetensors(&self, console: &Console) -> Result<Network, Failure> {
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

/// Whether a model file is ONNX: by its name, as both formats are recognised everywhere else.
pub fn is_onnx(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}
