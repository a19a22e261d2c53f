//! The joint Gaussian over the outputs at candidates and targets, and what observing a candidate does to it.

use faer::Mat;
use ndarray::{Array2, Axis, concatenate};

use crate::error::{Error, Result};
use crate::laplace::Laplace;
use crate::likelihood::{Family, TargetKind};
use crate::linalg::symmetric_eigen;
use crate::predict::linearized_joint;

/// N(m, C) over candidates, then targets; output p of row t at t·P + p.
pub struct Joint {
    mean: Vec<f64>,
    covariance: Mat<f64>,
    /// R of each row, with H = RRᵀ/T.
    roots: Vec<Mat<f64>>,
    candidates: usize,
    outputs: usize,
    family: Family,
}

impl Joint {
    /// At inputs in the units of the model.
    pub fn of(laplace: &Laplace, candidates: &Array2<f64>, targets: Option<&Array2<f64>>) -> Result<Self> {
        let all = match targets {
            None => candidates.clone(),
            Some(targets) => concatenate(Axis(0), &[candidates.view(), targets.view()]).map_err(|_| Error::Size {
                what: "number of columns of the target inputs".to_string(),
                expected: candidates.ncols(),
                found: targets.ncols(),
            })?,
        };
        let joint = linearized_joint(laplace, &all)?;
        let (p, mean) = (laplace.model().n_outputs(), joint.mean.to_vec());
        let mut whitening = vec![0.0; p * p];
        let root = |outputs: &[f64]| {
            laplace.family().likelihood().whitening(outputs, &mut whitening);
            Mat::from_fn(p, p, |i, j| whitening[i * p + j] / laplace.temperature().sqrt())
        };
        let roots = mean.chunks_exact(p).map(root).collect();
        let size = mean.len();
        let covariance = Mat::from_fn(size, size, |i, j| joint.covariance[(i, j)]);
        let family = laplace.family().clone();
        Ok(Self { mean, covariance, roots, candidates: candidates.nrows(), outputs: p, family })
    }

    /// The outputs at all rows.
    pub fn n_rows(&self) -> usize {
        self.mean.len()
    }

    pub fn n_outputs(&self) -> usize {
        self.outputs
    }

    /// The mean at a candidate.
    pub fn means(&self, place: usize) -> Vec<f64> {
        self.mean[place * self.outputs..][..self.outputs].to_vec()
    }

    /// The standard deviations at every candidate.
    pub fn deviations(&self) -> Vec<Vec<f64>> {
        let of = |place: usize| -> Vec<f64> {
            let own = place * self.outputs..(place + 1) * self.outputs;
            own.map(|index| self.covariance[(index, index)].max(0.0).sqrt()).collect()
        };
        (0..self.candidates).map(of).collect()
    }

    /// A number for every candidate.
    pub fn each(&self, of: impl FnMut(usize) -> Result<f64>) -> Result<Vec<f64>> {
        (0..self.candidates).map(of).collect()
    }

    /// The covariance of the outputs at two rows.
    fn block(&self, i: usize, j: usize) -> Mat<f64> {
        let p = self.outputs;
        Mat::from_fn(p, p, |a, b| self.covariance[(i * p + a, j * p + b)])
    }

    /// I + RᵀCR at a row: its eigenvalues (at least 1) and eigenvectors.
    fn system(&self, row: usize, covariance: &Mat<f64>) -> Result<(Vec<f64>, Mat<f64>)> {
        let root = &self.roots[row];
        let inner = root.transpose() * covariance * root;
        let eigen = symmetric_eigen(inner.as_ref(), "the information of a row")?;
        Ok((eigen.values.iter().map(|value| 1.0 + value.max(0.0)).collect(), eigen.vectors))
    }

    /// ½ log det(I + RᵀCR) at a row.
    pub fn information(&self, row: usize) -> Result<f64> {
        let (values, _) = self.system(row, &self.block(row, row))?;
        Ok(0.5 * values.iter().map(|value| value.ln()).sum::<f64>())
    }

    /// B = C_·ᵢ Rᵢ V diag(λ)^(−½), with which observing row i changes the covariance to C − BBᵀ; for the rows of a range.
    fn change(&self, row: usize, of: std::ops::Range<usize>) -> Result<Mat<f64>> {
        let (values, vectors) = self.system(row, &self.block(row, row))?;
        let p = self.outputs;
        let across = Mat::from_fn(of.len(), p, |a, b| self.covariance[(of.start + a, row * p + b)]);
        let turned = across * &self.roots[row] * &vectors;
        Ok(Mat::from_fn(of.len(), p, |a, b| turned[(a, b)] / values[b].sqrt()))
    }

    /// Takes a candidate as observed.
    pub fn observe(&mut self, row: usize) -> Result<()> {
        let change = self.change(row, 0..self.n_rows())?;
        self.covariance -= &change * change.transpose();
        Ok(())
    }

    /// For every candidate the mean over targets of what observing it tells about the observation there.
    pub fn predictive_gains(&self) -> Result<Vec<f64>> {
        let (p, targets) = (self.outputs, self.candidates..self.mean.len() / self.outputs);
        let before = targets.clone().map(|target| self.information(target)).collect::<Result<Vec<f64>>>()?;
        self.each(|place| {
            let change = self.change(place, targets.start * p..targets.end * p)?;
            let mut gain = 0.0;
            for (index, target) in targets.clone().enumerate() {
                let own = change.submatrix(index * p, 0, p, p);
                let (values, _) = self.system(target, &(self.block(target, target) - own * own.transpose()))?;
                gain += before[index] - 0.5 * values.iter().map(|value| value.ln()).sum::<f64>();
            }
            Ok(gain / before.len().max(1) as f64)
        })
    }

    /// m + C^½ z over the candidates.
    pub fn draw(&self, normals: &[f64]) -> Result<Vec<f64>> {
        let eigen = symmetric_eigen(self.covariance.as_ref(), "the joint covariance of the pool")?;
        let size = self.n_rows();
        let turned = Mat::from_fn(size, 1, |k, _| eigen.values[k].max(0.0).sqrt() * normals[k]);
        let drawn = &eigen.vectors * turned;
        Ok((0..self.candidates)
            .map(|place| self.mean[place * self.outputs] + drawn[(place * self.outputs, 0)])
            .collect())
    }

    /// H(E p) − E H(p) at a candidate, over draws of its logits.
    pub fn mutual_information(&self, place: usize, normals: &[f64]) -> Result<f64> {
        let p = self.outputs;
        let eigen = symmetric_eigen(self.block(place, place).as_ref(), "the covariance of the logits")?;
        let mean = self.means(place);
        let draws = normals.chunks_exact(p);
        let count = draws.len() as f64;
        let (mut average, mut inner) = (vec![0.0; self.classes()], 0.0);
        for normal in draws {
            let logits: Vec<f64> = (0..p)
                .map(|i| {
                    let terms = (0..p).map(|k| eigen.vectors[(i, k)] * eigen.values[k].max(0.0).sqrt() * normal[k]);
                    mean[i] + terms.sum::<f64>()
                })
                .collect();
            let probabilities = self.probabilities(&logits);
            inner += self.entropy(&probabilities) / count;
            average.iter_mut().zip(&probabilities).for_each(|(all, own)| *all += own / count);
        }
        Ok((self.entropy(&average) - inner).max(0.0))
    }

    fn is_binary(&self) -> bool {
        self.family.likelihood().kind() == TargetKind::Answers
    }

    fn classes(&self) -> usize {
        self.outputs
    }

    /// Of each class, or of the second class of each output.
    fn probabilities(&self, logits: &[f64]) -> Vec<f64> {
        if self.is_binary() {
            return logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect();
        }
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all: Vec<f64> = logits.iter().map(|logit| (logit - top).exp()).collect();
        let total: f64 = all.iter().sum();
        all.into_iter().map(|value| value / total).collect()
    }

    fn entropy(&self, probabilities: &[f64]) -> f64 {
        let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
        let both = |p: &f64| if self.is_binary() { term(*p) + term(1.0 - p) } else { term(*p) };
        probabilities.iter().map(both).sum()
    }
}
