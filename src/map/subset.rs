//! A model of which only some parameters are uncertain: the rest stay at θ̂.
//!
//! Everything in front of the first selected parameter is computed once when the model is bound, where the model can be
//! cut there ([`Model::cut`]). The last layer of a network is then a network of its own, on features, and has every
//! solver, structure and metric of one. Any other selection is a [restricted map](super::restricted).

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::restricted::{Restriction, restricted};
use super::{BlockShape, Group, Map, Model, Rounding};
use crate::error::{Error, Result, SelectionError};

/// A frozen function of the inputs in front of a part of a model.
pub trait Features: Send + Sync + std::fmt::Debug {
    /// The number of features of a point.
    fn n_features(&self) -> usize;
    /// The features at the rows of `inputs`.
    fn features(&self, inputs: ArrayView2<'_, f64>) -> Result<Array2<f64>>;
}

/// A model cut in two: f(x) = head(features(x)).
#[derive(Debug, Clone)]
pub struct Cut {
    /// What is computed once.
    pub features: Arc<dyn Features>,
    /// The rest, as a model whose inputs are the features.
    pub head: Arc<dyn Model>,
    /// The number of parameters in front of the head's.
    pub offset: usize,
}

/// The place of a part's parameters in the whole.
#[derive(Debug, Clone, Copy)]
pub struct SubsetPlace<'a> {
    /// The indices of the uncertain parameters, in ascending order.
    pub indices: &'a [usize],
    /// θ̂ of the whole model.
    pub all: &'a [f64],
    /// How the parameters were chosen, in words.
    pub name: &'a str,
}

/// A model restricted to some of its parameters.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::map::Subset;
/// use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Model, Network};
///
/// // The last layer of a 1-10-1 network has 11 parameters.
/// let network = Network::random(Architecture::new(&[1, 10, 1], Activation::Tanh)?, 1);
/// let last = Subset::new(network.clone(), (20..31).collect(), "the last layer")?;
/// assert_eq!((last.n_params(), last.parameters()), (11, &network.parameters()[20..]));
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [0.9], [0.4]])?;
/// let laplace = Laplace::fit(last, data, Family::gaussian(0.5)?, &FitOptions::default())?;
/// assert_eq!(laplace.sample(5, 0)?.dim(), (5, 11));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Subset {
    model: Arc<dyn Model>,
    cut: Option<Cut>,
    /// Whether the inputs are the features of the cut.
    at_features: bool,
    /// The selection among the parameters of the cut's head, or of the model.
    restriction: Arc<Restriction>,
    indices: Vec<usize>,
    parameters: Vec<f64>,
    name: String,
}

impl Subset {
    /// The model with these parameters uncertain, in any order; `name` says how they were chosen.
    pub fn new(model: impl Model + 'static, indices: Vec<usize>, name: &str) -> Result<Self> {
        Self::of_shared(Arc::new(model), indices, name)
    }

    /// The same for a model that is shared.
    pub fn of_shared(model: Arc<dyn Model>, mut indices: Vec<usize>, name: &str) -> Result<Self> {
        let refuse = |error: SelectionError| Err(Error::Selection(error));
        indices.sort_unstable();
        let (theta, n_params) = (model.parameters(), model.n_params());
        let Some(&first) = indices.first() else { return refuse(SelectionError::Nothing) };
        if let Some(&index) = indices.iter().find(|index| **index >= n_params) {
            return refuse(SelectionError::OutOfRange { index, n_params });
        }
        if let Some((&index, _)) = indices.iter().zip(indices.iter().skip(1)).find(|(index, next)| index == next) {
            return refuse(SelectionError::Twice { index });
        }
        if model.subset().is_some() {
            return refuse(SelectionError::AlreadySelected);
        }
        let parameters = indices.iter().filter_map(|index| theta.get(*index).copied()).collect();
        let cut = model.cut(first);
        let (head, offset) = cut.as_ref().map_or((&model, 0), |cut| (&cut.head, cut.offset));
        let local = indices.iter().map(|index| index - offset).collect();
        let restriction = Arc::new(Restriction::new(&**head, local));
        Ok(Self { model, cut, at_features: false, restriction, indices, parameters, name: name.to_string() })
    }

    fn head(&self) -> &Arc<dyn Model> {
        self.cut.as_ref().map_or(&self.model, |cut| &cut.head)
    }
}

impl Model for Subset {
    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// The selected part of each group, where there is one.
    fn groups(&self) -> Vec<Group> {
        let (mut groups, mut end, mut rest) = (Vec::new(), 0, self.indices.as_slice());
        for group in self.model.groups() {
            end += group.size;
            let (own, others) = rest.split_at(rest.partition_point(|index| *index < end));
            rest = others;
            if !own.is_empty() {
                groups.push(Group { name: group.name, size: own.len() });
            }
        }
        groups
    }

    fn n_inputs(&self) -> usize {
        match &self.cut {
            Some(cut) if self.at_features => cut.features.n_features(),
            _ => self.model.n_inputs(),
        }
    }

    fn n_outputs(&self) -> usize {
        self.model.n_outputs()
    }

    fn bind(&self, inputs: ArrayView2<'_, f64>) -> Result<Arc<dyn Map>> {
        let map = match &self.cut {
            Some(cut) if self.at_features => cut.head.bind(inputs)?,
            Some(cut) => cut.head.bind(cut.features.features(inputs)?.view())?,
            None => self.model.bind(inputs)?,
        };
        Ok(restricted(map, &self.restriction))
    }

    fn numbers_per_point(&self, columns: usize) -> f64 {
        let features = self.cut.as_ref().map_or(0, |cut| cut.features.n_features());
        let dense = if self.restriction.is_whole() { 0 } else { columns * self.parameters.len() };
        self.head().numbers_per_point(columns) + (features + dense) as f64
    }

    fn blocks(&self) -> Vec<BlockShape> {
        self.restriction.shapes()
    }

    fn has_kinks(&self) -> bool {
        self.head().has_kinks()
    }

    /// The head with its kinks rounded: what lies before it does not move.
    fn smoothed(&self, rounding: &Rounding<'_>) -> Result<Option<Arc<dyn Model>>> {
        let (head, indices) = (self.head(), self.restriction.indices());
        let mut offsets = Array2::zeros((rounding.offsets.nrows(), head.n_params()));
        for (index, column) in indices.iter().zip(rounding.offsets.columns()) {
            offsets.column_mut(*index).assign(&column);
        }
        let inputs = match &self.cut {
            Some(cut) if !self.at_features => cut.features.features(rounding.inputs)?,
            _ => rounding.inputs.to_owned(),
        };
        let rounding = Rounding { width: rounding.width, inputs: inputs.view(), offsets: offsets.view() };
        let Some(head) = head.smoothed(&rounding)? else { return Ok(None) };
        let restriction = Arc::new(Restriction::new(&*head, indices.to_vec()));
        let (model, cut) = match &self.cut {
            Some(cut) => (self.model.clone(), Some(Cut { head, ..cut.clone() })),
            None => (head, None),
        };
        Ok(Some(Arc::new(Self { model, cut, restriction, ..self.clone() })))
    }

    fn behind_front(&self) -> Option<(Arc<dyn Features>, Arc<dyn Model>)> {
        let cut = self.cut.as_ref().filter(|_| !self.at_features)?;
        Some((cut.features.clone(), Arc::new(Self { at_features: true, ..self.clone() })))
    }

    fn record(&self) -> Option<String> {
        self.model.record()
    }

    fn subset(&self) -> Option<SubsetPlace<'_>> {
        Some(SubsetPlace { indices: &self.indices, all: self.model.parameters(), name: &self.name })
    }

    fn description(&self) -> String {
        format!("{} ({})", self.model.description(), self.name)
    }
}
