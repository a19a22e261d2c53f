//! The training loss of any likelihood as one operation of candle: forward the mean of −log p, backward its scores.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::Likelihood;

/// The mean over rows of −log p(yₙ | fₙ).
struct NegativeLogLikelihood(Arc<dyn Likelihood>);

/// −log p averaged over the rows of outputs and targets.
pub(super) fn negative_log_likelihood(
    likelihood: Arc<dyn Likelihood>,
    outputs: &Tensor,
    targets: &Tensor,
) -> Result<Tensor> {
    outputs.contiguous()?.apply_op2(&targets.contiguous()?, NegativeLogLikelihood(likelihood))
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
        let sum: f64 = points.map(|(target, f)| -self.0.log_density(target, f)).sum();
        Ok((CpuStorage::F64(vec![sum / rows as f64]), Shape::from(())))
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
        for ((target, f), score) in points.zip(scores.chunks_exact_mut(p.max(1))) {
            self.0.gradient(target, f, score);
        }
        let scores = Tensor::from_vec(scores, (rows, p), outputs.device())?;
        let by_outputs = (scores * (-1.0 / rows as f64))?.broadcast_mul(gradient)?;
        Ok((Some(by_outputs), None))
    }
}
