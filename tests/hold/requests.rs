//! Requests and texts without bounds.

use super::{FIT, fitted, folder};

#[test]
fn a_header_of_many_columns_is_checked_in_time_proportional_to_it() {
    let folder = folder();
    let names: Vec<String> = (0..100_000).map(|column| format!("c{column}")).collect();
    folder.write("wide.csv", format!("{}\n{}1\n", names.join(","), "1,".repeat(99_999)));
    // Quadratic, it would compare 5·10⁹ pairs of names, and the test would not end for minutes.
    let train =
        |target: &str| format!("train --data wide.csv --target {target} --likelihood gaussian --hidden 1 --epochs 1");
    folder.refuses(&format!("{} --out w", train("d7")), &["no column `d7`", "100000 columns", "c7"]);
    folder.write("twice.csv", format!("{},c5\n{}1\n", names.join(","), "1,".repeat(100_000)));
    folder.refuses(
        "train --data twice.csv --target c7 --likelihood gaussian --hidden 1 --out w",
        &["`c5` appears twice"],
    );
}

#[test]
fn threads_have_a_ceiling() {
    let folder = folder();
    for threads in ["2000", "100000000000"] {
        folder.refuses(&format!("{FIT} --out p.safetensors --threads {threads}"), &["--threads", "at most"]);
    }
    folder.ok(&format!("{FIT} --out p.safetensors --threads 3"));
}

#[test]
fn samples_have_a_ceiling() {
    let folder = fitted();
    let most = u64::MAX;
    for command in [
        format!("predict --posterior p.safetensors --inputs d.csv --target y --method nn --samples {most}"),
        format!("predict --posterior p.safetensors --inputs d.csv --target y --link mc --samples {most}"),
        format!("sample --posterior p.safetensors --samples {most} --out s"),
        format!("sample --posterior p.safetensors --range 5..{most} --out s"),
    ] {
        folder.refuses(&command, &["at most 10000000 samples"]);
    }
}

#[test]
fn an_exact_posterior_that_would_take_hours_is_not_begun() {
    let folder = folder();
    // M³/3 in function space and D³/2 in weight space are both 2·10¹⁴, and 10¹⁰ in a second are a good guess.
    folder.model("large.safetensors", &[1, 280, 280, 1]);
    let rows: String = (0..90_000).map(|n| format!("{},{}\n", n % 1000, n % 7)).collect();
    folder.write("long.csv", format!("x,y\n{rows}"));
    let fit = "fit --model large.safetensors --data long.csv --target y --likelihood gaussian --out q";
    // The memory is only allowed, never taken.
    let allowed = format!("{fit} --max-memory 100TB");
    folder.fails(1, &allowed, &["would take about", "hours", "kronecker would fit", "--structure kron", "--solver"]);
}

#[test]
fn text_from_files_is_escaped_and_cut() {
    let folder = folder();
    let long = "q".repeat(300_000);
    for data in [
        "x,y\n1,2\n\u{1b}[31mred\u{1b}[0m,3\n".to_string(),
        "x,y\n1,\u{202e}evil\u{7}\n".to_string(),
        "x,\u{1b}]0;title\u{7}\n1,2\n".to_string(),
        format!("x,y\n1,2\n{long},3\n"),
        format!("x,{long}\n1,2\n"),
        format!("x,y,{long}\n1,2,\n"),
        format!("{long},{long}\n1,2\n"),
        // No `y` among 20,000 names.
        format!("{}\n{}1\n", (0..20_000).map(|n| format!("c{n}")).collect::<Vec<_>>().join(","), "1,".repeat(19_999)),
    ] {
        folder.write("bad.csv", data);
        let outcome = folder.rla("fit --model m.safetensors --data bad.csv --target y --likelihood gaussian --out q");
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.len() < 3000, "{} bytes", outcome.stderr.len());
        let obeyed = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
        assert!(!outcome.stderr.contains(obeyed), "{:?}", outcome.stderr);
    }
    // Names that the user typed are shown in the same way.
    let outcome = folder.shell(
        "rla fit --model m.safetensors --data d.csv --target \"$(printf 'y\\033[31m')\" --likelihood gaussian --out q",
    );
    assert_eq!(outcome.status, Some(2));
    assert!(!outcome.stderr.contains('\u{1b}'), "{:?}", outcome.stderr);
}
