//! What PyTorch's exporter notes of initialisers: which of them are parameters.

use std::collections::{HashMap, HashSet};

use super::messages::{GraphProto, StringStringEntryProto};

const KIND: &str = "pkg.torch.export.graph_signature.InputSpec.kind";
const SIGNATURE: &str = "pkg.torch.export.ExportedProgram.graph_signature";
const FOLDED: &str = "pkg.onnxscript.optimizer.folded_from";

/// What an initialiser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark<'a> {
    /// A parameter.
    Parameter,
    /// Computed from a parameter that is there too.
    Computed(&'a str),
    /// Neither.
    Constant,
}

/// The notes of a file.
#[derive(Debug)]
pub struct Marks<'a> {
    marks: HashMap<&'a str, Mark<'a>>,
}

fn note<'a>(list: &'a [StringStringEntryProto], key: &str) -> Option<&'a str> {
    list.iter().find(|note| note.key == key).map(|note| note.value.as_str())
}

impl<'a> Marks<'a> {
    /// `None` if a file has no notes of parameters.
    pub fn new(graph: &'a GraphProto) -> Option<Self> {
        let infos = graph.value_info.iter().map(|info| (info.name.as_str(), &info.metadata_props[..]));
        let tensors = graph.initializer.iter().map(|tensor| (tensor.name.as_str(), &tensor.metadata_props[..]));
        let names: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
        let noted: Vec<(&str, &[StringStringEntryProto])> =
            infos.chain(tensors).filter(|(name, _)| names.contains(name)).collect();
        if !noted.iter().any(|(_, list)| note(list, KIND).is_some()) {
            return None;
        }
        let signature = note(&graph.metadata_props, SIGNATURE).unwrap_or("");
        let parameters = signature.lines().filter(|line| line.contains(": PARAMETER "));
        let targets: HashSet<&str> = parameters.filter_map(|line| line.split('\'').nth(1)).collect();
        let mut marks = HashMap::new();
        for (name, list) in noted {
            // A weight with which something else was merged, and the bias that this gave it, have lost their notes.
            let merged = targets.contains(name) || name.strip_suffix("_bias").is_some_and(|own| targets.contains(own));
            // What the exporter computed, such as a transposed weight, lists what it was computed from.
            let folded = note(list, FOLDED).unwrap_or("").split('\'').skip(1).step_by(2).find(|from| {
                if signature.is_empty() { !from.starts_with("val_") } else { targets.contains(from) }
            });
            let mark = match (note(list, KIND), folded) {
                (Some("PARAMETER"), _) => Mark::Parameter,
                (Some(_), _) => Mark::Constant,
                (None, Some(source)) if names.contains(source) && source != name => Mark::Computed(source),
                (None, Some(_)) => Mark::Parameter,
                (None, None) if merged => Mark::Parameter,
                (None, None) => continue,
            };
            marks.insert(name, mark);
        }
        Some(Self { marks })
    }

    /// What an initialiser is.
    pub fn of(&self, name: &str) -> Mark<'a> {
        self.marks.get(name).copied().unwrap_or(Mark::Constant)
    }
}
