//! J G⁻¹ Jᵀ of every row, as a sum of squares: V₁V₁ᵀ + V₂V₂ᵀ + …, each V with one row per output.

use faer::{Accum, Mat};

use super::network::{Forward, row_by_row, taps_of};
use super::pullback::{Sensitivities, deltas_at_taps, pull_back};
use super::sparse::Sparse;
use super::writer::{Name, Writer};
use crate::error::Result;
use crate::laplace::{CovarianceForm, LowRankForm};
use crate::linalg::multiply;
use crate::map::{BlockCovariance, MatrixCovariance};
use crate::network::graph::{Affine, Indices, Kind, Taps, Weight};

/// V diag(c) Vᵀ.
struct Part {
    vectors: Vectors,
    /// c, `[rows, R]`; ones where there is none.
    squares: Option<Name>,
}

/// V.
enum Vectors {
    /// The same for all rows: outputs × R.
    Constant(Mat<f64>),
    /// `[rows or 1, outputs, R]`.
    Computed(Name),
}

/// The covariance of the outputs.
pub(super) struct Covariance {
    outputs: usize,
    parts: Vec<Part>,
}

impl Covariance {
    /// Writes what the covariance takes.
    pub(super) fn write(w: &mut Writer, forward: &Forward<'_>, form: &CovarianceForm) -> Result<Self> {
        let sensitivities = pull_back(w, forward)?;
        let rows = Rows { forward, sensitivities };
        let places: Vec<usize> =
            (0..forward.parameters.theta.len()).filter(|place| forward.parameters.uncertain[*place]).collect();
        let outputs = forward.graph.n_outputs();
        let computed = |name: Name| Part { vectors: Vectors::Computed(name), squares: None };
        let parts = match form {
            CovarianceForm::Factor(factor) => {
                let jacobian = rows.jacobian(w, &places)?;
                let factor = w.numbers(&[factor.nrows(), factor.ncols()], &row_by_row(factor));
                vec![computed(w.matmul(&jacobian, &factor))]
            }
            CovarianceForm::LowRank(form) => {
                let jacobian = rows.jacobian(w, &places)?;
                low_rank(w, form, &jacobian).map(computed).into()
            }
            CovarianceForm::Blocks(blocks) => rows.blocks(w, blocks, &places),
        };
        Ok(Self { outputs, parts })
    }

    /// The variances, `[rows, outputs]`.
    pub(super) fn variances(&self, w: &mut Writer) -> Name {
        let all: Vec<usize> = (0..self.outputs).collect();
        self.between(w, &all, &all)
    }

    /// The covariances between pairs of outputs, `[rows, pairs]`.
    pub(super) fn between(&self, w: &mut Writer, left: &[usize], right: &[usize]) -> Name {
        let terms = self.parts.iter().map(|part| part.between(w, left, right, self.outputs)).collect::<Vec<_>>();
        total(w, &terms)
    }

    /// The sums of the rows of the covariance, `[rows, outputs]`.
    pub(super) fn row_sums(&self, w: &mut Writer) -> Name {
        let terms = self.parts.iter().map(|part| part.row_sums(w)).collect::<Vec<_>>();
        total(w, &terms)
    }
}

fn total(w: &mut Writer, terms: &[Name]) -> Name {
    let mut terms = terms.iter();
    let first = terms.next().cloned().unwrap_or_else(|| w.number(0.0));
    terms.fold(first, |sum, term| w.add(&sum, term))
}

impl Part {
    fn between(&self, w: &mut Writer, left: &[usize], right: &[usize], outputs: usize) -> Name {
        match (&self.vectors, &self.squares) {
            (Vectors::Constant(vectors), Some(squares)) => {
                let terms = (0..left.len()).flat_map(|pair| (0..vectors.ncols()).map(move |r| (pair, r)));
                let terms = terms.map(|(pair, r)| (pair, r, vectors[(left[pair], r)] * vectors[(right[pair], r)]));
                let terms = terms.filter(|term| term.2 != 0.0).collect();
                Sparse { inputs: vectors.ncols(), outputs: left.len(), terms }.apply(w, squares, 1)
            }
            (Vectors::Constant(vectors), None) => {
                let sum = |pair: usize| -> f64 {
                    (0..vectors.ncols()).map(|r| vectors[(left[pair], r)] * vectors[(right[pair], r)]).sum()
                };
                let sums: Vec<f64> = (0..left.len()).map(sum).collect();
                w.numbers(&[1, left.len()], &sums)
            }
            (Vectors::Computed(vectors), squares) => {
                let mut chosen =
                    |places: &[usize]| match places.len() == outputs && places.iter().copied().eq(0..outputs) {
                        true => vectors.clone(),
                        false => w.gather(vectors, places, 1),
                    };
                let (left, right) = (chosen(left), chosen(right));
                let products = w.multiply(&left, &right);
                match squares {
                    None => w.sum(&products, -1, false),
                    Some(squares) => {
                        let last = w.integers(&[-1]);
                        let column = w.binary("Unsqueeze", squares, &last);
                        let sums = w.matmul(&products, &column);
                        w.binary("Squeeze", &sums, &last)
                    }
                }
            }
        }
    }

    /// V diag(c) Vᵀ1.
    fn row_sums(&self, w: &mut Writer) -> Name {
        match (&self.vectors, &self.squares) {
            (Vectors::Constant(vectors), squares) => {
                let sums: Vec<f64> = vectors.col_iter().map(|column| column.iter().sum()).collect();
                let matrix = Mat::from_fn(vectors.ncols(), vectors.nrows(), |r, k| vectors[(k, r)] * sums[r]);
                let matrix = w.numbers(&[matrix.nrows(), matrix.ncols()], &row_by_row(&matrix));
                match squares {
                    Some(squares) => w.matmul(squares, &matrix),
                    None => w.sum(&matrix, 0, true),
                }
            }
            (Vectors::Computed(vectors), squares) => {
                let mut sums = w.sum(vectors, 1, true);
                if let Some(squares) = squares {
                    let first = w.integers(&[1]);
                    let squares = w.binary("Unsqueeze", squares, &first);
                    sums = w.multiply(&sums, &squares);
                }
                let products = w.multiply(vectors, &sums);
                w.sum(&products, -1, false)
            }
        }
    }
}

/// r − UUᵀr and diag(1/√(1 + s²)) Uᵀr for r = A^(−½)Jᵀ.
fn low_rank(w: &mut Writer, form: &LowRankForm, jacobian: &Name) -> [Name; 2] {
    let LowRankForm { roots, directions, shrinks } = form;
    let (size, rank) = (directions.nrows(), directions.ncols());
    let roots = w.numbers(&[size], roots);
    let scaled = w.multiply(jacobian, &roots);
    let numbers = row_by_row(directions);
    let basis = w.numbers(&[size, rank], &numbers);
    let along = w.matmul(&scaled, &basis);
    let back = w.transpose(&basis, &[1, 0]);
    let explained = w.matmul(&along, &back);
    let rest = w.subtract(&scaled, &explained);
    let shrinks = w.numbers(&[rank], shrinks);
    [rest, w.multiply(&along, &shrinks)]
}

/// The Jacobian, as its rows follow from the nodes.
struct Rows<'a> {
    forward: &'a Forward<'a>,
    sensitivities: Vec<Option<Sensitivities>>,
}

impl Rows<'_> {
    /// The columns of these parameters, `[rows, outputs, places]`; none where no output depends on any.
    fn dense(&self, w: &mut Writer, places: &[usize]) -> Option<Name> {
        let mut wanted = vec![None; self.forward.parameters.theta.len()];
        places.iter().enumerate().for_each(|(at, place)| wanted[*place] = Some(at));
        let (mut parts, mut owners) = (Vec::new(), Vec::new());
        for index in 0..self.forward.graph.nodes().len() {
            for (value, own) in self.contributions(w, index, &wanted) {
                parts.push(value);
                owners.extend(own);
            }
        }
        if parts.is_empty() {
            return None;
        }
        let parts = self.of_all_rows(w, parts);
        let all = w.concat(&parts, -1);
        let terms = owners.iter().enumerate().filter_map(|(column, place)| Some((wanted[*place]?, column, 1.0)));
        let matrix = Sparse { inputs: owners.len(), outputs: places.len(), terms: terms.collect() };
        Some(matrix.apply(w, &all, 2))
    }

    /// The same of all uncertain parameters.
    fn jacobian(&self, w: &mut Writer, places: &[usize]) -> Result<Name> {
        self.dense(w, places).ok_or_else(|| super::refused("a network whose outputs no uncertain weight moves"))
    }

    /// Parts that are the same for all rows, as often as there are rows.
    fn of_all_rows(&self, w: &mut Writer, parts: Vec<Name>) -> Vec<Name> {
        // Zero times a column of the data, `[rows, 1, 1]`.
        let first = Sparse { inputs: self.forward.graph.width(0), outputs: 1, terms: vec![(0, 0, 0.0)] };
        let zeros = first.apply(w, &self.forward.values[0].name, 1);
        let zeros = w.reshape(&zeros, 1, &[1, 1]);
        parts.into_iter().map(|part| w.add(&part, &zeros)).collect()
    }

    /// What a node gives to the Jacobian, and the places in θ of its columns.
    fn contributions(&self, w: &mut Writer, index: usize, wanted: &[Option<usize>]) -> Vec<(Name, Vec<usize>)> {
        let is_wanted = |places: &Indices| places.iter().any(|place| wanted[place].is_some());
        let Some(own) = &self.sensitivities[index] else { return Vec::new() };
        let mut found = Vec::new();
        match &self.forward.graph.nodes()[index].kind {
            Kind::Affine(affine) => {
                if let Some(Weight::Parameters(places)) = affine.weight.as_ref().filter(|_| affine.inputs > 0)
                    && is_wanted(places)
                {
                    found.push((self.weight_rows(w, index, affine, own), places.iter().collect()));
                }
                if let Some(places) = affine.bias.as_ref().filter(|places| is_wanted(places)) {
                    let deltas = own.value(w);
                    let rows = match affine.taps {
                        Taps::Blocks(1) => deltas,
                        _ => {
                            let deltas = deltas_at_taps(w, affine, &deltas);
                            let sums = w.sum(&deltas, 3, false);
                            w.reshape(&sums, 2, &[affine.outputs])
                        }
                    };
                    found.push((rows, places.iter().collect()));
                }
            }
            Kind::ScaleShift(node) => {
                let deltas = own.value(w);
                if let Some(places) = node.scale.as_ref().filter(|places| is_wanted(places)) {
                    let input = &self.forward.inputs(index)[0].name;
                    let input = w.reshape(input, 1, &[1, places.len()]);
                    found.push((w.multiply(&deltas, &input), places.iter().collect()));
                }
                if let Some(places) = node.shift.as_ref().filter(|places| is_wanted(places)) {
                    found.push((deltas, places.iter().collect()));
                }
            }
            _ => {}
        }
        found
    }

    /// Σ_t δ_t h_tᵀ, `[rows, outputs, weights]`.
    fn weight_rows(&self, w: &mut Writer, index: usize, affine: &Affine, own: &Sensitivities) -> Name {
        let (groups, taps) = (affine.taps.groups(), affine.taps.count());
        let input = self.forward.inputs(index)[0];
        let deltas = own.value(w);
        let outputs = affine.outputs / groups.max(1);
        if affine.taps == Taps::Blocks(1) {
            let deltas = w.reshape(&deltas, 2, &[outputs, 1]);
            let h = w.reshape(&input.name, 1, &[1, 1, affine.inputs]);
            let rows = w.multiply(&deltas, &h);
            return w.reshape(&rows, 2, &[outputs * affine.inputs]);
        }
        let deltas = deltas_at_taps(w, affine, &deltas);
        let deltas = w.exchange_last(&deltas, 5);
        let h = taps_of(w, affine, input, self.forward.input_width(affine));
        let h = w.reshape(&h, 1, &[1, groups, taps, affine.inputs]);
        let rows = w.matmul(&deltas, &h);
        w.reshape(&rows, 2, &[affine.outputs * affine.inputs])
    }

    /// The blocks of a covariance without terms between them.
    fn blocks(&self, w: &mut Writer, blocks: &[BlockCovariance], places: &[usize]) -> Vec<Part> {
        let (mut parts, mut start) = (Vec::new(), 0);
        for block in blocks {
            let own = &places[start..start + block.size()];
            start += block.size();
            match block {
                BlockCovariance::Fixed(_) => {}
                BlockCovariance::Matrix(matrix) => match self.single_use(own, matrix) {
                    Some((index, affine)) => parts.extend(self.outer_products(w, index, affine, matrix)),
                    None => {
                        let Some(rows) = self.dense(w, own) else { continue };
                        parts.extend(rotated(w, matrix, &rows));
                    }
                },
                BlockCovariance::Diagonal(variances) => {
                    let Some(rows) = self.dense(w, own) else { continue };
                    let roots: Vec<f64> = variances.iter().map(|variance| variance.sqrt()).collect();
                    let roots = w.numbers(&[roots.len()], &roots);
                    parts.push(Part { vectors: Vectors::Computed(w.multiply(&rows, &roots)), squares: None });
                }
                BlockCovariance::Dense(factor) => {
                    let Some(rows) = self.dense(w, own) else { continue };
                    let size = factor.size();
                    let mut root: Mat<f64> = Mat::identity(size, size);
                    factor.solve_upper_many(root.as_mut());
                    let root = w.numbers(&[size, size], &row_by_row(&root));
                    parts.push(Part { vectors: Vectors::Computed(w.matmul(&rows, &root)), squares: None });
                }
            }
        }
        parts
    }

    /// The only node that uses these parameters, if it uses all of them as a matrix (and its bias) at one tap.
    fn single_use(&self, places: &[usize], matrix: &MatrixCovariance) -> Option<(usize, &Affine)> {
        let (inputs, outputs) = (matrix.variances.nrows(), matrix.variances.ncols());
        let (weights, bias) = places.split_at(inputs * outputs);
        let mut found = None;
        for (index, node) in self.forward.graph.nodes().iter().enumerate() {
            let uses = uses_any(&node.kind, places);
            match &node.kind {
                Kind::Affine(affine) if uses => {
                    let own = matches!(&affine.weight, Some(Weight::Parameters(own)) if own.iter().eq(weights.iter().copied()));
                    let same_bias = match &affine.bias {
                        Some(own) if !bias.is_empty() => own.iter().eq(bias.iter().copied()),
                        _ => bias.is_empty(),
                    };
                    if found.is_some() || affine.taps != Taps::Blocks(1) || !own || !same_bias {
                        return None;
                    }
                    found = Some((index, affine));
                }
                _ if uses => return None,
                _ => {}
            }
        }
        found
    }

    /// Σᵢ δ̃ₖᵢ δ̃ₗᵢ (Σⱼ h̃ⱼ² wⱼᵢ + w_bᵢ), with h̃ = Q_Aᵀh and δ̃ = Q_Bᵀδ.
    fn outer_products(&self, w: &mut Writer, index: usize, affine: &Affine, matrix: &MatrixCovariance) -> Option<Part> {
        let h = self.forward.inputs(index)[0].name.clone();
        let own = self.sensitivities[index].as_ref()?;
        let rotated = match &matrix.bases {
            None => h,
            Some(bases) => {
                let basis = w.numbers(&[affine.inputs, affine.inputs], &row_by_row(&bases.inputs));
                w.matmul(&h, &basis)
            }
        };
        let squares = w.square(&rotated);
        let variances = w.numbers(&[affine.inputs, affine.outputs], &row_by_row(&matrix.variances));
        let mut squares = w.matmul(&squares, &variances);
        if let Some(bias) = &matrix.bias {
            let bias = w.numbers(&[bias.len()], bias);
            squares = w.add(&squares, &bias);
        }
        let vectors = match (own, &matrix.bases) {
            (Sensitivities::Constant(deltas), None) => Vectors::Constant(deltas.clone()),
            (Sensitivities::Constant(deltas), Some(bases)) => {
                let mut product = Mat::zeros(deltas.nrows(), deltas.ncols());
                multiply(product.as_mut(), Accum::Replace, deltas.as_ref(), bases.outputs.as_ref().as_ref());
                Vectors::Constant(product)
            }
            (Sensitivities::Computed(deltas), None) => Vectors::Computed(deltas.clone()),
            (Sensitivities::Computed(deltas), Some(bases)) => {
                let basis = w.numbers(&[affine.outputs, affine.outputs], &row_by_row(&bases.outputs));
                Vectors::Computed(w.matmul(deltas, &basis))
            }
        };
        Some(Part { vectors, squares: Some(squares) })
    }
}

/// Whether a node has one of these parameters.
fn uses_any(kind: &Kind, places: &[usize]) -> bool {
    let bounds = places.first().copied().zip(places.last().copied());
    let Some((first, last)) = bounds else { return false };
    let within =
        |own: &Indices| own.iter().any(|place| place >= first && place <= last && places.binary_search(&place).is_ok());
    match kind {
        Kind::Affine(affine) => {
            let weight = matches!(&affine.weight, Some(Weight::Parameters(own)) if within(own));
            weight || affine.bias.as_ref().is_some_and(within)
        }
        Kind::ScaleShift(node) => [&node.scale, &node.shift].into_iter().flatten().any(within),
        _ => false,
    }
}

/// The dense rows of a weight matrix and its bias in its bases, times the roots of the variances.
fn rotated(w: &mut Writer, matrix: &MatrixCovariance, rows: &Name) -> Vec<Part> {
    let (inputs, outputs) = (matrix.variances.nrows(), matrix.variances.ncols());
    let weights: Vec<usize> = (0..inputs * outputs).collect();
    let mut own = match &matrix.bias {
        Some(_) => w.gather(rows, &weights, 2),
        None => rows.clone(),
    };
    if let Some(bases) = &matrix.bases {
        own = w.reshape(&own, 2, &[outputs, inputs]);
        let basis = w.numbers(&[inputs, inputs], &row_by_row(&bases.inputs));
        own = w.matmul(&own, &basis);
        let transposed = bases.outputs.transpose().to_owned();
        let basis = w.numbers(&[outputs, outputs], &row_by_row(&transposed));
        own = w.matmul(&basis, &own);
        own = w.reshape(&own, 2, &[inputs * outputs]);
    }
    let roots: Vec<f64> =
        matrix.variances.col_iter().flat_map(|c| c.iter().map(|v| v.sqrt()).collect::<Vec<_>>()).collect();
    let roots = w.numbers(&[roots.len()], &roots);
    let mut parts = vec![Part { vectors: Vectors::Computed(w.multiply(&own, &roots)), squares: None }];
    if let Some(variances) = &matrix.bias {
        let places: Vec<usize> = (inputs * outputs..inputs * outputs + outputs).collect();
        let mut own = w.gather(rows, &places, 2);
        if let Some(bases) = &matrix.bases {
            let basis = w.numbers(&[outputs, outputs], &row_by_row(&bases.outputs));
            own = w.matmul(&own, &basis);
        }
        let roots: Vec<f64> = variances.iter().map(|variance| variance.sqrt()).collect();
        let roots = w.numbers(&[roots.len()], &roots);
        parts.push(Part { vectors: Vectors::Computed(w.multiply(&own, &roots)), squares: None });
    }
    parts
}
