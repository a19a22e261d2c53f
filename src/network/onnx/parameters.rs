//! The parameters of a file: which initialisers they are, and how they come into θ.
//!
//! Entries of all initialisers that may be parameters are numbered one after the other, so that any rearrangement of them is a
//! list of such numbers. An initialiser enters θ when a node first uses it.

use super::tensor::{Content, Shape, Tensor};
use super::trouble::{Step, refuse};
use crate::network::graph::{GraphBuilder, Indices, View, transposed};

/// What a node uses parameters for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A matrix, kernel or table.
    Weight,
    /// The same, stored with inputs before outputs; θ has the outputs first, as PyTorch has.
    InputsFirst,
    /// Something that is added.
    Shift,
    /// Something that is multiplied, entry by entry.
    Scale,
}

impl Role {
    /// The same for a part of an initialiser, which keeps its orientation.
    fn stored(self) -> Self {
        if self == Self::InputsFirst { Self::Weight } else { self }
    }

    fn is_like(self, other: Self) -> bool {
        let matrix = |role| matches!(role, Self::Weight | Self::InputsFirst);
        self == other || matrix(self) && matrix(other)
    }
}

#[derive(Debug)]
struct Initializer {
    name: String,
    lengths: Vec<usize>,
    values: Vec<f64>,
    /// The number of its first entry.
    start: usize,
    uses: Vec<Use>,
}

/// An initialiser in θ.
#[derive(Debug)]
struct Use {
    role: Role,
    /// The weight beside which a bias is used.
    beside: Option<usize>,
    view: View,
}

/// The initialisers that may be parameters.
#[derive(Debug, Default)]
pub struct Parameters {
    all: Vec<Initializer>,
    count: usize,
    /// What a person should know of how they were read.
    pub notes: Vec<String>,
}

impl Parameters {
    /// Adds an initialiser.
    pub fn add(&mut self, name: &str, lengths: Vec<usize>, values: Vec<f64>) -> Tensor {
        let start = self.count;
        self.count += values.len();
        let content = Content::Parameter(Indices::Range(start..self.count));
        self.all.push(Initializer { name: name.to_string(), lengths: lengths.clone(), values, start, uses: Vec::new() });
        Tensor { shape: Shape::still(lengths), content }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The values at these places.
    pub fn values(&self, places: &Indices) -> Vec<f64> {
        let mut near = 0;
        let value = |place: usize| {
            near = self.owner(place, near);
            self.all.get(near).and_then(|own| own.values.get(place - own.start)).copied().unwrap_or(0.0)
        };
        places.iter().map(value).collect()
    }

    /// Numbers that are those of an initialiser with its axes in another order, as such; `None` if they are not.
    pub fn rearranged(&self, source: &Tensor, lengths: &[usize], numbers: &[f64]) -> Option<Tensor> {
        let Content::Parameter(places) = &source.content else { return None };
        let own = &source.shape.lengths;
        let values = self.values(places);
        let same = |order: &[usize]| order.iter().zip(numbers).all(|(place, number)| values.get(*place) == Some(number));
        let mut orders = vec![(lengths.to_vec(), (0..values.len()).collect::<Vec<usize>>())];
        orders.extend(permutations(own.len()).iter().filter_map(|axes| transposed(own, axes)));
        let (_, order) = orders.into_iter().find(|(shape, order)| {
            shape == lengths && order.len() == numbers.len() && same(order)
        })?;
        let places: Vec<usize> = order.into_iter().map(|place| places.get(place)).collect();
        Some(Tensor { shape: Shape::still(lengths), content: Content::Parameter(places.into()) })
    }

    /// The initialiser that a place belongs to; `near` is a guess.
    fn owner(&self, place: usize, near: usize) -> usize {
        let holds = |own: &Initializer| (own.start..own.start + own.values.len()).contains(&place);
        match self.all.get(near).is_some_and(holds) {
            true => near,
            false => self.all.partition_point(|own| own.start + own.values.len() <= place),
        }
    }

    /// The initialiser whose entries these are, all of them and in order.
    pub fn whole(&self, places: &Indices) -> Option<usize> {
        let Indices::Range(range) = places else { return None };
        let owner = self.owner(range.start, 0);
        let own = self.all.get(owner)?;
        (own.start == range.start && own.values.len() == range.len()).then_some(owner)
    }

    /// Parameters as places in θ, where those come that are used for the first time.
    ///
    /// Exporters store equal tensors once: tensors of one value throughout (ones, zeros) that several nodes use alike are
    /// parameters of their own, unless the nodes share the weight beside them.
    pub fn view(
        &mut self,
        graph: &mut GraphBuilder,
        tensor: (&[usize], &Indices),
        role: Role,
        beside: Option<usize>,
    ) -> Step<View> {
        let (lengths, places) = tensor;
        if let Some(own) = self.whole(places) {
            let view = self.whole_view(graph, own, role, beside)?;
            return Ok(view.reshaped(lengths.to_vec()));
        }
        let (mut near, mut found) = (usize::MAX, Vec::with_capacity(places.len()));
        let mut current: Option<(usize, View)> = None;
        for place in places.iter() {
            let owner = self.owner(place, near);
            if owner != near {
                let known = self.all.get(owner).and_then(|own| Some((own.start, own.uses.last()?.view.clone())));
                current = match known {
                    Some(known) => Some(known),
                    None => {
                        let view = self.whole_view(graph, owner, role.stored(), None)?;
                        self.all.get(owner).map(|own| (own.start, view))
                    }
                };
                near = owner;
            }
            found.extend(current.as_ref().map(|(start, view)| view.places.get(place - start)));
        }
        Ok(View { shape: lengths.to_vec(), places: found.into() })
    }

    fn whole_view(&mut self, graph: &mut GraphBuilder, own: usize, role: Role, beside: Option<usize>) -> Step<View> {
        let Some(initializer) = self.all.get_mut(own) else { return refuse("it has a parameter that is not in the file") };
        let first = initializer.values.first().copied().unwrap_or(0.0);
        let uniform = initializer.values.iter().all(|value| *value == first);
        let tied = |known: &&Use| beside.is_some() && known.beside == beside;
        let known = match (initializer.uses.iter().find(tied), initializer.uses.first()) {
            (Some(known), _) => Some(known),
            (None, Some(_)) if uniform && initializer.uses.iter().any(|known| known.role.is_like(role)) => None,
            (None, first) => first,
        };
        if let Some(known) = known {
            return Ok(known.view.clone());
        }
        let name = &initializer.name;
        if let Some((index, value)) = initializer.values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return refuse(format!("`{name}` holds {value} at flat index {index}; all values must be finite"));
        }
        if !initializer.uses.is_empty() {
            self.notes.push(format!(
                "`{name}` is stored once for several layers, as exporters do with equal tensors; each layer has its own"
            ));
        }
        let view = match (role, &initializer.lengths[..]) {
            (Role::InputsFirst, &[inputs, outputs]) => {
                let turned = (0..outputs).flat_map(|o| (0..inputs).map(move |i| i * outputs + o));
                let values = turned.filter_map(|place| initializer.values.get(place).copied()).collect();
                graph.parameter(name, &[outputs, inputs], values)?.transposed()?
            }
            (_, lengths) => graph.parameter(name, lengths, initializer.values.clone())?,
        };
        initializer.uses.push(Use { role, beside, view: view.clone() });
        Ok(view)
    }
}

/// All orders of a few axes; none of more.
fn permutations(axes: usize) -> Vec<Vec<usize>> {
    if axes > 4 {
        return Vec::new();
    }
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for axis in 0..axes {
        let insert = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |place| [&order[..place], &[axis], &order[place..]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(insert).collect();
    }
    orders
}
