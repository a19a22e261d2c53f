//! Tables for the terminal: our numbers next to the published ones.

/// A table with a header; columns are as wide as their widest cell.
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn print(&self) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
            if index == 0 {
                println!("  {}", "─".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1)));
            }
        }
    }
}

/// Mean and standard deviation over repeats (ddof 0, as numpy's `std`).
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

/// `0.072 ± 0.001`, or the mean alone for a single value.
pub fn with_deviation(values: &[f64]) -> String {
    let (mean, deviation) = mean_and_deviation(values);
    if values.len() > 1 { format!("{mean:.3} ± {deviation:.3}") } else { format!("{mean:.3}") }
}
