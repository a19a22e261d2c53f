//! What calibrated intervals depend on besides the prediction: the group and the weight of each row, from columns of the file
//! that need not be inputs.

use riemannian_laplace::internals::conformal::Conditions;
use riemannian_laplace::internals::data::{CsvStream, JoinedRow};
use riemannian_laplace::{Batches, Dataset, Laplace};

use super::console::Console;
use super::data::DataArgs;
use super::failure::Failure;

/// The columns by name.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Groups.
    pub groups: Option<String>,
    /// Weights.
    pub weights: Option<String>,
}

impl Columns {
    /// Those that a calibrated posterior needs.
    pub fn of(laplace: &Laplace) -> Self {
        let Some(calibration) = laplace.calibration() else { return Self::default() };
        Self {
            groups: calibration.groups.as_ref().map(|groups| groups.column.clone()),
            weights: calibration.weights.as_ref().map(|(column, _)| column.clone()),
        }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.groups.iter().chain(&self.weights).cloned().collect()
    }

    /// Reads rows with inputs and targets, in the units of the file, and the columns beside them.
    pub fn read_with_data(
        &self,
        data: &DataArgs,
        laplace: &Laplace,
        console: &Console,
    ) -> Result<(Dataset, Conditions), Failure> {
        let source = data.rows_beside(laplace, &self.names(), console)?;
        source.check_against(&**laplace.model(), laplace.family())?;
        let rows = source.streamed().ok_or_else(|| Failure::Usage("--data needs a file".to_string()))?;
        let at = self.read(&rows)?;
        let dataset = rows.read_all().map_err(|error| rows.locate(error))?;
        dataset.check_targets(laplace.family(), laplace.model().n_outputs()).map_err(|error| rows.locate(error))?;
        Ok((dataset, at))
    }

    /// Reads them of all rows.
    pub fn read(&self, rows: &CsvStream) -> Result<Conditions, Failure> {
        self.read_part(rows, 0..rows.n_rows())
    }

    /// Reads them of some rows.
    pub fn read_part(&self, rows: &CsvStream, range: std::ops::Range<usize>) -> Result<Conditions, Failure> {
        if self.groups.is_none() && self.weights.is_none() {
            return Ok(Conditions::default());
        }
        let columns = rows.find_columns(&self.names())?;
        let joined = rows.joined_rows(range, &columns)?;
        let kept: Vec<&JoinedRow> = joined.iter().filter(|row| row.missing.is_empty()).collect();
        let text = |row: &JoinedRow, index: usize| row.texts.get(index).map_or("", |text| text.trim()).to_string();
        let weight = |row: &&JoinedRow, name: &str| {
            let cell = text(row, usize::from(self.groups.is_some()));
            let number = cell.parse::<f64>().ok().filter(|weight| *weight > 0.0 && weight.is_finite());
            number.ok_or_else(|| {
                Failure::Usage(format!("row {}: `{name}` is `{cell}`, not a positive weight", row.number))
            })
        };
        Ok(Conditions {
            groups: self.groups.as_ref().map(|_| kept.iter().map(|row| text(row, 0)).collect()),
            weights: match &self.weights {
                Some(name) => Some(kept.iter().map(|row| weight(row, name)).collect::<Result<_, Failure>>()?),
                None => None,
            },
        })
    }
}
