//! Files as people have them: missing values, words, dates, decimal commas and gzip go in, and predictions come out beside the
//! rows that they belong to.
#![cfg(feature = "cli")]

#[path = "common/program.rs"]
mod program;

use std::io::Write;
use std::path::Path;

use ndarray::{Array2, array};
use program::Folder;
use riemannian_laplace::internals::data::{CsvStream, Impute, StreamColumns, Table, TableOptions, Unknown};
use riemannian_laplace::internals::team::Team;
use riemannian_laplace::{Dataset, Error, Network, Schema};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A data set read whole and, the same, in batches.
fn both_ways(path: &Path, options: &TableOptions, columns: StreamColumns) -> Result<Dataset, Error> {
    let table = |targets: &[String]| Table::read_with(path, &options.for_targets(targets));
    let whole = match &columns {
        StreamColumns::Targets(targets) => table(targets)?.dataset(targets)?,
        StreamColumns::Labels(targets) => table(targets)?.labelled_dataset(targets)?,
        StreamColumns::Schema(schema) | StreamColumns::Inputs(schema) => {
            Table::read_with(path, &options.for_schema(schema, schema.targets()))?.dataset_for(schema)?
        }
    };
    let streamed = CsvStream::open(path, options, columns, Team::alone())?.read_all()?;
    assert_eq!(whole, streamed);
    Ok(whole)
}

fn says<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) {
    let message = result.expect_err("an error").to_string();
    words.iter().for_each(|word| assert!(message.contains(word), "{message:?} does not say {word:?}"));
}

fn y() -> StreamColumns {
    StreamColumns::Targets(names(&["y"]))
}

#[test]
fn a_missing_value_is_recognised_in_every_usual_spelling_and_its_row_is_left_out() -> Outcome {
    let folder = Folder::new();
    let tokens = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"];
    let rows: String = tokens.iter().map(|token| format!("{token},5\n")).collect();
    folder.write("d.csv", format!("x,y\n1,2\n{rows}3,4\n"));
    let options = TableOptions { drop_missing: true, ..Default::default() };
    let data = both_ways(&folder.path("d.csv"), &options, y())?;
    assert_eq!(data.inputs(), &array![[1.0], [3.0]]);
    says(both_ways(&folder.path("d.csv"), &TableOptions::default(), y()), &["line 3, column `x`", "9 rows"]);
    Ok(())
}

#[test]
fn all_columns_that_cannot_be_used_are_named_at_once_with_the_flags_that_help() {
    let folder = Folder::new();
    let mut text = "name,age,size,code,y\n".to_string();
    for n in 0..30 {
        let age = if n % 7 == 3 { "NA".to_string() } else { n.to_string() };
        let size = if n % 2 == 0 { "small".to_string() } else { n.to_string() };
        text += &format!("Ann {n},{age},{size},{},{n}\n", n % 3);
    }
    folder.write("d.csv", text);
    let train = "train --data d.csv --target y --likelihood gaussian --epochs 2 --out m.safetensors";
    folder.refuses(
        train,
        &[
            "d.csv: 3 columns cannot be used",
            "line 2, column `name`: `Ann 0` is one of 30 different words",
            "line 5, column `age`: the cell is empty or marked as missing (4 rows)",
            "line 2, column `size`: `small` is not a finite number",
            "add `--drop-missing --categorical size --ignore name`",
            "--impute mean",
        ],
    );
    folder.ok(&format!("{train} --drop-missing --categorical size --ignore name"));
    folder.ok(&format!("{train} --impute mean --ignore name,size"));
}

#[test]
fn a_column_that_most_rows_lack_is_to_be_ignored_rather_than_to_cost_those_rows() {
    let folder = Folder::new();
    folder.write("d.csv", "x,remark,y\n1,,2\n2,NA,3\n,late,4\n4,,5\n");
    let train = "train --data d.csv --target y --likelihood gaussian --out m";
    folder.refuses(train, &["column `remark`", "(3 rows)", "add `--drop-missing --ignore remark`"]);
}

#[test]
fn missing_inputs_are_filled_as_in_the_training_data() -> Outcome {
    let folder = Folder::new();
    folder.write("d.csv", "x,w,y\n1,red,1\n2,,2\nNA,blue,3\n9,red,4\n");
    folder.write("new.csv", "w,x\nblue,\n?,5\n");
    for (impute, fill, indicator) in
        [(Impute::Mean, 4.0, false), (Impute::Median, 2.0, false), (Impute::Indicator, 4.0, true)]
    {
        let options = TableOptions { impute: Some(impute), ..Default::default() };
        let data = both_ways(&folder.path("d.csv"), &options, y())?;
        // x, whether it is missing, blue, red, whether the word is missing.
        let expected = array![
            [1.0, 0.0, 0.0, 1.0, 0.0],
            [2.0, 0.0, 0.0, 0.0, 1.0],
            [fill, 1.0, 1.0, 0.0, 0.0],
            [9.0, 0.0, 0.0, 1.0, 0.0]
        ];
        let wanted: &[usize] = if indicator { &[0, 1, 2, 3, 4] } else { &[0, 2, 3] };
        assert_eq!(data.inputs(), expected.select(ndarray::Axis(1), wanted), "{impute:?}");
        let new = Table::read(&folder.path("new.csv"))?.inputs_for(data.schema())?;
        let expected = array![[fill, 1.0, 1.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0, 1.0]];
        assert_eq!(new, expected.select(ndarray::Axis(1), wanted), "{impute:?}");
        let text = serde_json::to_string(data.schema())?;
        assert_eq!(&serde_json::from_str::<Schema>(&text)?, data.schema());
    }
    // A missing target is no input: it is left out, or refused.
    folder.write("d.csv", "x,y\n1,1\n,2\n3,NA\n");
    let options = TableOptions { impute: Some(Impute::Mean), ..Default::default() };
    says(both_ways(&folder.path("d.csv"), &options, y()), &["line 4, column `y`", "missing"]);
    let data = both_ways(&folder.path("d.csv"), &TableOptions { drop_missing: true, ..options }, y())?;
    assert_eq!(data.inputs(), &array![[1.0], [1.0]]);
    Ok(())
}

#[test]
fn words_yes_and_no_and_dates_are_inputs() -> Outcome {
    let folder = Folder::new();
    folder.write(
        "d.csv",
        "kind,alive,born,zone,y\nfox,True,1970-01-03,2,1\nowl,FALSE,1970-01-01 12:00,10,2\nfox,true,1969-12-31,2,3\n",
    );
    let options = TableOptions { categorical: names(&["zone"]), ..Default::default() };
    let data = both_ways(&folder.path("d.csv"), &options, y())?;
    assert_eq!(data.schema().inputs(), ["kind=fox", "kind=owl", "alive", "born", "zone=2", "zone=10"]);
    let expected =
        array![[1.0, 0.0, 1.0, 2.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.5, 0.0, 1.0], [1.0, 0.0, 1.0, -1.0, 1.0, 0.0]];
    assert_eq!(data.inputs(), &expected);
    // Another order, other spellings.
    folder.write("d.csv", "y,zone,born,alive,kind\n1,10.0,1970/01/02,yes,owl\n");
    let again =
        both_ways(&folder.path("d.csv"), &TableOptions::default(), StreamColumns::Schema(data.schema().clone()))?;
    assert_eq!(again.inputs(), &array![[0.0, 1.0, 1.0, 1.0, 0.0, 1.0]]);
    for (row, words) in [
        ("1,10,1970-01-02,perhaps,owl", ["`alive`", "`perhaps` is neither true nor false"]),
        ("1,10,yesterday,no,owl", ["`born`", "`yesterday` is not a date"]),
        ("1,11,1970-01-02,no,owl", ["`zone`", "`11` is not among the words of the training data (2, 10)"]),
    ] {
        folder.write("d.csv", format!("y,zone,born,alive,kind\n1,10,1970-01-02,yes,owl\n{row}\n"));
        let columns = StreamColumns::Schema(data.schema().clone());
        says(
            both_ways(&folder.path("d.csv"), &TableOptions::default(), columns),
            &["line 3, column", words[0], words[1]],
        );
    }
    Ok(())
}

#[test]
fn a_date_with_dots_begins_with_its_day_and_one_that_may_begin_with_either_is_not_guessed() -> Outcome {
    let folder = Folder::new();
    folder.write("d.csv", "day;y\n02.01.1970;1\n31.12.1969;2\n01.02.1970;3\n");
    let data = both_ways(&folder.path("d.csv"), &TableOptions::default(), y())?;
    assert_eq!(data.inputs(), &array![[1.0], [-1.0], [31.0]]);
    let rows: String =
        (1..=12).flat_map(|month| (1..=3).map(move |day| format!("0{day}/{month:02}/2024,{day}\n"))).collect();
    folder.write("d.csv", format!("day,y\n{rows}"));
    says(both_ways(&folder.path("d.csv"), &TableOptions::default(), y()), &["line 2, column `day`", "different words"]);
    Ok(())
}

#[test]
fn a_target_of_words_for_a_likelihood_of_numbers_is_told_which_likelihood_takes_it() {
    let folder = Folder::new();
    folder.write("d.csv", "x,colour\n1,red\n2,blue\n3,green\n");
    let train = "train --data d.csv --target colour --likelihood gaussian --out m.safetensors";
    folder.refuses(train, &["line 2, column `colour`", "words are classes: `--likelihood categorical`"]);
    // A slip among numbers is one.
    folder.write("d.csv", "x,colour\n1,1\n2,blue\n3,2\n");
    let slip = folder.rla(train);
    assert!(slip.status == Some(2) && !slip.stderr.contains("words are classes"), "{}", slip.stderr);
}

#[test]
fn a_few_words_among_a_few_numbers_are_categories_and_a_slip_is_not() -> Outcome {
    let folder = Folder::new();
    let drive = |n: usize| ["4", "f", "r", "4"][n % 4];
    let rows: String = (0..40).map(|n| format!("{},{n}\n", drive(n))).collect();
    folder.write("d.csv", format!("drive,y\n{rows}"));
    let data = both_ways(&folder.path("d.csv"), &TableOptions::default(), y())?;
    assert_eq!(data.schema().inputs(), ["drive=4", "drive=f", "drive=r"]);
    assert_eq!(data.inputs().row(0).to_vec(), [1.0, 0.0, 0.0]);
    let rows: String =
        (0..40).map(|n| format!("{},{n}\n", if n == 7 { "four".to_string() } else { n.to_string() })).collect();
    folder.write("d.csv", format!("drive,y\n{rows}"));
    says(both_ways(&folder.path("d.csv"), &TableOptions::default(), y()), &["line 9, column `drive`", "`four`"]);
    Ok(())
}

#[test]
fn an_unknown_word_is_refused_by_row_and_column_or_is_none_of_the_known() -> Outcome {
    let folder = Folder::new();
    folder.write("d.csv", "kind,x,y\nfox,1,1\nowl,2,2\nfox,3,3\nowl,4,5\n");
    folder.ok("train --data d.csv --target y --likelihood gaussian --epochs 2 --out m.safetensors");
    folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
    folder.write("new.csv", "kind,x\nfox,1\nwolf,2\n");
    let predict = "predict --posterior p.safetensors --inputs new.csv --method map --out o.csv";
    folder.refuses(predict, &["new.csv: line 3, column `kind`", "`wolf`", "fox, owl", "--unknown other"]);
    folder.ok(&format!("{predict} --unknown other"));
    assert_eq!(folder.table("o.csv").values().nrows(), 2);
    // Stated in training, it is kept.
    folder.ok("train --data d.csv --target y --likelihood gaussian --epochs 2 --unknown other --out m.safetensors");
    folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
    folder.ok(predict);
    let schema = Schema::new(names(&["kind=fox", "kind=owl"]), names(&["y"]))?;
    assert_eq!(schema.unknown(), Unknown::Refuse);
    Ok(())
}

#[test]
fn decimal_commas_percents_and_thousands_are_numbers() -> Outcome {
    let folder = Folder::new();
    let expected: Array2<f64> = array![[1.5, 1234.5, 0.125], [-0.25, 1_234_567.0, 0.5]];
    for text in [
        "a;b;c;y\n1,5;1.234,5;12,5 %;1\n-0,25;1.234.567;50%;2\n",
        "a\tb\tc\ty\n1,5\t1 234,5\t12,5%\t1\n-0,25\t1234567\t50 %\t2\n",
        "a,b,c,y\n1.5,\"1,234.5\",12.5%,1\n-0.25,\"1,234,567\",50 %,2\n",
        "a;b;c;y\n1.5;1,234.5;12.5%;1\n-0.25;1'234'567;50%;2\n",
    ] {
        folder.write("d.csv", text);
        assert_eq!(both_ways(&folder.path("d.csv"), &TableOptions::default(), y())?.inputs(), expected, "{text}");
    }
    // A comma that neither groups thousands nor can be a decimal mark here is no number.
    folder.write("d.csv", "a,y\n\"1,5\",1\n2,2\n");
    says(
        both_ways(&folder.path("d.csv"), &TableOptions::default(), y()),
        &["line 2, column `a`", "`1,5` is not a finite"],
    );
    Ok(())
}

#[test]
fn a_compressed_file_is_read_as_the_plain_one() -> Outcome {
    let folder = Folder::new();
    let text: String = (0..9000).map(|n| format!("{},{}\n", n % 17, f64::from(n % 17) * 0.5)).collect();
    let text = format!("x,y\n{text}");
    folder.write("d.csv", &text);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes())?;
    let packed = packed.finish()?;
    folder.write("d.csv.gz", &packed);
    let plain = both_ways(&folder.path("d.csv"), &TableOptions::default(), y())?;
    assert_eq!(both_ways(&folder.path("d.csv.gz"), &TableOptions::default(), y())?, plain);
    folder.model("m.safetensors", &[1, 2, 1]);
    folder.ok("fit --model m.safetensors --data d.csv.gz --target y --likelihood gaussian --out p.safetensors");
    let predict = "predict --posterior p.safetensors --method map --inputs";
    assert_eq!(folder.ok(&format!("{predict} d.csv.gz")).stdout, folder.ok(&format!("{predict} d.csv")).stdout);
    folder.write("cut.csv.gz", &packed[..packed.len() / 2]);
    folder.refuses(&format!("{predict} cut.csv.gz"), &["cut.csv.gz"]);
    Ok(())
}

/// A posterior of y on x, trained without rows whose value is missing.
fn fitted(folder: &Folder, options: &str) {
    let rows: String = (0..40).map(|n| format!("{n},{},2020-01-{:02}\n", 2 * n, n % 28 + 1)).collect();
    folder.write("d.csv", format!("x,y,day\n{rows}"));
    folder.ok(&format!(
        "train --data d.csv --target y --ignore day --likelihood gaussian --standardize --epochs 20 --out m.safetensors {options}"
    ));
    folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
}

#[test]
fn every_prediction_stands_beside_its_row_and_rows_left_out_have_empty_ones() {
    let folder = Folder::new();
    fitted(&folder, "--drop-missing");
    let dropped = |n: usize| n.is_multiple_of(11) || (4090..4105).contains(&n) || n == 9999;
    let rows: String = (0..10_000)
        .map(|n| format!("\"id, {n}\",{}\n", if dropped(n) { "NA".to_string() } else { (n % 50).to_string() }))
        .collect();
    folder.write("new.csv", format!("id,x\n{rows}"));
    let predict = "predict --posterior p.safetensors --inputs new.csv --method map --keep id --out o.csv";
    let said = folder.ok(predict).stderr;
    assert!(said.contains("rows with missing values left out") && !said.contains("does not know"), "{said}");
    let text = std::fs::read_to_string(folder.path("o.csv")).expect("predictions");
    let mut lines = text.lines();
    let header = "row,id,mean,epistemic_variance,aleatoric_variance,total_variance,lower,upper,note";
    assert_eq!(lines.next(), Some(header));
    let mut of_x = vec![None; 50];
    for (n, line) in lines.enumerate() {
        let start = format!("{},\"id, {n}\",", n + 1);
        let rest = line.strip_prefix(&start).unwrap_or_else(|| panic!("{line}"));
        if dropped(n) {
            assert_eq!(rest, ",,,,,,no value of x", "{line}");
        } else {
            // The same input has the same prediction wherever it stands.
            let seen = of_x[n % 50].get_or_insert_with(|| rest.to_string());
            assert_eq!(seen, rest, "{line}");
        }
    }
    assert_eq!(text.lines().count(), 10_001);
    // Without rows to leave out, there is no note.
    folder.write("new.csv", "x,id\n1,a\n2,b\n");
    let first = std::fs::read_to_string(folder.path("o.csv"))
        .map(|_| folder.ok(predict))
        .and_then(|_| std::fs::read_to_string(folder.path("o.csv")));
    let first = first.expect("predictions");
    assert!(first.starts_with("row,id,mean,") && !first.contains("note") && first.contains("\n2,b,"), "{first}");
    folder.refuses(&predict.replace("--keep id", "--keep name"), &["new.csv", "no column `name`"]);
}

#[test]
fn headers_are_quoted_and_unique_whatever_the_classes_are_called() -> Outcome {
    let folder = Folder::new();
    let words = ["entropy", "\"a,b\"", "class"];
    let rows: String = (0..30).map(|n| format!("{},{}\n", n % 3, words[n % 3])).collect();
    folder.write("d.csv", format!("x,kind\n{rows}"));
    folder.ok("train --data d.csv --target kind --likelihood categorical --hidden 3 --epochs 50 --out m.safetensors");
    folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
    let said = folder.ok("predict --posterior p.safetensors --inputs d.csv --out o.csv").stderr;
    assert!(said.contains("classes: a,b, class, entropy"), "{said}");
    let text = std::fs::read_to_string(folder.path("o.csv"))?;
    assert_eq!(text.lines().next(), Some("row,\"a,b\",p_class,p_entropy,class,entropy,logit_variance"));
    let table = folder.table("o.csv");
    let column = |name: &str| table.column(name).expect("a column");
    for row in 0..30 {
        let p = ["a,b", "p_class", "p_entropy"].map(|name| column(name)[row]);
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let entropy = -p.iter().map(|p| p * p.ln()).sum::<f64>();
        assert!((column("entropy")[row] - entropy).abs() < 1e-12 && column("logit_variance")[row] > 0.0);
    }
    Ok(())
}

#[test]
fn the_probability_of_a_yes_no_target_says_of_what() {
    let folder = Folder::new();
    let rows: String = (0..40).map(|n| format!("{n},{}\n", if n > 20 { "stayed" } else { "churned" })).collect();
    folder.write("d.csv", format!("x,label\n{rows}"));
    let train =
        "train --data d.csv --target label --likelihood bernoulli --standardize --epochs 500 --out m.safetensors";
    assert_eq!(folder.ok(&format!("{train} --json")).json()["classes"], serde_json::json!(["churned", "stayed"]));
    let words = folder.ok(train).stdout;
    let classes = words.lines().find(|line| line.trim_start().starts_with("classes")).unwrap_or_default();
    assert!(
        classes.contains("churned, stayed") && classes.contains("probabilities are those of the second"),
        "{words}"
    );
    let fit = "fit --model m.safetensors --data d.csv --out p.safetensors";
    assert_eq!(folder.ok(&format!("{fit} --json")).json()["classes"], serde_json::json!(["churned", "stayed"]));
    folder.ok("predict --posterior p.safetensors --inputs d.csv --out o.csv");
    let table = folder.table("o.csv");
    assert_eq!(table.columns(), ["row", "p_stayed"]);
    let p = table.column("p_stayed").expect("probabilities");
    assert!(p[39] > p[0]);
    // The order may be stated.
    folder.ok(&format!("{train} --class-names stayed,churned"));
    folder.ok(fit);
    assert!(folder.ok("predict --posterior p.safetensors --inputs d.csv").stdout.starts_with("row,p_churned\n"));
}

#[test]
fn labels_with_gaps_are_names() {
    let folder = Folder::new();
    for (labels, columns, classes) in [
        ([0, 1, 2], "row,p0,p1,p2,class,entropy", ["0", "1", "2"]),
        ([1, 2, 3], "row,p1,p2,p3,class,entropy", ["1", "2", "3"]),
        ([10, 20, 30], "row,p10,p20,p30,class,entropy", ["10", "20", "30"]),
        ([-1, 0, 100], "row,p-1,p0,p100,class,entropy", ["-1", "0", "100"]),
    ] {
        let rows: String = (0..30).map(|n| format!("{},{}\n", n % 3, labels[n % 3])).collect();
        folder.write("d.csv", format!("x,y\n{rows}"));
        let train =
            "train --data d.csv --target y --likelihood categorical --hidden 4 --epochs 300 --out m.safetensors";
        let trained = folder.ok(&format!("{train} --json")).json();
        assert_eq!((&trained["n_outputs"], &trained["classes"]), (&3.into(), &serde_json::json!(classes)));
        folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
        let text = folder.ok("predict --posterior p.safetensors --inputs d.csv --method map").stdout;
        assert_eq!(text.lines().next(), Some(columns));
        for (line, label) in text.lines().skip(1).zip(labels.iter().cycle()) {
            assert_eq!(line.split(',').nth(4), Some(label.to_string().as_str()), "{line}");
        }
        let scores = folder.ok("evaluate --posterior p.safetensors --data d.csv --json").json();
        assert_eq!(scores["accuracy"], 1.0);
    }
}

#[test]
fn another_order_of_the_classes_is_suggested_and_can_be_stated() -> Outcome {
    let folder = Folder::new();
    let file = |words: [&str; 3]| {
        let rows: String = (0..60).map(|n| format!("{},{}\n", n % 6, words[n % 6 / 2])).collect();
        format!("x,kind\n{rows}")
    };
    folder.write("d.csv", file(["a", "b", "c"]));
    let train = "train --data d.csv --target kind --likelihood categorical --hidden 8 --epochs 2000 --no-standardize --out m.safetensors";
    folder.ok(train);
    // The same network without names, and labels whose alphabetical order is not that of its outputs.
    Network::load(&folder.path("m.safetensors"), None)?.save(&folder.path("bare.safetensors"))?;
    folder.write("d.csv", file(["z", "x", "y"]));
    let fit =
        "fit --model bare.safetensors --data d.csv --target kind --likelihood categorical --out p.safetensors --json";
    let wrong = folder.ok(fit);
    assert!(wrong.stderr.contains("--class-names z,x,y"), "{}", wrong.stderr);
    let right = folder.ok(&format!("{fit} --class-names z,x,y"));
    assert!(!right.stderr.contains("--class-names"), "{}", right.stderr);
    assert_eq!(right.json()["classes"], serde_json::json!(["z", "x", "y"]));
    let accuracy = |outcome: &program::Outcome| outcome.json()["train_accuracy"].as_f64().expect("a share");
    assert!(accuracy(&right) > 0.95 && accuracy(&wrong) < 0.05);
    folder.refuses(&format!("{fit} --class-names z,x,w"), &["d.csv: line", "`y` is not one of the classes z, x, w"]);
    Ok(())
}

#[test]
fn what_the_model_file_says_need_not_be_said_again() {
    let folder = Folder::new();
    fitted(&folder, "");
    let said = folder.ok("evaluate --posterior p.safetensors --data d.csv --json");
    assert_eq!(said.json()["n"], 40);
    // The column that was ignored in training is known; another is mentioned, or refused.
    assert!(!said.stderr.contains("left out"), "{}", said.stderr);
    folder.write("new.csv", "id,x,y\n7,1,2\n");
    for command in
        ["predict --posterior p.safetensors --inputs new.csv", "evaluate --posterior p.safetensors --data new.csv"]
    {
        let said = folder.ok(command).stderr;
        assert!(said.contains("new.csv: 1 column that the model does not know left out: id"), "{said}");
        folder.refuses(&format!("{command} --strict"), &["new.csv", "`id` is neither an input nor a target"]);
    }
    folder.ok("report --posterior p.safetensors --data new.csv --method map,glm --out r.html");
    // A model from elsewhere says nothing.
    folder.model("bare.safetensors", &[1, 2, 1]);
    let fit = "fit --model bare.safetensors --data d.csv --out q.safetensors";
    folder.refuses(fit, &["--likelihood is needed", "bare.safetensors"]);
    let absent = folder.rla(&fit.replace("bare.safetensors", "absent.onnx"));
    assert_eq!(absent.status, Some(2));
    assert!(absent.stderr.contains("absent.onnx") && !absent.stderr.contains("--likelihood"), "{}", absent.stderr);
    folder.refuses(&format!("{fit} --likelihood gaussian"), &["--target is needed"]);
}

#[test]
fn columns_that_go_by_position_are_shown_and_can_be_stated() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[2, 3, 1]);
    let rows = |swapped: bool| -> String {
        (0..20).map(|n| if swapped { format!("{},{n},1\n", n % 3) } else { format!("{n},{},1\n", n % 3) }).collect()
    };
    let fit = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --out p.safetensors --json";
    let evidence = |outcome: &program::Outcome| outcome.json()["log_marginal_likelihood"].as_f64().expect("nats");
    folder.write("d.csv", format!("a,b,y\n{}", rows(false)));
    let given = folder.ok(fit);
    assert!(given.stderr.contains("columns → inputs by position: a, b"), "{}", given.stderr);
    folder.write("d.csv", format!("b,a,y\n{}", rows(true)));
    assert!((evidence(&folder.ok(fit)) - evidence(&given)).abs() > 1e-6);
    let stated = folder.ok(&format!("{fit} --input-order a,b"));
    assert_eq!(evidence(&stated), evidence(&given));
    assert!(!stated.stderr.contains("by position"), "{}", stated.stderr);
    assert_eq!(evidence(&folder.ok(&format!("{fit} --input-order a,b --without-data"))), evidence(&given));
    folder.refuses(&format!("{fit} --input-order a,c"), &["d.csv", "no column `c`"]);
    folder.refuses(&format!("{fit} --input-order a,y"), &["--input-order names the target column `y`"]);
}

#[test]
fn another_order_of_the_columns_is_suggested_where_the_network_would_explain_far_more() -> Outcome {
    let folder = Folder::new();
    let row = |n: usize| -> [f64; 4] { [(n % 7) as f64, (n % 5) as f64, (n % 11) as f64, (n % 3) as f64] };
    let y = |[a, b, c, d]: [f64; 4]| 3.0 * a - 2.0 * b + 0.5 * c + d;
    let table = |names: &str, order: [usize; 4]| -> String {
        let line = |n: usize| {
            let cells: Vec<String> = order.iter().map(|k| row(n)[*k].to_string()).collect();
            format!("{},{}\n", cells.join(","), y(row(n)))
        };
        format!("{names},y\n{}", (0..120).map(line).collect::<String>())
    };
    folder.write("d.csv", table("a,b,c,d", [0, 1, 2, 3]));
    folder.ok("train --data d.csv --target y --likelihood gaussian --no-standardize --out m.safetensors");
    // The same weights in a file that names no columns.
    Network::load(&folder.path("m.safetensors"), None)?.save(&folder.path("bare.safetensors"))?;
    let fit = "fit --model bare.safetensors --data d.csv --target y --likelihood gaussian --out p.safetensors --json";
    let right = folder.ok(fit);
    assert!(!right.stderr.contains("does not look like"), "{}", right.stderr);
    // One column moved.
    folder.write("d.csv", table("d,a,b,c", [3, 0, 1, 2]));
    let wrong = folder.ok(fit);
    assert!(wrong.stderr.contains("with `--input-order a,b,c,d`"), "{}", wrong.stderr);
    let stated = folder.ok(&format!("{fit} --input-order a,b,c,d"));
    assert!(!stated.stderr.contains("does not look like"), "{}", stated.stderr);
    assert_eq!(stated.json()["explained"], right.json()["explained"]);
    // Names leave nothing to guess.
    let named = folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
    assert!(!named.stderr.contains("does not look like"), "{}", named.stderr);
    Ok(())
}

#[test]
fn a_first_column_without_a_name_is_left_out_with_a_note() {
    let folder = Folder::new();
    let rows: String = (0..12).map(|n| format!("\"{n}\",{},{n}\n", n % 5)).collect();
    folder.write("d.csv", format!("\"\",x,y\n{rows}"));
    let said = folder.ok("train --data d.csv --target y --likelihood gaussian --epochs 2 --out m.safetensors --json");
    assert!(said.stderr.contains("d.csv: the first column has no name and is left out"), "{}", said.stderr);
    assert_eq!(said.json()["n_inputs"], 1);
    folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors --strict");
    assert!(folder.ok("predict --posterior p.safetensors --inputs d.csv").stdout.starts_with("row,mean,"));
}

#[test]
fn a_schema_of_an_earlier_release_is_read() -> Outcome {
    let old = r#"{"inputs":["a","b"],"targets":["y"],"classes":["no","yes"]}"#;
    let schema = Schema::from_metadata(Path::new("m.safetensors"), Some(old), None)?.expect("a schema");
    assert_eq!(schema.source_columns(), ["a", "b"]);
    assert_eq!((schema.likelihood(), schema.drops_missing(), schema.ignored().len()), (None, false, 0));
    assert_eq!(serde_json::to_string(&schema)?, old);
    let damaged = r#"{"inputs":["a"],"targets":["y"],"reading":{"columns":[{"name":"b"}]}}"#;
    says(Schema::from_metadata(Path::new("m.safetensors"), Some(damaged), None), &["do not make up the inputs"]);
    Ok(())
}

#[cfg(unix)]
#[test]
fn the_commands_of_the_page_on_tables_run_and_print_what_it_shows() -> Outcome {
    let page = std::fs::read_to_string(program::repository("docs/data.md"))?;
    let block =
        |language: &str| page.split(&format!("```{language}\n")).nth(1).and_then(|rest| rest.split("```").next());
    let (commands, printed) = (block("sh").expect("commands"), block("text").expect("what they print"));
    let folder = Folder::new();
    let run = folder.shell(&format!("set -eu\n{commands}"));
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.ends_with(printed), "{}", run.stdout);
    for note in ["words as one-hot inputs: kind (2)", "true and false as 1 and 0: fed", "days since 1970-01-01: born"] {
        assert!(run.stderr.contains(note), "{}", run.stderr);
    }
    Ok(())
}
