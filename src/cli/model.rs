//! The trained network that a posterior is fitted to.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::internals::data::Table;
use riemannian_laplace::{Activation, Dataset, Family, Model, Network, OutputLink, StatedLayer};

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::output::counted;

/// The model file, and what it does not say.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// The trained network: ONNX, which says what its layers are, or safetensors, named as a PyTorch nn.Sequential or a
    /// candle VarMap
    #[arg(id = "model", long = "model", value_name = "FILE", required = false, required_unless_present = "from")]
    pub path: PathBuf,
    /// The activation after every hidden layer [default: the one the model file names]
    #[arg(long, value_name = "NAME", value_parser = arguments::activation())]
    activation: Option<Activation>,
    /// The linear layers in order, each with the activation after it, where safetensors do not number them: e.g.
    /// fc1:tanh,fc2:relu,out
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', conflicts_with = "activation")]
    layers: Vec<StatedLayer>,
    /// Outputs that the network's own framework gave for the rows of the data, as CSV with a header: the network is
    /// refused where it differs by more than 1e-4 of the largest
    #[arg(long, value_name = "CSV")]
    pub check: Option<PathBuf>,
}

/// A network as a likelihood takes it.
#[derive(Debug)]
pub struct ModelFile {
    /// The network.
    pub network: Network,
    /// What followed in the file and is left out.
    link: Option<OutputLink>,
}

impl ModelArgs {
    /// Reads the network whose outputs a likelihood takes.
    pub fn read(&self, family: &Family, console: &Console) -> Result<ModelFile, Failure> {
        match is_onnx(&self.path) {
            true => self.read_onnx(family, console),
            false => Ok(ModelFile { network: self.read_safetensors(console)?, link: None }),
        }
    }

    /// Compares the network with the outputs of its framework, where there are some.
    pub fn check(&self, model: &ModelFile, data: &Dataset, console: &Console) -> Result<(), Failure> {
        let Some(path) = &self.check else { return Ok(()) };
        let table = Table::read(path)?;
        let expected = (data.inputs().nrows(), model.network.n_outputs());
        if table.values().dim() != expected {
            let (rows, columns) = table.values().dim();
            return Err(Failure::Usage(format!(
                "{}: the file has {} of {}; the data have {}, and the network {}",
                path.display(),
                counted(rows, "row"),
                counted(columns, "column"),
                counted(expected.0, "row"),
                counted(expected.1, "output"),
            )));
        }
        let difference = model.network.check_outputs(data.inputs().view(), table.values().view(), model.link);
        let difference = difference.map_err(Failure::about(path))?;
        console.note(format!("the network agrees with {} to {difference:.1e} of the largest output", path.display()));
        Ok(())
    }

    fn read_onnx(&self, family: &Family, console: &Console) -> Result<ModelFile, Failure> {
        let path = self.path.display();
        if self.activation.is_some() || !self.layers.is_empty() {
            let problem = "an ONNX graph says its layers and activations; leave out --activation and --layers";
            return Err(Failure::Usage(format!("{path}: {problem}")));
        }
        let imported = Network::from_onnx(&self.path)?;
        let n_layers = imported.network.architecture().layers().len();
        let (link, notes) = (imported.link, imported.notes.clone());
        let network = imported.for_family(family).map_err(Failure::about(&self.path))?;
        for note in notes {
            console.note(format!("{path}: {note}"));
        }
        let link = link.filter(|_| network.architecture().layers().len() == n_layers);
        if let Some(link) = link {
            console.note(format!(
                "{path}: the {link} at the end is left out: it belongs to the {} likelihood",
                link.likelihood()
            ));
        }
        Ok(ModelFile { network, link })
    }

    /// Warns when the requested activation is not the one the network was saved with.
    fn read_safetensors(&self, console: &Console) -> Result<Network, Failure> {
        if !self.layers.is_empty() {
            return Network::load_layers(&self.path, &self.layers).map_err(Failure::about(&self.path));
        }
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
