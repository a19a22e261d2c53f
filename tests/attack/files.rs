//! Files that are replaced, and names at the edge.

use super::{FIT, fitted};

#[test]
fn a_name_of_any_length_that_the_system_takes_is_written() {
    let folder = fitted();
    for length in [245, 246, 247, 248, 250, 255] {
        let name = "n".repeat(length);
        for _ in 0..2 {
            folder.ok(&format!("{FIT} --out {name}"));
        }
        assert!(folder.path(&name).is_file());
        std::fs::remove_file(folder.path(&name)).expect("the file");
    }
    folder.refuses(&format!("{FIT} --out {}", "n".repeat(256)), &["nnn"]);
}

#[test]
fn samples_go_on_under_a_name_of_any_length() {
    let folder = fitted();
    for length in [246, 248, 255] {
        let name = "s".repeat(length);
        let run =
            format!("sample --posterior p.safetensors --samples 30 --seed 3 --threads 1 --save-every 0s --out {name}");
        let outcome = folder.rla(&format!("{run} --max-total-evaluations 500"));
        assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("are saved in"), "{}", outcome.stderr);
        let before = folder.names();
        folder.ok(&format!("{run} --resume"));
        assert_eq!(folder.names().len(), before.len(), "the checkpoint went, the samples came");
        std::fs::remove_file(folder.path(&name)).expect("the samples");
    }
}

#[test]
fn runs_that_replace_one_output_at_once_all_succeed() {
    let folder = fitted();
    folder.write("x.csv", "x\n1\n2\n");
    let predict = "rla predict --posterior p.safetensors --inputs x.csv --out o.csv --quiet";
    folder.ok("predict --posterior p.safetensors --inputs x.csv --out o.csv");
    let whole = std::fs::read(folder.path("o.csv")).expect("predictions");
    let names = folder.names();
    // Statuses of jobs are read one by one.
    let script = format!(
        "for i in $(seq 25); do pids=; for j in 1 2 3 4 5 6 7 8; do {predict} & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 9; done; done"
    );
    let outcome = folder.shell(&script);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(std::fs::read(folder.path("o.csv")).expect("predictions") == whole);
    assert_eq!(folder.names(), names);
}

#[test]
fn a_file_that_is_replaced_between_passes_is_noticed() {
    use riemannian_laplace::Batches;
    use riemannian_laplace::internals::data::{CsvStream, StreamColumns, TableOptions};
    use riemannian_laplace::internals::team::Team;
    let folder = fitted();
    let path = folder.path("long.csv");
    let rows = |factor: usize| -> String { (0..5000).map(|n| format!("{:04},{}\n", n, (n * factor) % 7)).collect() };
    let (first, second) = (format!("x,y\n{}", rows(1)), format!("x,y\n{}", rows(3)));
    assert_eq!(first.len(), second.len());
    let open = || {
        folder.write("long.csv", &first);
        CsvStream::open(&path, &TableOptions::default(), StreamColumns::Targets(vec!["y".to_string()]), Team::alone())
            .expect("a table")
    };
    let pass = |data: &CsvStream| {
        data.batches(0..data.n_rows(), 1000).and_then(|mut batches| batches.try_for_each(|batch| batch.map(drop)))
    };
    let changes: [(&str, &dyn Fn()); 4] = [
        ("another file of that name", &|| {
            folder.write("new.csv", &second);
            std::fs::rename(folder.path("new.csv"), &path).expect("a replaced file");
        }),
        ("the same file, written again", &|| folder.write("long.csv", &second)),
        ("a longer one", &|| folder.write("long.csv", format!("{first}1,1\n"))),
        ("the same length and time", &|| {
            let kept = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
            folder.write("long.csv", &second);
            let file = std::fs::File::options().write(true).open(&path).expect("the file");
            file.set_modified(kept).expect("a time");
        }),
    ];
    for (what, change) in changes {
        let data = open();
        pass(&data).expect("a pass");
        // Times of files tick a few times in a hundredth of a second.
        std::thread::sleep(std::time::Duration::from_millis(30));
        change();
        let error = pass(&data).expect_err(what);
        assert!(error.to_string().contains("changed while it was read"), "{what}: {error}");
    }
    // While a pass is on its way.
    let data = open();
    let mut batches = data.batches(0..data.n_rows(), 1000).expect("batches");
    batches.next().expect("a batch").expect("rows");
    std::thread::sleep(std::time::Duration::from_millis(30));
    folder.write("long.csv", &second);
    assert!(batches.any(|batch| batch.is_err()));
}

#[test]
fn names_of_columns_and_classes_are_quoted_and_never_twice() {
    let folder = fitted();
    let rows: String =
        (0..12).map(|n| format!("{n},{}\n", ["entropy", "\"a,b\"", "\"say \"\"c\"\"\"", "p_entropy"][n % 4])).collect();
    folder.write("c.csv", format!("x,label\n{rows}"));
    folder.model("c.safetensors", &[1, 4]);
    folder.ok("fit --model c.safetensors --data c.csv --target label --likelihood categorical --out cp.safetensors");
    folder.write("cx.csv", "x\n1\n");
    for method in ["glm", "nn --samples 3", "map"] {
        folder.ok(&format!("predict --posterior cp.safetensors --inputs cx.csv --method {method} --out o.csv"));
        let table = folder.table("o.csv");
        let mut names = table.columns().to_vec();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        for class in ["a,b", "say \"c\""] {
            assert!(names.iter().any(|name| name == class), "{class}: {names:?}");
        }
    }
}
