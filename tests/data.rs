//! Data: CSV files of every kind that people have, columns matched by name, labels, scaling and batches.
#![cfg(feature = "cli")]

use std::path::PathBuf;

use ndarray::{Array2, array};
use riemannian_laplace::Error;
use riemannian_laplace::internals::data::{
    CsvStream, DataError, Standardization, StreamColumns, Table, TableOptions, row_blocks,
};
use riemannian_laplace::internals::team::Team;
use riemannian_laplace::{Batches, Dataset, Scaling, Schema, Standardize};

/// A CSV file that exists for the duration of a test.
struct Csv(tempfile::TempDir);

impl Csv {
    fn new(contents: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("data.csv"), contents).expect("a file");
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("data.csv")
    }
}

fn read(contents: &str) -> Result<Table, Error> {
    Table::read(&Csv::new(contents).path())
}

fn table(contents: &str) -> Table {
    read(contents).unwrap_or_else(|error| panic!("{error}"))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Checks that an error contains each of the words.
fn says<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) {
    let message = result.expect_err("an error").to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

#[test]
fn commas_semicolons_and_tabs_separate_the_same_table() -> Result<(), Error> {
    let expected = array![[1.0, -2.5], [3.0, 4e3]];
    for separator in [",", ";", "\t"] {
        let table = table(&"\u{feff}a|b c\r\n1| -2.5\r\n\r\n\"3\"|4e3\r\n".replace('|', separator));
        assert_eq!(table.columns(), ["a", "b c"]);
        assert_eq!(table.values(), &expected);
        assert_eq!(table.column("b c")?, [-2.5, 4e3]);
    }
    assert_eq!(table("x\n1\n2\n").columns(), ["x"]);
    assert_eq!(table("\"one, two\";y\n1;2\n").columns(), ["one, two", "y"]);
    Ok(())
}

#[test]
fn a_missing_header_is_recognised() {
    says(read("1,2\n3,4\n"), &["data.csv: line 1", "header seems to be missing", "names the columns"]);
    says(read("\n0.5\n1\n"), &["header seems to be missing"]);
    assert!(read("1,y\n3,4\n").is_ok());
}

#[test]
fn messages_give_the_line_that_an_editor_shows() -> Result<(), Error> {
    // A word, an infinite number, a missing cell and an empty one, in lines 2, 3 and 9,002 of files with all kinds of line
    // ends; and 100 blank lines before that.
    for (bad, words) in [("1,inf", "`inf`"), ("1,2,3", "3 cells"), ("1,", "`y`"), ("1,word", "word")] {
        for ending in ["\n", "\r\n"] {
            for (before, blank) in [(0, 0), (1, 0), (9_000, 0), (1, 100)] {
                let line = format!("data.csv: line {}", 2 + before + blank);
                let contents = ["x,y\n", &"1,2\n".repeat(before), &"\n".repeat(blank), bad, "\n1,2\n"].concat();
                let file = Csv::new(contents.replace('\n', ending));
                let targets = names(&["y"]);
                let in_memory = Table::read(&file.path()).and_then(|table| table.dataset(&targets));
                says(in_memory, &[&line, words]);
                let columns = StreamColumns::Targets(targets);
                let streamed = CsvStream::open(&file.path(), &TableOptions::default(), columns, Team::alone());
                says(streamed.and_then(|stream| stream.read_all()), &[&line, words]);
            }
        }
    }
    says(read("\r\n\r\n1,2\r\n3,4\r\n"), &["data.csv: line 3:", "header seems to be missing"]);
    Ok(())
}

#[test]
fn names_in_the_header_are_unique_and_not_empty() {
    says(read("x,y,x\n1,2,3\n"), &["line 1", "`x` appears twice"]);
    says(read("x,,y\n0,1,2\n"), &["line 1", "column 2 has no name"]);
    // The first may be that of row numbers, which R and pandas write.
    let numbered = table(",x,y\n0,1,2\n");
    assert_eq!((numbered.columns(), numbered.unknown_columns()), (&names(&["x", "y"])[..], names(&["(no name)"])));
    // In linear time: the square of this number of columns would take minutes.
    let columns = 200_000;
    let header: Vec<String> = (0..columns).map(|column| format!("c{column}")).collect();
    let row = vec!["1"; columns];
    assert_eq!(table(&format!("{}\n{}\n", header.join(","), row.join(","))).columns().len(), columns);
}

#[test]
fn cells_that_are_neither_numbers_nor_words_are_refused() {
    let data = |contents: &str| table(contents).dataset(&names(&["y"]));
    for text in ["-inf", "1e999"] {
        says(data(&format!("x,y\n1,2\n3,{text}\n")), &["data.csv: line 3, column `y`", text, "finite"]);
        says(data(&format!("x,y\n1,2\n{text},3\n")), &["data.csv: line 3, column `x`", text, "finite"]);
    }
    says(data("x,y\n1,2\n,4\n"), &["data.csv: line 3, column `x`", "the cell is empty"]);
    says(read("x,y\n1,2\n1,2,3\n"), &["data.csv: line 3", "3 cells where the header has 2"]);
    says(read("x,y\n"), &["data.csv", "no rows"]);
    says(read(""), &["data.csv", "empty"]);
}

#[test]
fn words_are_refused_where_numbers_are_needed() {
    let table = table("x,y\n1,2\nred,3\n");
    says(table.dataset(&names(&["y"])), &["data.csv: line 3, column `x`", "`red` is not a finite number"]);
    says(table.labelled_dataset(&names(&["y"])), &["line 3, column `x`", "`red`"]);
    says(table.dataset(&names(&["x"])), &["line 3, column `x`"]);
    says(table.column("x"), &["line 3, column `x`"]);
}

#[test]
fn rows_with_empty_cells_are_dropped_on_request() -> Result<(), Error> {
    let csv = Csv::new("id,x,y\n,1,0\n2,,1\n3,3,\n4,4,5\n");
    let options = TableOptions { ignore: names(&["id"]), drop_missing: true, ..Default::default() };
    let table = Table::read_with(&csv.path(), &options)?;
    assert_eq!(table.n_dropped(), 2);
    assert_eq!(table.values(), &array![[1.0, 0.0], [4.0, 5.0]]);
    // Errors still name the line in the file.
    let data = table.dataset(&names(&["y"]))?;
    let family: riemannian_laplace::internals::likelihood::Family = "bernoulli".parse()?;
    says(table.check_targets(&data, &family, 1), &["data.csv: line 5"]);
    let all = Csv::new("x,y\n,1\n2,\n");
    let options = TableOptions { drop_missing: true, ..Default::default() };
    says(Table::read_with(&all.path(), &options), &["data.csv", "every row has an empty cell"]);
    Ok(())
}

#[test]
fn columns_are_ignored_by_name() -> Result<(), Error> {
    let csv = Csv::new("id,name,x,y\n7,Ann,1,2\n,NaN,3,4\n");
    let options =
        TableOptions { ignore: names(&["name", "id"]), ignore_if_present: names(&["nobody"]), ..Default::default() };
    let data = Table::read_with(&csv.path(), &options)?.dataset(&names(&["y"]))?;
    assert_eq!((data.schema().inputs(), data.schema().targets()), (&names(&["x"])[..], &names(&["y"])[..]));
    assert_eq!(data.inputs(), &array![[1.0], [3.0]]);
    let options = TableOptions { ignore: names(&["nane"]), ..Default::default() };
    says(Table::read_with(&csv.path(), &options), &["no column `nane`", "id, name, x, y"]);
    Ok(())
}

#[test]
fn labels_that_are_words_become_classes_in_sorted_order() -> Result<(), Error> {
    let table = table("kind,x\nsetosa,1\niris versicolor,2\nsetosa,3\nalba,4\n");
    let data = table.labelled_dataset(&names(&["kind"]))?;
    assert_eq!(data.schema().classes().expect("classes"), ["alba", "iris versicolor", "setosa"]);
    assert_eq!(data.targets(), &array![[2.0], [1.0], [2.0], [0.0]]);
    assert_eq!(data.inputs(), &array![[1.0], [2.0], [3.0], [4.0]]);
    Ok(())
}

#[test]
fn labels_that_count_from_0_keep_their_numbers() -> Result<(), Error> {
    let data = table("x,y\n1,2\n2,0\n3,1\n").labelled_dataset(&names(&["y"]))?;
    assert_eq!((data.targets(), data.schema().classes()), (&array![[2.0], [0.0], [1.0]], None));
    Ok(())
}

#[test]
fn labels_of_two_kinds_are_refused() {
    let mixed = table("x,y\n1,0\n2,1\n3,no\n").labelled_dataset(&names(&["y"]));
    says(mixed, &["data.csv", "`no`, line 4", "0, line 2", "one kind"]);
}

#[test]
fn columns_in_another_order_are_the_same_inputs() -> Result<(), Error> {
    let data = table("a,y,b\n1,10,2\n3,20,4\n").dataset(&names(&["y"]))?;
    assert_eq!(data.schema().inputs(), ["a", "b"]);
    for (contents, what) in [("b;a\n2;1\n4;3\n", "another order"), ("y,b,a\nunknown,2,1\n0,4,3\n", "a target present")]
    {
        assert_eq!(&table(contents).inputs_for(data.schema())?, data.inputs(), "{what}");
    }
    let other = table("b,y,a\n2,10,1\n4,20,3\n").dataset_for(data.schema())?;
    assert_eq!(other, data);
    Ok(())
}

#[test]
fn a_missing_column_is_named_with_the_nearest_names_only() -> Result<(), Error> {
    let schema = Schema::new(names(&["age", "height"]), names(&["y"]))?;
    says(table("age,heigth\n1,2\n").inputs_for(&schema), &["data.csv: no column `height`", "age, heigth"]);
    says(table("age,height\n1,2\n").dataset_for(&schema), &["no column `y`"]);
    let mut header: Vec<String> = (0..20_000).map(|column| format!("gene{column}")).collect();
    header[12_345] = "Heights".to_string();
    let row = vec!["0"; header.len()].join(",");
    let error = table(&format!("age,{}\n1,{row}\n", header.join(","))).inputs_for(&schema).expect_err("missing");
    let message = error.to_string();
    assert!(message.contains("its 20001 columns are Heights") && message.len() < 300, "{message}");
    Ok(())
}

#[test]
fn an_unknown_column_is_named() -> Result<(), Error> {
    let schema = Schema::new(names(&["a"]), names(&["y"]))?;
    says(table("a,b\n1,2\n").inputs_for(&schema), &["data.csv", "`b` is neither an input nor a target"]);
    says(table("a,b,y\n1,2,3\n").dataset_for(&schema), &["`b` is neither"]);
    Ok(())
}

#[test]
fn labels_of_new_data_are_looked_up_among_the_classes() -> Result<(), Error> {
    let schema = table("x,y\n1,no\n2,yes\n3,maybe\n").labelled_dataset(&names(&["y"]))?.schema().clone();
    // Without the class `maybe` the others keep their numbers.
    let data = table("x,y\n1,yes\n2,no\n").dataset_for(&schema)?;
    assert_eq!(data.targets(), &array![[2.0], [1.0]]);
    says(
        table("x,y\n1,yes\n2,perhaps\n").dataset_for(&schema),
        &["data.csv: line 3, column `y`", "`perhaps`", "maybe, no, yes"],
    );
    says(table("x,y\n1,1\n").dataset_for(&schema), &["line 2", "`1` is not one of the classes"]);
    let numbered = Schema::unnamed(1, 1).with_classes(names(&["3", "5"]))?;
    assert_eq!(table("x1,y\n0,5.0\n0,3\n").dataset_for(&numbered)?.targets(), &array![[1.0], [0.0]]);
    says(table("x1,y\n0,no\n").dataset_for(&Schema::unnamed(1, 1)), &["line 2, column `y`", "`no` is not a finite"]);
    Ok(())
}

#[test]
fn new_data_are_scaled_as_the_training_data_were() -> Result<(), Error> {
    let contents = "a,b,y\n1,10,100\n2,30,300\n6,20,200\n";
    let data = table(contents).dataset(&names(&["y"]))?;
    let scaled = data.standardized(Standardize::InputsAndTargets)?;
    let schema = scaled.schema();
    assert_eq!(table(contents).dataset_for(schema)?, scaled);
    assert_eq!(&table("b,a\n10,1\n30,2\n20,6\n").inputs_for(schema)?, scaled.inputs());
    let original = table(contents).dataset_for(&schema.without_scaling())?;
    assert_eq!(original, data);
    let restored = schema.restore_mean(scaled.targets().view())?;
    assert!((&restored - data.targets()).iter().all(|error| error.abs() < 1e-12));
    let restored = schema.restore_inputs(scaled.inputs().view())?;
    assert!((&restored - data.inputs()).iter().all(|error| error.abs() < 1e-12));
    // The standard deviation of 100, 200, 300 is 100·√(2/3).
    let variance = schema.restore_variance(array![[1.0]].view())?[(0, 0)];
    assert!((variance - 1e4 * 2.0 / 3.0).abs() < 1e-9);
    assert!((schema.log_density_shift() + 0.5 * variance.ln()).abs() < 1e-14);
    Ok(())
}

#[test]
fn targets_are_standardised_only_when_asked() -> Result<(), Error> {
    let data = Dataset::new(array![[1.0, 5.0], [3.0, 5.0]], array![[0.0], [1.0]])?;
    let scaled = data.standardized(Standardize::Inputs)?;
    assert_eq!(scaled.inputs(), &array![[-1.0, 0.0], [1.0, 0.0]]);
    assert_eq!(scaled.targets(), data.targets());
    let scaling = scaled.schema().scaling().expect("a scaling");
    assert_eq!((scaling.inputs.scale(), &scaling.targets), (&[1.0, 1.0][..], &None));
    assert!(matches!(scaled.standardized(Standardize::Inputs), Err(Error::Data(DataError::AlreadyScaled))));
    let labelled = table("x,y\n1,no\n2,yes\n").labelled_dataset(&names(&["y"]))?;
    assert!(matches!(labelled.standardized(Standardize::InputsAndTargets), Err(Error::Data(DataError::ScaledClasses))));
    assert!(labelled.standardized(Standardize::Inputs).is_ok());
    Ok(())
}

#[test]
fn a_scaling_file_is_read_and_checked() -> Result<(), Error> {
    let csv = Csv::new(r#"{"inputs": {"mean": [1], "scale": [2]}, "targets": {"mean": [0.5], "scale": [4]}}"#);
    let scaling = Scaling::read(&csv.path())?;
    assert_eq!(scaling.inputs, Standardization::new(vec![1.0], vec![2.0])?);
    let data = Dataset::new(array![[3.0]], array![[2.5]])?.scaled_by(scaling.clone())?;
    assert_eq!((data.inputs(), data.targets()), (&array![[1.0]], &array![[0.5]]));
    let wide = Dataset::new(array![[3.0, 1.0]], array![[2.5]])?.scaled_by(scaling);
    says(wide, &["scaled input columns", "expected 2, found 1"]);
    says(Scaling::read(&Csv::new("x,y\n1,2\n").path()), &["data.csv", "not a valid scaling", "\"inputs\""]);
    says(Scaling::read(&csv.0.path().join("none.json")), &["none.json", "No such file"]);
    Ok(())
}

#[test]
fn a_schema_fits_its_arrays() -> Result<(), Error> {
    let data = Dataset::new(Array2::zeros((2, 2)), array![[0.0], [2.0]])?;
    assert_eq!(data.schema(), &Schema::unnamed(2, 1));
    assert!(data.clone().with_schema(Schema::unnamed(3, 1)).is_err());
    assert!(data.clone().with_schema(Schema::unnamed(2, 2)).is_err());
    let two = Schema::unnamed(2, 1).with_classes(names(&["no", "yes"]))?;
    says(data.clone().with_schema(two), &["class names", "expected 3, found 2"]);
    let far = Dataset::new(array![[1.0]], array![[1e300]])?;
    let classes = Schema::unnamed(1, 1).with_classes(names(&["a", "b"]))?;
    says(far.with_schema(classes), &["class names", &usize::MAX.to_string(), "found 2"]);
    let named = Schema::new(names(&["a", "b"]), names(&["c"]))?;
    assert_eq!(data.with_schema(named.clone())?.select(&[1])?.schema(), &named);
    Ok(())
}

#[test]
fn a_row_that_does_not_exist_cannot_be_selected() -> Result<(), Error> {
    let data = Dataset::new(array![[0.0], [1.0]], array![[2.0], [3.0]])?;
    assert_eq!(data.select(&[1, 0, 1])?.targets(), &array![[3.0], [2.0], [3.0]]);
    says(data.select(&[0, 2]), &["row 2", "2 rows"]);
    says(data.select(&[]), &["no rows"]);
    Ok(())
}

#[test]
fn blocks_and_batches_cover_a_file_in_order() -> Result<(), Error> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/snelson.csv");
    let data = Table::read(&path)?.dataset(&names(&["y"]))?;
    let blocks = row_blocks(data.n_rows());
    assert_eq!(blocks.len(), 3);
    let mut targets = Vec::new();
    for block in blocks {
        for batch in data.batches(block, 50)? {
            targets.extend(batch?.targets.iter().copied());
        }
    }
    assert_eq!(targets, data.targets().iter().copied().collect::<Vec<f64>>());
    assert_eq!(Batches::schema(&data).inputs(), ["x"]);
    Ok(())
}

/// A million cells: several pieces, which threads share, and what comes after the plain ones.
#[test]
fn plain_lines_and_others_are_one_table() -> Result<(), Error> {
    let number = |row: usize, column: usize| match column {
        0 => format!("{}", row as f64 * 0.1 - 7.0),
        1 => format!("{:e}", 1.0 / (row as f64 + 3.0)),
        _ => format!("{}", row % 10),
    };
    let rows = 150_000;
    let line = |row: usize| (0..3).map(|column| number(row, column)).collect::<Vec<_>>().join(",");
    let plain: Vec<String> = (0..rows).map(line).collect();
    let text = |lines: &[String]| format!("a,b,label\n{}", lines.join("\n"));
    let expected =
        Array2::from_shape_fn((rows, 3), |(row, column)| number(row, column).parse::<f64>().expect("a number"));
    let read_plain = table(&text(&plain));
    assert!(read_plain.values() == expected);
    assert_eq!((read_plain.line(0), read_plain.line(rows - 1)), (2, rows as u64 + 1));
    for (row, other) in [(0, "\"1\", 2 ,3"), (140_000, "\"1\",2,3"), (rows - 1, "1 ,2,3")] {
        let mut lines = plain.clone();
        lines[row] = other.to_string();
        let mut expected = expected.clone();
        expected.row_mut(row).assign(&array![1.0, 2.0, 3.0]);
        let mixed = table(&text(&lines));
        assert!(mixed.values() == expected, "row {row}");
        assert_eq!(mixed.line(rows - 1), rows as u64 + 1);
        lines[row] = "1,,3".to_string();
        says(table(&text(&lines)).column("b"), &["b", &format!("{}", row + 2)]);
        lines[row] = "1,2".to_string();
        says(read(&text(&lines)), &["2 cells", &format!("{}", row + 2)]);
    }
    let ends_in_return = table(&text(&plain).replace('\n', "\r\n"));
    assert!(ends_in_return.values() == expected);
    let without = TableOptions { ignore: names(&["b"]), ..Default::default() };
    let file = Csv::new(text(&plain));
    assert_eq!(Table::read_with(&file.path(), &without)?.columns(), ["a", "label"]);
    assert_eq!(Table::read_with(&file.path(), &without)?.column("label")?, read_plain.column("label")?);
    Ok(())
}
