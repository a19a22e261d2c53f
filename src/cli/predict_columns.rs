//! The columns of predictions, by likelihood.

use std::collections::HashSet;

use ndarray::{Array2, Array3, Axis};
use riemannian_laplace::internals::likelihood::TargetKind;
use riemannian_laplace::internals::predict::{LatentGaussian, Promised};
use riemannian_laplace::{Laplace, Prediction, Schema};

use super::classes;
use super::output::Columns;

/// The columns of a prediction. Those in `keep` are in the file as well.
pub fn of<'a>(
    prediction: &'a Prediction,
    promised: Option<&'a Promised>,
    laplace: &Laplace,
    keep: &[String],
) -> Columns<'a> {
    let (mut columns, schema) = (Columns::default(), laplace.schema());
    match prediction.family().likelihood().kind() {
        TargetKind::Real | TargetKind::Positive => {
            add_targets(&mut columns, "mean", &prediction.mean, schema);
            add_targets(&mut columns, "epistemic_variance", &prediction.epistemic_variance, schema);
            add_targets(&mut columns, "aleatoric_variance", &prediction.aleatoric_variance, schema);
            add_targets(&mut columns, "total_variance", &prediction.total_variance, schema);
        }
        TargetKind::Label => add_classes(&mut columns, prediction, laplace, keep),
        TargetKind::Answers => {
            for (target, column) in prediction.mean.columns().into_iter().enumerate() {
                let second = schema.classes_of(target).and_then(|names| names.get(1));
                columns.add(target_name(&probability_of(second.map_or("1", String::as_str)), target, schema), column);
            }
        }
        TargetKind::Count => {
            add_targets(&mut columns, "mean", &prediction.mean, schema);
            add_targets(&mut columns, "total_variance", &prediction.total_variance, schema);
        }
    }
    match promised {
        Some(Promised::Interval(lower, upper)) => {
            add_targets(&mut columns, "lower", lower, schema);
            add_targets(&mut columns, "upper", upper, schema);
        }
        Some(Promised::Set(inside)) => add_sets(&mut columns, inside, laplace),
        None => {}
    }
    columns
}

/// The classes of each set, and how many they are.
fn add_sets(columns: &mut Columns<'_>, inside: &Array3<bool>, laplace: &Laplace) {
    for (target, sets) in inside.axis_iter(Axis(1)).enumerate() {
        let names = classes::names(laplace.schema(), laplace.family(), inside.dim().2, target);
        let words = |set: ndarray::ArrayView1<'_, bool>| {
            let members = names.iter().zip(set).filter(|(_, inside)| **inside).map(|(name, _)| name.as_str());
            members.collect::<Vec<_>>().join("|")
        };
        columns.add_words(target_name("set", target, laplace.schema()), sets.rows().into_iter().map(words).collect());
        let count = |set: ndarray::ArrayView1<'_, bool>| set.iter().filter(|inside| **inside).count() as f64;
        let counts = sets.rows().into_iter().map(count).collect();
        columns.add_own(target_name("set_size", target, laplace.schema()), counts);
    }
}

/// A column for each target, with its name where there are several.
fn add_targets<'a>(columns: &mut Columns<'a>, name: &str, values: &'a Array2<f64>, schema: &Schema) {
    for (target, column) in values.columns().into_iter().enumerate() {
        columns.add(target_name(name, target, schema), column);
    }
}

fn target_name(name: &str, target: usize, schema: &Schema) -> String {
    match schema.targets() {
        [_] => name.to_string(),
        several => match several.get(target) {
            Some(target) => format!("{name}_{target}"),
            None => format!("{name}_{}", target + 1),
        },
    }
}

/// `p1` for the class 1, `p_yes` for the class `yes`.
fn probability_of(class: &str) -> String {
    if class.parse::<f64>().is_ok() { format!("p{class}") } else { format!("p_{class}") }
}

/// Probabilities under the names of their classes, the most probable class, and how uncertain it is.
fn add_classes(columns: &mut Columns<'_>, prediction: &Prediction, laplace: &Laplace, keep: &[String]) {
    let classes = classes::names(laplace.schema(), laplace.family(), prediction.n_outputs(), 0);
    let own = ["row", "note", "class", "entropy", "mutual_information", "logit_variance"].map(str::to_string);
    let mut taken: HashSet<String> = own.iter().chain(keep).chain(&classes).cloned().collect();
    let reserved: HashSet<&String> = own.iter().chain(keep).collect();
    for (class, column) in classes.iter().zip(prediction.mean.columns()) {
        let plain = class.parse::<f64>().is_err() && !reserved.contains(class);
        let mut name = if plain { class.clone() } else { probability_of(class) };
        // A class may be called like the column of another.
        while !plain && !taken.insert(name.clone()) {
            name.push('_');
        }
        columns.add_own(name, column.to_owned());
    }
    let most_probable = |row: ndarray::ArrayView1<'_, f64>| {
        let greatest = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
        greatest.and_then(|(class, _)| classes.get(class)).cloned().unwrap_or_default()
    };
    columns.add_words("class".to_string(), prediction.mean.rows().into_iter().map(most_probable).collect());
    columns.add_own("entropy".to_string(), prediction.uncertainty());
    // Without samples the probabilities are a closed form, and so is what the posterior does not know of the logits.
    match (&prediction.mutual_information, prediction.logit_variance()) {
        (Some(information), _) => columns.add_own("mutual_information".to_string(), information.clone()),
        (None, Some(variance)) => columns.add_own("logit_variance".to_string(), variance),
        (None, None) => {}
    }
}

/// The covariances, one row per point.
pub fn flat_covariances(latent: &LatentGaussian) -> Array2<f64> {
    let (points, p, _) = latent.covariance.dim();
    let mut flat = Array2::zeros((points, p * p));
    flat.iter_mut().zip(&latent.covariance).for_each(|(entry, covariance)| *entry = *covariance);
    flat
}

/// The columns of the Gaussian over the raw outputs.
pub fn of_latent<'a>(latent: &'a LatentGaussian, covariances: &'a Array2<f64>) -> Columns<'a> {
    let mut columns = Columns::default();
    let outputs = latent.mean.ncols();
    for (output, column) in latent.mean.columns().into_iter().enumerate() {
        columns.add(format!("f_mean_{}", output + 1), column);
    }
    for (index, column) in covariances.axis_iter(Axis(1)).enumerate() {
        columns.add(format!("f_cov_{}_{}", index / outputs + 1, index % outputs + 1), column);
    }
    columns
}
