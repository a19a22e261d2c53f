//! The training loss of any likelihood as one operation of candle: forward the mean of −log p, backward its scores.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::Family;

/// Σₙ −log p(yₙ | fₙ)^wₙ / Σₙ wₙ, where the weights are 1 unless rows have others.
struct NegativeLogLikelihood(Family);

/// −log p averaged over the rows of outputs and targets, with what is known of them behind the targets.
pub(super) fn negative_log_likelihood(family: &Family, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    outputs.contiguous()?.apply_op2(&targets.contiguous()?, NegativeLogLikelihood(family.clone()))
}

fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f64]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_slice::<f64>()?.get(start..end).unwrap_or_default()),
        None => Err(candle_core::Error::Msg("the loss needs contiguous tensors".to_string())),
    }
}

impl CustomOp2 for NegativeLogLikelihood {
    fn name(&self) -> &'static str {
        "negative-log-likelihood"
    }

    fn cpu_fwd(
        &self,
        outputs: &CpuStorage,
        outputs_layout: &Layout,
        targets: &CpuStorage,
        targets_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, p) = outputs_layout.shape().dims2()?;
        let (outputs, targets) = (numbers(outputs, outputs_layout)?, numbers(targets, targets_layout)?);
        let width = targets.len() / rows.max(1);
        let points = targets.chunks_exact(width.max(1)).zip(outputs.chunks_exact(p.max(1)));
        let (mut sum, mut weights) = (0.0, 0.0);
        for (values, f) in points {
            let row = self.0.of_row(values, p);
            sum -= row.likelihood.log_density(row.target, f);
            weights += row.weight;
        }
        Ok((CpuStorage::F64(vec![sum / weights]), Shape::from(())))
    }

    fn bwd(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (rows, p) = outputs.dims2()?;
        let (f, y) = (outputs.flatten_all()?.to_vec1::<f64>()?, targets.flatten_all()?.to_vec1::<f64>()?);
        let width = y.len() / rows.max(1);
        let mut scores = vec![0.0; f.len()];
        let points = y.chunks_exact(width.max(1)).zip(f.chunks_exact(p.max(1)));
        let mut weights = 0.0;
        for ((values, f), score) in points.zip(scores.chunks_exact_mut(p.max(1))) {
            let row = self.0.of_row(values, p);
            row.likelihood.gradient(row.target, f, score);
            weights += row.weight;
        }
        let scores = Tensor::from_vec(scores, (rows, p), outputs.device())?;
        let by_outputs = (scores * (-1.0 / weights))?.broadcast_mul(gradient)?;
        Ok((Some(by_outputs), None))
    }
}
