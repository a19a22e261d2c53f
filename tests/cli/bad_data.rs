//! Invalid data files: status 2, and an error that names the file and the place.

use super::Folder;

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --out p.safetensors --likelihood";

#[test]
fn cells_rows_and_columns() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    for (contents, words) in [
        ("x,z\n1,2\n", vec!["d.csv", "no column `y`", "x, z"]),
        ("x,y\n1,2\n3,four\n", vec!["d.csv: line 3, column `y`", "`four` is not a finite number"]),
        ("x,y\nNaN,2\n", vec!["d.csv: line 2, column `x`", "every value is missing", "--ignore x"]),
        ("x,y\nNaN,2\n1,2\n", vec!["d.csv: line 2, column `x`", "marked as missing", "--drop-missing"]),
        ("x,y\n1,2\n1,-inf\n", vec!["d.csv: line 3, column `y`", "`-inf`"]),
        ("x,y\n1,1e999\n", vec!["d.csv: line 2, column `y`", "`1e999`"]),
        ("x,y\n1,2\n,2\n", vec!["d.csv: line 3, column `x`", "the cell is empty"]),
        ("x,y\n1,2\n1,2,3\n", vec!["d.csv: line 3", "3 cells where the header has 2"]),
        ("x,y\n1,2\n1\n", vec!["d.csv: line 3", "1 cells where the header has 2"]),
        ("x,y\n", vec!["d.csv", "no rows"]),
        ("x,y", vec!["d.csv", "no rows"]),
        ("", vec!["d.csv", "empty"]),
        ("x,y,x\n1,2,3\n", vec!["d.csv: line 1", "`x` appears twice"]),
        ("y\n1\n", vec!["d.csv", "no input columns"]),
        ("x,w,y\n1,2,3\n", vec!["d.csv", "the network has 1 input", "2 input columns (x, w)"]),
    ] {
        folder.write("d.csv", contents);
        folder.refuses(&format!("{FIT} gaussian"), &words);
    }
    folder.write("d.csv", b"x,y\n1,\xff\xfe\n");
    folder.refuses(&format!("{FIT} gaussian"), &["d.csv: line 2", "UTF-8"]);
}

#[test]
fn targets_that_cannot_be_observed() {
    let folder = Folder::new();
    folder.model("one.safetensors", &[1, 3, 1]);
    folder.model("two.safetensors", &[1, 3, 2]);
    for (model, likelihood, target, words) in [
        ("two", "categorical", "2", vec!["d.csv", "name 3 classes (0, 1, 2)", "takes 2"]),
        ("two", "categorical", "-1", vec!["d.csv", "name 3 classes (-1, 0, 1)", "takes 2"]),
        ("two", "categorical", "0.5", vec!["d.csv: line 3", "categorical target 0.5", "whole number"]),
        ("one", "bernoulli", "2", vec!["d.csv", "name 3 classes (0, 1, 2)", "takes 2"]),
        ("one", "bernoulli", "0.5", vec!["d.csv: line 3", "bernoulli target 0.5"]),
        ("one", "poisson", "-1", vec!["d.csv: line 3", "poisson target -1"]),
        ("one", "poisson", "1.5", vec!["d.csv: line 3", "poisson target 1.5"]),
    ] {
        folder.write("d.csv", format!("x,y\n1,0\n2,{target}\n3,1\n"));
        let fit = FIT.replace("m.safetensors", &format!("{model}.safetensors"));
        folder.refuses(&format!("{fit} {likelihood}"), &words);
        let train = format!("train --data d.csv --target y --likelihood {likelihood} --epochs 1 --out t.safetensors");
        // To train on three classes is fine.
        if likelihood != "categorical" || target == "0.5" {
            folder.refuses(&train, &words[..1]);
        }
    }
    folder.write("d.csv", "x,y\n1,0\n2,1\n");
    folder.refuses(&format!("{} bernoulli", FIT.replace("m.saf", "two.saf")), &["names 1 column (y)", "takes 2"]);
    folder.refuses(&format!("{} categorical", FIT.replace("m.saf", "one.saf")), &["one.safetensors", "at least 2"]);
}

#[test]
fn labels_that_are_no_classes_to_train_on() {
    let folder = Folder::new();
    let train = "train --data d.csv --target y --likelihood categorical --epochs 1 --out t.safetensors";
    for (labels, options, words) in [
        (["0", "0", "0"], "", vec!["d.csv", "--classes"]),
        (["0", "1", "1000000"], "--classes 2", vec!["d.csv", "3 classes (0, 1, 1000000)", "takes 2"]),
        (["0", "1", "2"], "--classes 2", vec!["d.csv", "3 classes (0, 1, 2)", "takes 2"]),
        (["0", "1", "2.5"], "", vec!["d.csv: line 4", "whole number"]),
        (["0", "1", "2"], "--classes 1", vec!["--classes"]),
    ] {
        folder.write("d.csv", format!("x,y\n1,{}\n2,{}\n3,{}\n", labels[0], labels[1], labels[2]));
        folder.refuses(&format!("{train} {options}"), &words);
    }
    folder.write("d.csv", "x,y,z\n1,0,1\n");
    folder.refuses(&train.replace("--target y", "--target y,z"), &["names 2 columns (y, z)", "takes 1"]);
    folder.refuses(&train.replace("--target y", "--target y,y"), &["`y` twice"]);
}

#[test]
fn inputs_and_test_data() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "x,y\n1,2\n2,3\n");
    folder.ok(&format!("{FIT} gaussian"));
    folder.write("wide.csv", "x,y\n1,2\n");
    folder.write("text.csv", "x\n1\nno\n");
    folder.write("header.csv", "x\n");
    folder.write("empty.csv", "");
    let predict = "predict --posterior p.safetensors --out out.csv --inputs";
    // The target is left out by its name.
    folder.write("narrow.csv", "x\n1\n");
    let predictions = folder.ok("predict --posterior p.safetensors --inputs narrow.csv").stdout;
    assert_eq!(folder.ok("predict --posterior p.safetensors --inputs wide.csv").stdout, predictions);
    assert_eq!(folder.ok("predict --posterior p.safetensors --inputs wide.csv --target y").stdout, predictions);
    folder.write("other.csv", "y,w,x\n2,3,1\n");
    let unknown = "the column `w` is neither an input nor a target";
    folder.refuses(&format!("{predict} other.csv --strict"), &["other.csv", unknown]);
    folder.refuses(&format!("{predict} other.csv --strict --target y"), &["other.csv", unknown]);
    assert_eq!(folder.ok("predict --posterior p.safetensors --inputs other.csv").stdout, predictions);
    assert_eq!(folder.ok("predict --posterior p.safetensors --inputs other.csv --target w").stdout, predictions);
    folder.write("missing-x.csv", "w,y\n1,2\n");
    folder.refuses(&format!("{predict} missing-x.csv"), &["missing-x.csv", "no column `x`"]);
    folder.refuses(&format!("{predict} wide.csv --target z"), &["wide.csv", "no column `z`"]);
    folder.refuses(&format!("{predict} wide.csv --target x,y"), &["wide.csv", "no column `x`"]);
    folder.refuses(&format!("{predict} text.csv"), &["text.csv: line 3, column `x`", "`no`"]);
    folder.refuses(&format!("{predict} header.csv"), &["header.csv", "no rows"]);
    folder.refuses(&format!("{predict} empty.csv"), &["empty.csv", "empty"]);
    folder.refuses(&format!("{predict} missing.csv"), &["missing.csv", "No such file"]);
    let evaluate = "evaluate --posterior p.safetensors --target y --data";
    folder.write("text-y.csv", "x,y\n1,2\nno,3\n");
    folder.refuses(&format!("{evaluate} text-y.csv"), &["text-y.csv: line 3", "`no`"]);
    folder.write("three.csv", "x,w,y\n1,2,3\n");
    folder.refuses(&format!("{evaluate} three.csv --strict"), &["three.csv", unknown]);
    folder.refuses(&format!("{evaluate} narrow.csv"), &["narrow.csv", "no column `y`", "the columns are x"]);
    folder.refuses(&format!("{evaluate} missing-x.csv"), &["missing-x.csv", "no column `x`", "the columns are w, y"]);
    let other = "evaluate --posterior p.safetensors --target w --data three.csv";
    folder.refuses(other, &["--target names w", "the target of the model is y"]);
    folder.refuses(&format!("{evaluate} missing.csv"), &["missing.csv", "No such file"]);
}

#[test]
fn files_that_are_not_there() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.refuses(&format!("{FIT} gaussian"), &["d.csv", "No such file"]);
    std::fs::create_dir(folder.path("d.csv")).expect("a folder");
    folder.refuses(&format!("{FIT} gaussian"), &["d.csv", "directory"]);
}
