//! Invalid model files: status 2, and an error that names the file and the tensor.

use super::Folder;

/// A safetensors file from a header and zeros for data.
fn file(header: &str, bytes: usize) -> Vec<u8> {
    let mut contents = (header.len() as u64).to_le_bytes().to_vec();
    contents.extend(header.as_bytes());
    contents.extend(vec![0; bytes]);
    contents
}

/// F64 tensors of zeros with the given names and shapes, and the metadata in JSON.
fn zeros(tensors: &[(&str, &[usize])], metadata: &str) -> Vec<u8> {
    let (mut header, mut end) = (format!("{{\"__metadata__\":{metadata}"), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 8 * shape.iter().product::<usize>();
        header += &format!(",\"{name}\":{{\"dtype\":\"F64\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}");
    }
    file(&(header + "}"), end)
}

const TANH: &str = "{\"activation\":\"tanh\"}";
const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --out p.safetensors";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("d.csv", "x,y\n1,2\n2,3\n");
    folder
}

/// The contents of a model file must be refused with these words.
fn refuses(folder: &Folder, contents: Vec<u8>, words: &[&str]) {
    folder.write("m.safetensors", contents);
    let mut all = vec!["m.safetensors"];
    all.extend(words);
    folder.refuses(FIT, &all);
}

#[test]
fn the_files_of_this_test_are_read_when_they_are_right() {
    let folder = folder();
    let layers: [(&str, &[usize]); 4] =
        [("0.weight", &[3, 1]), ("0.bias", &[3]), ("2.weight", &[1, 3]), ("2.bias", &[1])];
    folder.write("m.safetensors", zeros(&layers, TANH));
    folder.ok(FIT);
    folder.write("m.safetensors", zeros(&layers, "{}"));
    folder.ok(&format!("{FIT} --activation relu"));
    folder.write("m.safetensors", zeros(&layers, "{\"activation\":\"swoosh\"}"));
    folder.ok(&format!("{FIT} --activation relu"));
}

#[test]
fn tensors_that_make_no_network() {
    let folder = folder();
    for (tensors, words) in [
        (vec![("0.weight", &[3, 1][..]), ("2.weight", &[1, 4])], vec!["`2.weight`", "[1, 4]", "3 outputs"]),
        (vec![("0.weight", &[3, 1]), ("0.bias", &[2]), ("2.weight", &[1, 3])], vec!["`0.bias`", "[2]", "shape [3]"]),
        (vec![("0.weight", &[3, 1, 1])], vec!["`0.weight`", "convolution", "ONNX"]),
        (vec![("0.weight", &[0, 1])], vec!["`0.weight`", "[0, 1]"]),
        (vec![("0.weight", &[])], vec!["`0.weight`", "[]"]),
        (vec![("0.bias", &[1])], vec!["`0.weight` is missing", "`0.bias`"]),
        (
            vec![("0.weight", &[1, 1]), ("0.running_mean", &[1])],
            vec!["`0.running_mean`", "batch normalisation", "ONNX"],
        ),
        (vec![("a.0.weight", &[1, 1]), ("b.2.weight", &[1, 1])], vec!["`b.2.weight`", "common prefix"]),
        (vec![], vec!["`0.weight` is missing"]),
    ] {
        refuses(&folder, zeros(&tensors, TANH), &words);
    }
}

#[test]
fn types_that_are_not_read() {
    let folder = folder();
    for (dtype, size) in [("F16", 2), ("BF16", 2), ("I64", 8), ("U8", 1)] {
        let header = format!("{{\"0.weight\":{{\"dtype\":\"{dtype}\",\"shape\":[1,1],\"data_offsets\":[0,{size}]}}}}");
        refuses(&folder, file(&header, size), &["`0.weight`", dtype, "F32 or F64"]);
    }
    let header = "{\"0.weight\":{\"dtype\":\"F65\",\"shape\":[1,1],\"data_offsets\":[0,8]}}";
    refuses(&folder, file(header, 8), &["not a valid safetensors file"]);
}

#[test]
fn broken_files() {
    let folder = folder();
    folder.model("good.safetensors", &[1, 3, 1]);
    let good = std::fs::read(folder.path("good.safetensors")).expect("a model");
    let invalid = "not a valid safetensors file";
    for length in [good.len() - 4, good.len() / 2, 100, 9, 8, 7, 1, 0] {
        refuses(&folder, good[..length].to_vec(), &[invalid]);
    }
    let mut long = good.clone();
    long.extend([0; 8]);
    refuses(&folder, long, &[invalid]);
    let mut huge = (1_u64 << 60).to_le_bytes().to_vec();
    huge.extend(&good[8..]);
    refuses(&folder, huge, &[invalid, "claims more bytes than the file has"]);
    let mut most = u64::MAX.to_le_bytes().to_vec();
    most.extend(&good[8..]);
    refuses(&folder, most, &[invalid]);
    refuses(&folder, file("this is no header", 16), &[invalid]);
    refuses(&folder, file("[1, 2, 3]", 16), &[invalid]);
    refuses(&folder, b"x,y\n1,2\n3,4\n5,6\n".to_vec(), &[invalid]);
    for shape in ["[9223372036854775807,4]", "[4294967296,4294967296]", "[18446744073709551615,18446744073709551615]"] {
        let header = format!("{{\"0.weight\":{{\"dtype\":\"F64\",\"shape\":{shape},\"data_offsets\":[0,8]}}}}");
        refuses(&folder, file(&header, 8), &[invalid]);
    }
    for offsets in ["[8,0]", "[0,16]", "[8,16]", "[0,18446744073709551615]"] {
        let header = format!("{{\"0.weight\":{{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":{offsets}}}}}");
        refuses(&folder, file(&header, 8), &[invalid]);
    }
}

#[test]
fn weights_that_are_not_finite() {
    let folder = folder();
    for (value, word) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let mut contents = zeros(&[("0.weight", &[1, 1]), ("0.bias", &[1])], TANH);
        let place = contents.len() - 8;
        contents[place..].copy_from_slice(&value.to_le_bytes());
        refuses(&folder, contents, &["`0.bias`", word, "index 0"]);
    }
}

#[test]
fn activations() {
    let folder = folder();
    let layers: [(&str, &[usize]); 2] = [("0.weight", &[3, 1]), ("2.weight", &[1, 3])];
    refuses(&folder, zeros(&layers, "{}"), &["does not name its activation", "--activation"]);
    refuses(&folder, zeros(&layers, "{\"activation\":\"swoosh\"}"), &["`activation`", "`swoosh`", "tanh, relu"]);
    folder.refuses(&format!("{FIT} --activation swoosh"), &["swoosh", "tanh, relu"]);
}

#[test]
fn files_of_another_kind() {
    let folder = folder();
    folder.refuses(FIT, &["m.safetensors", "No such file"]);
    std::fs::create_dir(folder.path("m.safetensors")).expect("a folder");
    folder.refuses(FIT, &["m.safetensors", "directory"]);
    folder.model("good.safetensors", &[1, 3, 1]);
    folder.ok(&FIT.replace("m.safetensors", "good.safetensors"));
    let again = FIT.replace("m.safetensors", "p.safetensors").replace("--out p.", "--out q.");
    folder.refuses(&again, &["p.safetensors", "posterior", "a model is needed"]);
    let predict = "predict --posterior good.safetensors --inputs d.csv --target y";
    folder.refuses(predict, &["good.safetensors", "not a `riemannian-laplace posterior`", "rla fit"]);
}

#[test]
fn an_activation_that_differs_from_the_files_is_used_with_a_warning() {
    let folder = folder();
    folder.model("m.safetensors", &[1, 3, 1]);
    let outcome = folder.ok(&format!("{FIT} --activation relu --quiet"));
    assert!(outcome.stderr.contains("warning: m.safetensors says its activation is tanh"), "{}", outcome.stderr);
}
