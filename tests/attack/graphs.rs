//! Graphs from strangers through the program: networks that are too large at a single point, and whole numbers that no row of a
//! table belongs to.

use std::time::{Duration, Instant};

use super::program::repository;
use super::{FIT, Folder, most_memory, onnx_graph};
use onnx_graph::{model, node, tensor, value};

/// A small file whose nodes are wide and many: 1,000 numbers in the file become 10⁶ at every node.
#[test]
fn a_network_that_is_too_large_at_one_point_is_refused_before_it_is_evaluated() {
    let folder = Folder::new();
    folder.write("d.csv", "x0,x1,y\n0.1,0.2,1\n0.3,0.1,2\n1,2,0.5\n");
    for operator in ["Relu", "MatMul"] {
        let names: Vec<String> = (0..300).map(|index| format!("a{index}")).collect();
        let mut nodes = vec![node("Expand", &["one", "lengths"], &["a0"])];
        nodes.extend(names.windows(2).map(|pair| match operator {
            "MatMul" => node(operator, &[&pair[0], &pair[0]], &[&pair[1]]),
            _ => node(operator, &[&pair[0]], &[&pair[1]]),
        }));
        nodes.push(node("ReduceSum", &["a299"], &["sum"]));
        nodes.push(node("Add", &["x", "sum"], &["h"]));
        let tensors = [tensor("one", &[1, 1], &[1e-3], false), tensor("lengths", &[2], &[1000.0, 1000.0], true)];
        folder.write("m.onnx", model(&nodes, &tensors, value(11, "x", &[2], 1)));
        let began = Instant::now();
        let fit = FIT.replace("m.safetensors", "m.onnx");
        let (status, said, most) = most_memory(&folder, &format!("{fit} --max-memory 300MB --out q"));
        assert!(status == Some(1) || status == Some(2), "{operator}: {status:?}: {said}");
        let word = if operator == "MatMul" { "multiplies larger constants" } else { "GB" };
        assert!(said.contains(word), "{operator}: {said}");
        assert!(most < 300_000_000, "{operator}: {most} bytes: {said}");
        assert!(began.elapsed() < Duration::from_secs(20), "{operator}: {:?}", began.elapsed());
    }
}

/// Products of constants are computed again wherever the network is evaluated.
#[test]
fn products_of_constants_take_little_time_or_are_refused() {
    let folder = Folder::new();
    folder.write("d.csv", "x0,x1,y\n0.1,0.2,1\n0.3,0.1,2\n1,2,0.5\n");
    let names: Vec<String> = (0..60).map(|index| format!("a{index}")).collect();
    let mut nodes = vec![node("ConstantOfShape", &["lengths"], &["a0"])];
    nodes.extend(names.windows(2).map(|pair| node("MatMul", &[&pair[0], &pair[0]], &[&pair[1]])));
    nodes.push(node("ReduceSum", &["a59"], &["sum"]));
    nodes.push(node("Add", &["x", "sum"], &["h"]));
    let lengths = tensor("lengths", &[2], &[1000.0, 1000.0], true);
    folder.write("m.onnx", model(&nodes, &[lengths], value(11, "x", &[2], 1)));
    let began = Instant::now();
    folder.refuses(&format!("{} --out q", FIT.replace("m.safetensors", "m.onnx")), &["m.onnx", "MatMul", "constants"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// The network of the fixture has two columns of categories, `x0` and `x1`, in front of three numbers.
#[test]
fn a_category_without_weights_is_refused_with_its_line_and_its_column() {
    let folder = Folder::new();
    let fixture = |name: &str| repository(&format!("tests/fixtures/graph/embedding/{name}"));
    let rows = std::fs::read_to_string(fixture("train.csv")).expect("a table");
    let (names, rows) = rows.split_once('\n').expect("a header");
    // Many rows, so that they come in several batches.
    let many = |count: usize| -> Vec<String> { rows.lines().cycle().take(count).map(String::from).collect() };
    let write = |name: &str, lines: &[String]| folder.write(name, format!("{names}\n{}\n", lines.join("\n")));
    write("d.csv", &many(60));
    let fit = format!("fit --model {} --target y --likelihood gaussian --sigma 0.3", fixture("model.onnx"));
    folder.ok(&format!("{fit} --data d.csv --out p.safetensors"));
    for column in [0, 1] {
        for (wrong, line) in [("-1", 5000), ("1000", 2), ("1e300", 3), ("0.5", 5000), ("-0.25", 2)] {
            let mut lines = many(6000);
            let mut cells: Vec<&str> = lines[line - 2].split(',').collect();
            cells[column] = wrong;
            lines[line - 2] = cells.join(",");
            write("bad.csv", &lines);
            let (place, column) = (format!("line {line}"), format!("x{column}"));
            let words = ["bad.csv", &place, &column, "categories 0 to"];
            for command in [
                format!("{fit} --data bad.csv --out q"),
                format!("{fit} --data bad.csv --without-data --structure diag --out q"),
                "predict --posterior p.safetensors --inputs bad.csv --out o.csv".to_string(),
                "predict --posterior p.safetensors --inputs bad.csv --method nn --samples 2 --out o.csv".to_string(),
                "evaluate --posterior p.safetensors --data bad.csv --target y".to_string(),
                "suggest --posterior p.safetensors --pool bad.csv --out o.csv".to_string(),
                "influence --posterior p.safetensors --inputs bad.csv --out o.csv".to_string(),
            ] {
                folder.refuses(&command, &words);
            }
        }
    }
    // A report looks at categories that occur, and at none between them.
    folder.ok("report --posterior p.safetensors --data d.csv --out r.html");
    // What is no number at all is a missing value, by name.
    let mut lines = many(20);
    lines[7] = lines[7].replacen(lines[7].split(',').next().expect("a cell"), "NaN", 1);
    write("bad.csv", &lines);
    folder.refuses(&format!("{fit} --data bad.csv --out q"), &["bad.csv", "x0", "line 9"]);
    folder.refuses("predict --posterior p.safetensors --inputs bad.csv --out o.csv", &["bad.csv", "x0", "line 9"]);
}
