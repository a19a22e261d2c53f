//! Invalid command lines: status 2, and an error that says what to write instead.

use super::Folder;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "x,y\n1,2\n2,3\n4,0\n");
    folder.ok(&FIT.replace("x.safetensors", "p.safetensors"));
    folder
}

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --out x.safetensors";
const PREDICT: &str = "predict --posterior p.safetensors --inputs d.csv --target y --out out.csv";

#[test]
fn hyperparameters() {
    let folder = folder();
    for option in ["--sigma", "--prior-precision"] {
        for value in ["0", "-1", "nan", "inf", "text", "1,0", "1,,2"] {
            folder.refuses(&format!("{FIT} {option} {value}"), &[option, "positive finite number"]);
        }
    }
    folder.refuses(&format!("{FIT} --sigma 1,2"), &["2 noise levels for 1 network output"]);
    folder.refuses(&format!("{FIT} --prior-precision 1,2,3"), &["3 values", "each of the 2 layers"]);
    folder.refuses(&format!("{FIT} --prior layer"), &["--optimize"]);
    folder.refuses(&format!("{FIT} --optimize --prior layer --prior-precision 1"), &["cannot be used with"]);
    folder.refuses(
        &FIT.replace("gaussian", "poisson --sigma 1"),
        &["--sigma belongs to --likelihood gaussian", "poisson"],
    );
}

#[test]
fn names() {
    let folder = folder();
    folder.refuses(
        &FIT.replace("gaussian", "gausian"),
        &["gausian", "gaussian, heteroscedastic, categorical, bernoulli, poisson"],
    );
    folder.refuses(&format!("{FIT} --activation tan"), &["'tan'", "identity, tanh, relu"]);
    folder
        .refuses(&format!("{FIT} --solver dense"), &["dense", "[possible values: auto, weight-space, function-space]"]);
    folder.refuses(
        &format!("{FIT} --structure circulant"),
        &["circulant", "auto, full, kron, diag, matrix-free, matrix-free:S, low-rank:K"],
    );
    folder.refuses(&format!("{FIT} --solver function-space --without-data"), &["--without-data", "weight-space"]);
    folder.refuses(&format!("{PREDICT} --method mcmc"), &["glm, nn, riemannian, map"]);
    folder.refuses(&format!("{PREDICT} --link logit"), &["centred, centred-probit, probit, mc, bridge, none"]);
    folder.refuses("fly", &["fly"]);
    folder.refuses("", &["Usage: rla"]);
}

#[test]
fn methods_and_links_that_do_not_go_together() {
    let folder = folder();
    folder.refuses(&format!("{PREDICT} --method nn --link mc"), &["--link belongs to --method glm"]);
    folder.refuses(&format!("{PREDICT} --method map --link none"), &["--link belongs to --method glm"]);
    folder.refuses(&format!("{PREDICT} --link probit"), &["probit", "gaussian", "--link none"]);
    folder
        .refuses("evaluate --posterior p.safetensors --data d.csv --target y --link none", &["--link none", "probit"]);
}

#[test]
fn counts() {
    let folder = folder();
    folder.refuses(&format!("{PREDICT} --samples 0"), &["--samples", "at least 1"]);
    for share in ["0", "1", "1.5", "nan", "most"] {
        folder.refuses(&format!("{PREDICT} --interval {share}"), &["--interval", "a number between 0 and 1"]);
    }
    folder.refuses(&format!("{PREDICT} --threads 0"), &["--threads", "at least 1"]);
    folder.refuses(&format!("{PREDICT} --max-memory lots"), &["--max-memory", "500MB"]);
    folder.refuses(&format!("{PREDICT} --max-memory 0"), &["--max-memory", "positive"]);
    let train = "train --data d.csv --target y --likelihood gaussian --out t.safetensors";
    for (options, words) in [
        ("--hidden 0", ["--hidden", "at least 1"]),
        ("--hidden 10,ten", ["--hidden", "at least 1"]),
        ("--epochs 0", ["--epochs", "at least 1"]),
        ("--batch-size 0", ["--batch-size", "at least 1"]),
        ("--lr 0", ["--lr", "positive"]),
        ("--lr -1", ["--lr", "positive"]),
        ("--weight-decay -1", ["--weight-decay", "at least 0"]),
        ("--weight-decay nan", ["--weight-decay", "at least 0"]),
        ("--classes 3", ["--classes", "categorical"]),
        ("--hidden 10000000000,10000000000", ["layer sizes", "10000000000"]),
    ] {
        folder.refuses(&format!("{train} {options}"), &words);
    }
}

#[test]
fn places_where_nothing_can_be_written() {
    let folder = folder();
    std::fs::create_dir(folder.path("folder")).expect("a folder");
    for (command, out) in [
        (FIT, "--out x.safetensors"),
        (PREDICT, "--out out.csv"),
        ("train --data d.csv --target y --likelihood gaussian --out t.safetensors", "--out t.safetensors"),
    ] {
        let to = |place: &str| command.replace(out, &format!("--out {place}"));
        folder.refuses(&to("nowhere/x"), &["cannot write nowhere/x", "no folder nowhere"]);
        folder.refuses(&to("folder"), &["cannot write folder", "it is a folder"]);
        folder.refuses(&to("d.csv"), &["cannot write d.csv", "one of the input files"]);
        folder.refuses(&to("d.csv/x"), &["cannot write d.csv/x"]);
    }
    // Refused before the inputs are even opened.
    folder.refuses(
        "train --data missing.csv --target y --likelihood gaussian --out nowhere/m",
        &["cannot write nowhere/m"],
    );
}
