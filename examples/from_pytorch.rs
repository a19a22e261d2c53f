//! Error bars for a network that was trained in PyTorch.
//!
//! In PyTorch, a small network is trained as usual, and its weights are saved:
//!
//! ```python
//! net = torch.nn.Sequential(torch.nn.Linear(1, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
//! ...                                                       # train
//! safetensors.torch.save_file(net.state_dict(), "network.safetensors")
//! ```
//!
//! Here, the posterior is fitted to the same data, judged on data that were held out, saved, and loaded again. The
//! network is `data/snelson_map_gap_raw.safetensors`, trained on Snelson's data without 1.5 ≤ x ≤ 3.
//!
//! `cargo run --release --example from_pytorch` saves the posterior in `results/`.

use std::error::Error;
use std::path::Path;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::prelude::*;

/// Fits, scores, saves to `folder` and loads. Returns the largest difference between predictions before and after, and
/// the share of held-out points inside the 90 % interval of each method.
pub fn run(folder: &Path) -> Result<(f64, Vec<f64>), Box<dyn Error>> {
    // 1. The data, in their own units: the points in the gap are held out.
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let all = Table::read(&files.join("snelson.csv"))?.dataset(&["y".to_string()])?;
    let (gap, rest): (Vec<usize>, Vec<usize>) =
        (0..all.len()).partition(|&row| (1.5..=3.0).contains(&all.inputs()[(row, 0)]));
    let (train, test) = (all.select(&rest)?, all.select(&gap)?);

    // 2. The network. A state dict holds weights, but not what is between the layers, so the activation is named here.
    //    (For a network that saw standardised data, fit to `train.standardized(Standardize::InputsAndTargets)?`: the
    //    data set keeps the scaling, and predictions come in original units.)
    let network = Network::load(&files.join("snelson_map_gap_raw.safetensors"), Some(Activation::Tanh))?;

    // 3. The posterior, tuned.
    let mut laplace = Laplace::fit(network, train, Family::gaussian(1.0)?, &FitOptions::default())?;
    laplace.optimize(&EvidenceOptions::default())?;
    println!(
        "{} parameters, of which the data determine {:.1}",
        laplace.parameters().len(),
        laplace.effective_parameters()
    );

    // 4. Saved and loaded: one file holds the model, the posterior, the scaling and the training data.
    let path = folder.join("snelson_posterior.safetensors");
    std::fs::create_dir_all(folder)?;
    laplace.save(&path, Contents::TrainingData)?;
    let loaded = Laplace::load(&path)?;

    // 5. Judged on the held-out data. This network alone is too sure of itself there: its interval contains little more
    //   than half of them. The posterior's intervals contain all of them, because they are wide where there were no
    //   data. (One network and one gap: a demonstration, not a benchmark; docs/results has those.)
    println!("\n{} points in the gap       MSE      NLL   in the 90 % interval", test.len());
    let (mut difference, mut shares): (f64, Vec<f64>) = (0.0, Vec::new());
    let methods =
        [("network alone", Method::Map), ("linearised", Method::default()), ("Riemannian", Method::riemannian(200, 0))];
    for (name, method) in methods {
        let prediction = laplace.predict(test.inputs(), &method)?;
        let again = loaded.predict(test.inputs(), &method)?;
        for (before, after) in [(&prediction.mean, &again.mean), (&prediction.total_variance, &again.total_variance)] {
            let differences = before.iter().zip(after).map(|(a, b)| (a - b).abs());
            difference = differences.fold(difference, f64::max);
        }
        let Scores::Regression(scores) = Scores::of(&prediction, test.targets())? else { continue };
        let (lower, upper) = prediction.interval(0.9)?;
        let bounds = lower.iter().zip(&upper);
        let inside = test.targets().iter().zip(bounds).filter(|(y, (low, high))| low <= y && y <= high).count();
        let share = inside as f64 / test.len() as f64;
        println!("{name:21} {:9.3} {:8.2} {:18.0} %", scores.mse, scores.nll, 100.0 * share);
        shares.push(share);
    }
    println!("\nSaved to {} and loaded: predictions differ by {difference:e}.", path.display());
    Ok((difference, shares))
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new("results")).map(|_| ())
}
