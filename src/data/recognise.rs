//! What the columns of a file are, from the profiles of their cells: a schema for data that are seen for the first time, and
//! the check of later data against it. All problems are told at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::encoder::value;
use super::encoding::{ColumnKind, InputColumn, Unknown};
use super::numbers::{self, Cell};
use super::profile::{Codes, FEW, Profile, sort_labels};
use super::schema::list_names;
use super::table::missing_column;
use super::{Schema, TableOptions};
use crate::error::{ColumnProblem, ColumnProblemKind, Error, Remedy, Result, TableError};

/// At most this many are, where each occurs twice on average; more only where the column is named.
const MOST_CATEGORIES: usize = 50;

/// Whether targets are classes, which may be words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Labels {
    Numbers,
    Classes,
}

/// The columns of a file and what their cells are.
pub(super) struct Profiled<'a> {
    pub(super) path: &'a Path,
    pub(super) names: &'a [String],
    pub(super) profiles: &'a [Profile],
    pub(super) options: &'a TableOptions,
}

/// Whether the different numbers of each column are needed: of class labels and of categories.
pub(super) fn codes(
    names: &[String],
    labels: &[String],
    options: &TableOptions,
    schema: Option<&Schema>,
) -> Vec<Codes> {
    let schema_columns = schema.map(Schema::input_columns).unwrap_or_default();
    let categories = schema_columns.iter().filter(|column| matches!(column.kind, ColumnKind::Words(_)));
    let wanted: HashSet<&str> = labels
        .iter()
        .chain(&options.categorical)
        .map(String::as_str)
        .chain(categories.map(|column| column.name.as_str()))
        .collect();
    let of = |name: &String| if wanted.contains(name.as_str()) { Codes::Collected } else { Codes::Ignored };
    names.iter().map(of).collect()
}

impl Profiled<'_> {
    /// The schema of a file whose columns are all inputs but for the named targets. Missing values are not filled in yet.
    pub(super) fn schema(&self, targets: &[String], labels: Labels) -> Result<Schema> {
        let known = self.by_name();
        let find = |name: &String| known.get(name.as_str()).copied().ok_or_else(|| self.missing(name));
        let target_profiles = targets.iter().map(find).collect::<Result<Vec<_>>>()?;
        if let Some(name) = self.options.categorical.iter().find(|name| !known.contains_key(name.as_str())) {
            return Err(self.missing(name));
        }
        let (mut columns, mut problems) = (Vec::new(), Vec::new());
        let known_columns = self.options.known.iter().map(|column| &column.name);
        for name in self.inputs(&self.options.target_columns(targets)) {
            let profile = find(&name)?;
            let column = self.recognise(&name, profile);
            // A column that is better left out is not worth filling in.
            if !matches!(&column, Err(problem) if problem.remedy == Remedy::Ignore) {
                problems.extend(self.missing_inputs(&name, profile));
            }
            match column {
                Ok(column) => columns.push(column),
                Err(problem) => problems.push(problem),
            }
        }
        for (name, profile) in targets.iter().zip(&target_profiles) {
            problems.extend(target_problem(name, profile, labels));
        }
        for name in known_columns {
            problems.extend(target_problem(name, find(name)?, Labels::Numbers));
        }
        self.refuse(problems)?;
        let schema = Schema::encoded(columns, targets.to_vec())?.read_as(self.options);
        let schema = schema.with_known(self.options.known.clone())?;
        match labels {
            Labels::Numbers => Ok(schema),
            Labels::Classes => self.with_classes(schema, &target_profiles),
        }
    }

    /// Checks that the cells of a schema's columns can be read as it says.
    pub(super) fn check(&self, schema: &Schema, targets: &[String]) -> Result<()> {
        let (known, mut problems) = (self.by_name(), Vec::new());
        let unknown = if self.options.unknown == Unknown::Other { Unknown::Other } else { schema.unknown() };
        for column in schema.input_columns().iter() {
            if let Some(profile) = known.get(column.name.as_str()) {
                problems.extend(problem_of(column, profile, unknown));
            }
        }
        for (index, name) in targets.iter().enumerate() {
            let labels = if schema.classes_of(index).is_some() { Labels::Classes } else { Labels::Numbers };
            if let Some(profile) = known.get(name.as_str()) {
                problems.extend(target_problem(name, profile, labels));
            }
        }
        self.refuse(problems)
    }

    fn by_name(&self) -> HashMap<&str, &Profile> {
        self.names.iter().map(String::as_str).zip(self.profiles).collect()
    }

    fn missing(&self, name: &str) -> Error {
        missing_column(self.path, name, self.names)
    }

    /// The input columns: in the order that was stated, or as they come.
    fn inputs(&self, targets: &[String]) -> Vec<String> {
        let taken: HashSet<&String> = targets.iter().collect();
        match self.options.input_order.is_empty() {
            true => self.names.iter().filter(|name| !taken.contains(name)).cloned().collect(),
            false => self.options.input_order.clone(),
        }
    }

    fn refuse(&self, mut problems: Vec<ColumnProblem>) -> Result<()> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_by_key(|problem| problem.line);
        Err(Error::Table(TableError::Columns { path: self.path.to_path_buf(), problems }))
    }

    /// Missing inputs that are neither left out nor filled in. A column that most rows lack would take those rows with it.
    fn missing_inputs(&self, name: &str, profile: &Profile) -> Option<ColumnProblem> {
        let line = profile.first_missing.filter(|_| self.options.impute.is_none())?;
        let kind = ColumnProblemKind::Missing { count: profile.missing };
        let mostly = profile.missing > profile.numbers + profile.n_words;
        let remedy = if mostly { Remedy::Ignore } else { Remedy::DropOrImpute };
        Some(ColumnProblem { column: name.to_string(), line, kind, remedy })
    }

    /// What an input column is.
    fn recognise(&self, name: &str, profile: &Profile) -> std::result::Result<InputColumn, ColumnProblem> {
        let problem = |line, kind, remedy| Err(ColumnProblem { column: name.to_string(), line, kind, remedy });
        let cells = profile.numbers + profile.n_words;
        if let Some(line) = profile.first_missing.filter(|_| cells == 0) {
            return problem(line, ColumnProblemKind::AllMissing, Remedy::Ignore);
        }
        if self.options.categorical.iter().any(|other| other == name) {
            return Ok(InputColumn::new(name, ColumnKind::Words(profile.categories())));
        }
        let Some((line, text)) = profile.first_word() else { return Ok(InputColumn::new(name, ColumnKind::Number)) };
        let (text, count) = (text.clone(), profile.words.len());
        if numbers::are_booleans(profile.words.keys()) && profile.numbers == 0 {
            return Ok(InputColumn::new(name, ColumnKind::Boolean));
        }
        if profile.words.keys().all(|word| numbers::date(word).is_some()) && profile.numbers == 0 {
            return Ok(InputColumn::new(name, ColumnKind::Date));
        }
        // `inf` is no word.
        let beyond = profile.first_word_that(|word| word.parse::<f64>().is_ok());
        if let Some((line, text)) = beyond {
            return problem(line, ColumnProblemKind::NotANumber { text: text.clone() }, Remedy::Correct);
        }
        let are_few = count <= FEW || (count <= MOST_CATEGORIES && 2 * count as u64 <= profile.n_words);
        // A few words among a few numbers are categories as well, unless they are rare enough to be slips.
        let mixed = profile.few_categories().is_some_and(|all| all <= FEW && 2 * all as u64 <= cells)
            && 10 * profile.n_words >= cells;
        match (profile.numbers, are_few) {
            (0, true) => Ok(InputColumn::new(name, ColumnKind::Words(profile.categories()))),
            (0, false) => problem(line, ColumnProblemKind::TooManyWords { text, count }, Remedy::Ignore),
            (_, true) if mixed => Ok(InputColumn::new(name, ColumnKind::Words(profile.categories()))),
            (_, true) => problem(line, ColumnProblemKind::NotANumber { text }, Remedy::Categorical),
            (_, false) => problem(line, ColumnProblemKind::NotANumber { text }, Remedy::Ignore),
        }
    }

    /// The schema with the classes that the labels name: words; whole numbers other than 0, 1, …, C−1; or as stated.
    fn with_classes(&self, schema: Schema, targets: &[&Profile]) -> Result<Schema> {
        if !self.options.class_names.is_empty() {
            return self.with_stated_classes(schema, targets);
        }
        let word = targets.iter().find_map(|profile| profile.first_word());
        let number = targets.iter().find_map(|profile| profile.first_number);
        match (word, number) {
            (Some((word_line, word)), Some((number_line, number))) => Err(Error::Table(TableError::MixedLabels {
                path: self.path.to_path_buf(),
                word: word.clone(),
                word_line,
                number,
                number_line,
            })),
            (Some(_), None) => with_names(schema, targets.iter().map(|profile| profile.words.keys()).collect()),
            (None, _) => {
                let whole = |text: &String| text.parse::<f64>().is_ok_and(|value| value == value.trunc());
                let named = targets.iter().any(|profile| !are_numbered(profile, self.options.n_classes));
                match named && targets.iter().all(|profile| profile.codes.keys().all(whole)) {
                    true => with_names(schema, targets.iter().map(|profile| profile.codes.keys()).collect()),
                    false => Ok(schema),
                }
            }
        }
    }

    /// The schema with the classes of `class_names`, in that order: labels are among them, or their numbers.
    fn with_stated_classes(&self, schema: Schema, targets: &[&Profile]) -> Result<Schema> {
        let names = &self.options.class_names;
        let labels = || targets.iter().flat_map(|profile| profile.words.iter().chain(&profile.codes));
        let other = labels().find(|(label, _)| !names.contains(label));
        let Some((label, line)) = other else { return schema.with_classes(names.clone()) };
        if targets.iter().all(|profile| profile.words.is_empty() && are_numbered(profile, Some(names.len()))) {
            return schema.with_named_numbers(names.clone());
        }
        Err(Error::Table(TableError::UnknownClass {
            path: self.path.to_path_buf(),
            line: *line,
            column: list_names(schema.targets()).into(),
            label: label.as_str().into(),
            classes: list_names(names).into(),
        }))
    }
}

/// Whether labels are 0, 1, …, C−1: all of them, or some where C is known.
fn are_numbered(profile: &Profile, n_classes: Option<usize>) -> bool {
    let most = n_classes.unwrap_or(profile.codes.len()) as f64;
    let among =
        |text: &String| text.parse::<f64>().is_ok_and(|label| label == label.trunc() && label >= 0.0 && label < most);
    profile.codes.keys().all(among)
}

/// A schema whose labels are names, given those of each target: all targets share their classes where there is one target
/// or at most two names; otherwise each has its own.
fn with_names<'a, I: Iterator<Item = &'a String>>(schema: Schema, names: Vec<I>) -> Result<Schema> {
    let names: Vec<BTreeSet<String>> = names.into_iter().map(|names| names.cloned().collect()).collect();
    let sorted = |names: &BTreeSet<String>| {
        let mut names: Vec<String> = names.iter().cloned().collect();
        sort_labels(&mut names);
        names
    };
    let shared: BTreeSet<String> = names.iter().flatten().cloned().collect();
    if names.len() == 1 || shared.len() <= 2 {
        return schema.with_classes(sorted(&shared));
    }
    schema.with_target_classes(names.iter().map(sorted).collect())
}

/// What is wrong with the cells of a target.
fn target_problem(name: &str, profile: &Profile, labels: Labels) -> Option<ColumnProblem> {
    let problem = |line, kind, remedy| Some(ColumnProblem { column: name.to_string(), line, kind, remedy });
    if let Some(line) = profile.first_missing {
        return problem(line, ColumnProblemKind::Missing { count: profile.missing }, Remedy::Drop);
    }
    let beyond = profile.first_word_that(|word| word.parse::<f64>().is_ok());
    let remedy = if beyond.is_none() && profile.numbers == 0 { Remedy::Classes } else { Remedy::Correct };
    let word = beyond.or(profile.first_word().filter(|_| labels == Labels::Numbers));
    word.and_then(|(line, text)| problem(line, ColumnProblemKind::NotANumber { text: text.clone() }, remedy))
}

/// What is wrong with the cells of an input column of a schema.
fn problem_of(column: &InputColumn, profile: &Profile, unknown: Unknown) -> Option<ColumnProblem> {
    let problem = |line, kind, remedy| Some(ColumnProblem { column: column.name.clone(), line, kind, remedy });
    if let Some(line) = profile.first_missing.filter(|_| column.fill.is_none()) {
        return problem(line, ColumnProblemKind::Missing { count: profile.missing }, Remedy::Drop);
    }
    if let ColumnKind::Words(words) = &column.kind {
        let known: HashSet<&String> = words.iter().collect();
        let cells = profile.words.iter().chain(&profile.codes);
        let strange = cells.filter(|(word, _)| !known.contains(word)).map(|(word, line)| (*line, word)).min();
        let (line, word) = strange.filter(|_| unknown == Unknown::Refuse)?;
        let kind = ColumnProblemKind::UnknownWord { text: word.clone(), known: list_names(words) };
        return problem(line, kind, Remedy::UnknownIsOther);
    }
    let strange = profile.first_word_that(|word| value(&column.kind, Cell::Word(word)).is_none());
    let (line, text) = match (strange, &column.kind, profile.first_number) {
        (Some((line, word)), _, _) => (line, word.clone()),
        (None, ColumnKind::Date, Some((line, number))) => (line, number.to_string()),
        _ => return None,
    };
    let kind = match column.kind {
        ColumnKind::Date => ColumnProblemKind::NotADate { text },
        ColumnKind::Boolean => ColumnProblemKind::NotABoolean { text },
        ColumnKind::Number | ColumnKind::Words(_) => ColumnProblemKind::NotANumber { text },
    };
    problem(line, kind, Remedy::Correct)
}
