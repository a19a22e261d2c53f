//! What the columns of a data set are called, which classes its labels name, and how it was scaled.

use std::collections::HashSet;
use std::path::Path;

use ndarray::{Array2, Array3, ArrayView2, ArrayView3, Axis};
use serde::{Deserialize, Serialize};

use super::encoding::TableReading;
use super::{Scaling, Standardization};
use crate::error::{DataError, Error, Result, check_size, shown};
use crate::likelihood::Known;

/// The metadata key under which a model file keeps the names of its columns and classes, as JSON.
pub const SCHEMA_KEY: &str = "schema";
/// The metadata key under which a model file keeps the scaling of its data, as JSON.
pub const SCALING_KEY: &str = "scaling";

/// Column names, class names and scaling: what new data must have in common with the training data.
///
/// Names are unique, inputs and targets together. With a [`Scaling`], arrays that go with the schema are in the
/// network's units, and the methods of the schema convert to and from them; without one they change nothing.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::data::Standardization;
/// use riemannian_laplace::{Scaling, Schema};
/// let schema = Schema::new(vec!["age".into()], vec!["height".into()])?;
/// let scaling = Scaling { inputs: Standardization::new(vec![40.0], vec![10.0])?, targets: None };
/// let schema = schema.with_scaling(scaling)?;
/// assert_eq!(schema.scale_inputs(array![[50.0]].view())?, array![[1.0]]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Schema {
    inputs: Vec<String>,
    targets: Vec<String>,
    /// Columns that are neither inputs nor targets, behind the targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    known: Vec<KnownColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<Classes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scaling: Option<Scaling>,
    /// How files are read, unless every column is a number and none is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reading: Option<TableReading>,
}

/// A column of what is known of each row besides its targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownColumn {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Known,
}

/// The names of the classes that the labels denote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Classes {
    /// The same for every target.
    Shared(Vec<String>),
    /// One list per target.
    PerTarget(Vec<Vec<String>>),
}

/// The contents of a file, before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    inputs: Vec<String>,
    targets: Vec<String>,
    #[serde(default)]
    known: Vec<KnownColumn>,
    #[serde(default)]
    classes: Option<Classes>,
    #[serde(default)]
    scaling: Option<Scaling>,
    #[serde(default)]
    reading: Option<TableReading>,
}

impl TryFrom<Fields> for Schema {
    type Error = Error;

    fn try_from(fields: Fields) -> Result<Self> {
        let mut schema = Self::new(fields.inputs, fields.targets)?.with_known(fields.known)?;
        if let Some(reading) = fields.reading {
            schema = schema.with_reading(reading)?;
        }
        match fields.classes {
            None => {}
            Some(Classes::Shared(classes)) => schema = schema.with_classes(classes)?,
            Some(Classes::PerTarget(classes)) => schema = schema.with_target_classes(classes)?,
        }
        match fields.scaling {
            Some(scaling) => schema.with_scaling(scaling),
            None => Ok(schema),
        }
    }
}

impl Schema {
    /// Columns by name; no name may be empty or appear twice.
    pub fn new(inputs: Vec<String>, targets: Vec<String>) -> Result<Self> {
        check_names("column", inputs.iter().chain(&targets))?;
        Ok(Self { inputs, targets, known: Vec::new(), classes: None, scaling: None, reading: None })
    }

    /// Default names for unnamed columns: `x1`, `x2`, … and `y` (`y1`, `y2`, … if there are several targets).
    pub fn unnamed(n_inputs: usize, n_targets: usize) -> Self {
        let targets = match n_targets {
            1 => vec!["y".to_string()],
            _ => (1..=n_targets).map(|column| format!("y{column}")).collect(),
        };
        let inputs = (1..=n_inputs).map(|column| format!("x{column}")).collect();
        Self { inputs, targets, known: Vec::new(), classes: None, scaling: None, reading: None }
    }

    /// With other inputs.
    #[cfg(feature = "cli")]
    pub(super) fn with_inputs(mut self, inputs: Vec<String>) -> Result<Self> {
        check_names("column", inputs.iter().chain(&self.target_columns()))?;
        self.inputs = inputs;
        self.check_scaling()
    }

    /// With columns behind the targets: the noise of each target, or its number of trials, then weights.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::internals::data::KnownColumn;
    /// use riemannian_laplace::internals::likelihood::Known;
    /// use riemannian_laplace::{Dataset, Schema};
    ///
    /// let weights = KnownColumn { name: "w".into(), kind: Known::Weight };
    /// let schema = Schema::unnamed(1, 1).with_known(vec![weights])?;
    /// let data = Dataset::new(array![[0.0], [1.0]], array![[0.1, 1.0], [0.9, 2.0]])?.with_schema(schema)?;
    /// assert_eq!(data.schema().targets(), ["y"]);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn with_known(mut self, known: Vec<KnownColumn>) -> Result<Self> {
        self.known = known;
        check_names("column", self.inputs.iter().chain(&self.target_columns()))?;
        Ok(self)
    }

    /// With class names: a target of value c is the class with index c.
    pub fn with_classes(mut self, classes: Vec<String>) -> Result<Self> {
        check_names("class", classes.iter())?;
        self.classes = Some(Classes::Shared(classes));
        self.check_scaling()
    }

    /// With class names of its own for each target.
    pub fn with_target_classes(mut self, classes: Vec<Vec<String>>) -> Result<Self> {
        check_size("number of lists of classes", self.targets.len(), classes.len())?;
        classes.iter().try_for_each(|names| check_names("class", names.iter()))?;
        self.classes = Some(Classes::PerTarget(classes));
        self.check_scaling()
    }

    /// With a scaling, which must have as many columns as the schema. Classes cannot be scaled.
    pub fn with_scaling(mut self, scaling: Scaling) -> Result<Self> {
        self.scaling = Some(scaling);
        self.check_scaling()
    }

    /// The same names, in the original units.
    pub fn without_scaling(&self) -> Self {
        Self { scaling: None, ..self.clone() }
    }

    /// The names of the input columns, in order.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The names of the target columns, in order.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// The same for data that are scored, each row once: without weights.
    pub fn without_weights(&self) -> Self {
        let known = self.known.iter().filter(|column| column.kind != Known::Weight).cloned().collect();
        Self { known, ..self.clone() }
    }

    /// The columns of known values, behind the targets.
    pub fn known(&self) -> &[KnownColumn] {
        &self.known
    }

    /// What these columns hold.
    pub fn known_kinds(&self) -> Vec<Known> {
        self.known.iter().map(|column| column.kind).collect()
    }

    /// The names of the targets and of the known values behind them.
    pub fn target_columns(&self) -> Vec<String> {
        self.targets.iter().chain(self.known.iter().map(|column| &column.name)).cloned().collect()
    }

    /// The names of the (first) target's classes, if the labels are words.
    pub fn classes(&self) -> Option<&[String]> {
        self.classes_of(0)
    }

    /// The names of a target's classes, if the labels are words.
    pub fn classes_of(&self, target: usize) -> Option<&[String]> {
        match self.classes.as_ref()? {
            Classes::Shared(names) => (target < self.targets.len()).then_some(names),
            Classes::PerTarget(lists) => lists.get(target).map(Vec::as_slice),
        }
    }

    /// Whether both have the same targets, with the same classes and in the same units.
    pub(crate) fn has_targets_of(&self, other: &Self) -> bool {
        (&self.targets, &self.known, &self.classes, self.target_scaling())
            == (&other.targets, &other.known, &other.classes, other.target_scaling())
    }

    /// How the columns were scaled, if they were.
    pub fn scaling(&self) -> Option<&Scaling> {
        self.scaling.as_ref()
    }

    /// Inputs in the network's units.
    pub fn scale_inputs(&self, inputs: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_size("number of input columns", self.inputs.len(), inputs.ncols())?;
        match &self.scaling {
            Some(scaling) => scaling.inputs.apply(inputs),
            None => Ok(inputs.to_owned()),
        }
    }

    /// Targets in the network's units, with or without the known values behind them.
    pub fn scale_targets(&self, targets: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.in_other_units(targets, Standardization::apply, |noise, scale| noise / scale)
    }

    /// Targets by one rule, and the noise that is known of each by another.
    fn in_other_units(
        &self,
        rows: ArrayView2<'_, f64>,
        of_targets: impl Fn(&Standardization, ArrayView2<'_, f64>) -> Result<Array2<f64>>,
        of_noise: impl Fn(f64, f64) -> f64,
    ) -> Result<Array2<f64>> {
        let n_targets = self.targets.len();
        let has_known = !self.known.is_empty() && rows.ncols() == n_targets + self.known.len();
        if !has_known {
            check_size("number of target columns", n_targets, rows.ncols())?;
        }
        let Some(scaling) = self.target_scaling() else { return Ok(rows.to_owned()) };
        if !has_known {
            return of_targets(scaling, rows);
        }
        let mut converted = rows.to_owned();
        let observed = of_targets(scaling, rows.split_at(Axis(1), n_targets).0)?;
        converted.view_mut().split_at(Axis(1), n_targets).0.assign(&observed);
        let known = self.known.iter().zip(converted.columns_mut().into_iter().skip(n_targets));
        let noise = known.filter(|(column, _)| column.kind == Known::Noise);
        for ((_, mut values), scale) in noise.zip(scaling.scale()) {
            values.mapv_inplace(|value| of_noise(value, *scale));
        }
        Ok(converted)
    }

    /// Targets, and the known values behind them, in the original units.
    pub fn restore_targets(&self, rows: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.in_other_units(rows, Standardization::undo, |noise, scale| noise * scale)
    }

    /// Inputs in the original units.
    pub fn restore_inputs(&self, inputs: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_size("number of input columns", self.inputs.len(), inputs.ncols())?;
        match &self.scaling {
            Some(scaling) => scaling.inputs.undo(inputs),
            None => Ok(inputs.to_owned()),
        }
    }

    /// The means of predictions in the original units.
    pub fn restore_mean(&self, mean: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        match self.target_scaling() {
            Some(scaling) => scaling.undo(mean),
            None => Ok(mean.to_owned()),
        }
    }

    /// Variances of predictions in the original units.
    pub fn restore_variance(&self, variance: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        match self.target_scaling() {
            Some(scaling) => scaling.undo_variance(variance),
            None => Ok(variance.to_owned()),
        }
    }

    /// Covariances between the outputs of each point in the original units.
    pub fn restore_covariance(&self, covariance: ArrayView3<'_, f64>) -> Result<Array3<f64>> {
        match self.target_scaling() {
            Some(scaling) => scaling.undo_covariance(covariance),
            None => Ok(covariance.to_owned()),
        }
    }

    /// Standard deviations of the targets in the original units: a single value for all of them stays single if all
    /// have the same scale.
    pub fn restore_deviations(&self, deviations: &[f64]) -> Vec<f64> {
        self.multiply_by_scale(deviations, |scale| scale)
    }

    /// Standard deviations of the targets in the units of the model.
    pub fn scale_deviations(&self, deviations: &[f64]) -> Vec<f64> {
        self.multiply_by_scale(deviations, |scale| 1.0 / scale)
    }

    fn multiply_by_scale(&self, deviations: &[f64], factor: impl Fn(f64) -> f64) -> Vec<f64> {
        match (self.target_scaling().map(Standardization::scale), deviations) {
            (None, _) => deviations.to_vec(),
            (Some([first, others @ ..]), [deviation]) if others.iter().all(|scale| scale == first) => {
                vec![deviation * factor(*first)]
            }
            (Some(scales), [deviation]) => scales.iter().map(|scale| deviation * factor(*scale)).collect(),
            (Some(scales), several) => {
                several.iter().zip(scales).map(|(value, scale)| value * factor(*scale)).collect()
            }
        }
    }

    /// What is added to the log density of one point's targets in the network's units to make it one in the original
    /// units: −Σ log scale over the targets, 0 without a scaling.
    pub fn log_density_shift(&self) -> f64 {
        self.target_scaling().map_or(0.0, Standardization::log_density_shift)
    }

    /// The entries of a model file's metadata: names under [`SCHEMA_KEY`], and the scaling, if there is one, under
    /// [`SCALING_KEY`].
    pub fn to_metadata(&self) -> serde_json::Result<Vec<(&'static str, String)>> {
        let mut entries = vec![(SCHEMA_KEY, serde_json::to_string(&self.without_scaling())?)];
        if let Some(scaling) = &self.scaling {
            entries.push((SCALING_KEY, serde_json::to_string(scaling)?));
        }
        Ok(entries)
    }

    /// The inverse of [`to_metadata`](Self::to_metadata): the values under [`SCHEMA_KEY`] and [`SCALING_KEY`] of the
    /// file at `path`. Without names there is no schema; a scaling alone is read by [`Scaling::from_metadata`].
    pub fn from_metadata(path: &Path, schema: Option<&str>, scaling: Option<&str>) -> Result<Option<Self>> {
        let Some(text) = schema else { return Ok(None) };
        let invalid = |key, problem: String| Error::Metadata { path: path.to_path_buf(), key, problem };
        let schema: Self =
            serde_json::from_str(text).map_err(|error| invalid(SCHEMA_KEY, format!("cannot be read: {error}")))?;
        match Scaling::from_metadata(path, scaling)? {
            Some(scaling) => schema
                .with_scaling(scaling)
                .map(Some)
                .map_err(|error| invalid(SCALING_KEY, format!("does not fit the columns: {error}"))),
            None => Ok(Some(schema)),
        }
    }

    fn target_scaling(&self) -> Option<&Standardization> {
        self.scaling.as_ref()?.targets.as_ref()
    }

    fn check_scaling(self) -> Result<Self> {
        if let Some(scaling) = &self.scaling {
            check_size("number of scaled input columns", self.inputs.len(), scaling.inputs.n_columns())?;
            if let Some(targets) = &scaling.targets {
                check_size("number of scaled target columns", self.targets.len(), targets.n_columns())?;
                if self.classes.is_some() {
                    return Err(Error::Data(DataError::ScaledClasses));
                }
            }
        }
        Ok(self)
    }
}

impl Scaling {
    /// Reads the value under [`SCALING_KEY`] of the metadata of the file at `path`.
    pub fn from_metadata(path: &Path, scaling: Option<&str>) -> Result<Option<Self>> {
        scaling.map(serde_json::from_str).transpose().map_err(|error| Error::Metadata {
            path: path.to_path_buf(),
            key: SCALING_KEY,
            problem: format!("cannot be read: {error}"),
        })
    }
}

/// Checks that no name is empty or appears twice.
fn check_names<'a>(what: &'static str, names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() {
            return Err(Error::Data(DataError::EmptyName { what, index: index + 1 }));
        }
        if !seen.insert(name) {
            return Err(Error::Data(DataError::DuplicateName { what, name: name.clone() }));
        }
    }
    Ok(())
}

/// At most this many names are listed in a message.
const MOST_LISTED: usize = 10;

/// Names for a message: all if there are few, otherwise the first ten; each with its control characters escaped, and cut
/// if it is long.
pub fn list_names(names: &[String]) -> String {
    let mut list = names.iter().take(MOST_LISTED).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    if names.len() > MOST_LISTED {
        list += &format!(", … ({} in all)", names.len());
    }
    list
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn scaling(inputs: usize, targets: Option<usize>) -> Scaling {
        let unit = |columns| Standardization::new(vec![0.5; columns], vec![2.0; columns]).expect("a scaling");
        Scaling { inputs: unit(inputs), targets: targets.map(unit) }
    }

    #[test]
    fn unnamed_columns_are_numbered() {
        let one = Schema::unnamed(2, 1);
        assert_eq!((one.inputs(), one.targets()), (&names(&["x1", "x2"])[..], &names(&["y"])[..]));
        assert_eq!(Schema::unnamed(1, 2).targets(), names(&["y1", "y2"]));
    }

    #[test]
    fn names_are_unique_over_inputs_and_targets() {
        assert!(Schema::new(names(&["a", "b"]), names(&["c"])).is_ok());
        for (inputs, targets) in [(&["a", "a"][..], &["y"][..]), (&["a"], &["a"]), (&["a"], &["y", "y"])] {
            let error = Schema::new(names(inputs), names(targets)).unwrap_err();
            assert!(matches!(error, Error::Data(DataError::DuplicateName { what: "column", .. })), "{error}");
        }
        assert!(matches!(
            Schema::new(names(&["a", ""]), vec![]),
            Err(Error::Data(DataError::EmptyName { index: 2, .. }))
        ));
        assert!(Schema::unnamed(1, 1).with_classes(names(&["no", "no"])).is_err());
    }

    #[test]
    fn a_scaling_has_the_columns_of_its_schema_and_leaves_classes_alone() {
        let schema = Schema::unnamed(2, 1);
        assert!(schema.clone().with_scaling(scaling(2, Some(1))).is_ok());
        assert!(schema.clone().with_scaling(scaling(1, Some(1))).is_err());
        assert!(schema.clone().with_scaling(scaling(2, Some(2))).is_err());
        let classes = schema.with_classes(names(&["no", "yes"])).expect("classes");
        assert!(classes.clone().with_scaling(scaling(2, None)).is_ok());
        assert!(matches!(classes.with_scaling(scaling(2, Some(1))), Err(Error::Data(DataError::ScaledClasses))));
    }

    #[test]
    fn metadata_lead_there_and_back() -> Result<()> {
        let path = Path::new("model.safetensors");
        let plain = Schema::new(names(&["a", "b"]), names(&["label"]))?.with_classes(names(&["no", "yes"]))?;
        for schema in [plain.clone(), plain.with_scaling(scaling(2, None))?] {
            let entries = schema.to_metadata().expect("JSON");
            let value = |key| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.as_str());
            assert_eq!(Schema::from_metadata(path, value(SCHEMA_KEY), value(SCALING_KEY))?, Some(schema.clone()));
            let whole: Schema = serde_json::from_str(&serde_json::to_string(&schema).expect("JSON")).expect("a schema");
            assert_eq!(whole, schema);
        }
        assert_eq!(Schema::from_metadata(path, None, None)?, None);
        Ok(())
    }

    #[test]
    fn each_target_may_have_classes_of_its_own() -> Result<()> {
        let schema = Schema::unnamed(1, 2).with_target_classes(vec![names(&["no", "yes"]), names(&["ill", "well"])])?;
        assert_eq!(schema.classes_of(1), Some(&names(&["ill", "well"])[..]));
        let text = serde_json::to_string(&schema).expect("JSON");
        assert_eq!(serde_json::from_str::<Schema>(&text).expect("a schema"), schema);
        assert!(Schema::unnamed(1, 2).with_target_classes(vec![names(&["no", "yes"])]).is_err());
        assert!(Schema::unnamed(1, 1).with_target_classes(vec![names(&["no", "no"])]).is_err());
        Ok(())
    }

    #[test]
    fn damaged_metadata_are_refused_by_their_key() {
        let path = Path::new("model.safetensors");
        let two = r#"{"inputs":["a","b"],"targets":["y"]}"#;
        let one = r#"{"inputs":{"mean":[1],"scale":[1]}}"#;
        for (schema, scaling, words) in [
            ("{", None, ["`schema`", "cannot be read"]),
            (r#"{"inputs":["a","a"],"targets":[]}"#, None, ["`schema`", "`a` appears twice"]),
            (two, Some("[]"), ["`scaling`", "cannot be read"]),
            (two, Some(one), ["`scaling`", "expected 2, found 1"]),
        ] {
            let error = Schema::from_metadata(path, Some(schema), scaling).unwrap_err().to_string();
            assert!(error.contains("model.safetensors") && words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn without_a_scaling_nothing_changes() -> Result<()> {
        let schema = Schema::unnamed(1, 1);
        let values = array![[3.0], [-1.0]];
        assert_eq!(schema.scale_inputs(values.view())?, values);
        assert_eq!(schema.restore_variance(values.view())?, values);
        assert_eq!(schema.log_density_shift(), 0.0);
        assert!(schema.scale_inputs(array![[1.0, 2.0]].view()).is_err());
        Ok(())
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let many: Vec<String> = (0..20_000).map(|column| format!("c{column}")).collect();
        assert_eq!(list_names(&many), "c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, … (20000 in all)");
        assert_eq!(list_names(&many[..2]), "c0, c1");
    }
}
