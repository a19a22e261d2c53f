//! Memory is asked for before it is taken.

use super::{FIT, fitted, folder};

/// A column of numbers.
fn rows(count: usize) -> String {
    let rows: String = (0..count).map(|n| format!("{}\n", n % 1000)).collect();
    format!("x\n{rows}")
}

#[test]
fn the_rows_of_a_file_are_read_and_predicted_a_few_thousand_at_a_time() {
    let folder = fitted();
    folder.write("many.csv", rows(200_000));
    for method in ["map", "glm", "nn --samples 10", "riemannian --samples 2"] {
        let predict = format!("predict --posterior p.safetensors --inputs many.csv --method {method}");
        // All 200,000 predictions would need more than 9 MB, and their inputs alone more than 2 MB.
        folder.ok(&format!("{predict} --max-memory 9MB --out o.csv"));
        let written = std::fs::read_to_string(folder.path("o.csv")).expect("predictions");
        assert_eq!(written.lines().count(), 200_001);
        folder.fails(1, &format!("{predict} --max-memory 100000"), &["GB", "--max-memory"]);
    }
}

#[test]
fn a_table_without_a_length_is_counted_as_it_is_read() {
    let folder = fitted();
    folder.write("many.csv", rows(600_000));
    let piped = |limit: &str| {
        folder.shell(&format!(
            "cat many.csv | rla predict --posterior p.safetensors --inputs /dev/stdin --method map --max-memory {limit} --out o.csv"
        ))
    };
    let refused = piped("2MB");
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("reading /dev/stdin"), "{}", refused.stderr);
    let enough = piped("60MB");
    assert_eq!(enough.status, Some(0), "{}", enough.stderr);
}

#[test]
fn devices_and_lines_without_end_are_not_read_until_memory_is_full() {
    let folder = folder();
    let fit = |data: &str| format!("fit --model m.safetensors --data {data} --target y --likelihood gaussian --out q");
    for device in ["/dev/zero", "/dev/null", "/dev/full"] {
        folder.refuses(&fit(device), &[device, "is a device"]);
    }
    folder.refuses(&fit("."), &["is a directory"]);
    folder.refuses(&format!("{FIT} --check /dev/zero --out q"), &["/dev/zero", "is a device"]);
    let endless = folder.shell(&format!("head -c 400000000 /dev/zero | rla {} --max-memory 20MB", fit("/dev/stdin")));
    assert_eq!(endless.status, Some(1), "{}", endless.stderr);
    assert!(endless.stderr.contains("a line of more than"), "{}", endless.stderr);
}

#[test]
fn the_copies_of_samples_and_the_threads_workspaces_are_counted() {
    let folder = fitted();
    // D = 19: 20,000 samples are two arrays of 3 MB, as they arrive and once put together.
    let sample = "sample --posterior p.safetensors --metric euclidean --samples 20000 --out s.safetensors";
    folder.fails(1, &format!("{sample} --max-memory 11MB"), &["the samples", "0.012 GB", "draw fewer at a time"]);
    folder.ok(&format!("{sample} --max-memory 14MB"));
}
