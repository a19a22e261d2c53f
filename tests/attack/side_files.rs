//! Small files beside the data: the budget counts for them as well.

use super::{FIT, folder, most_memory};

/// What no command may hold when it refuses a file under 300 MB: the program itself, and less than the budget.
const MOST: u64 = 300_000_000;

#[test]
fn side_files_are_read_within_the_budget() {
    let folder = folder();
    std::fs::File::create(folder.path("huge.txt")).and_then(|file| file.set_len(4_000_000_000)).expect("a sparse file");
    folder.write("long.txt", "1\n".repeat(30_000_000));
    for (file, status, word) in
        [("/dev/zero", 2, "is a device"), (".", 2, "is a directory"), ("huge.txt", 1, "GB"), ("long.txt", 1, "GB")]
    {
        for option in [
            format!("--scaling {file}"),
            format!("--weights subnetwork:@{file}"),
            format!("--prior-precision @{file}"),
            format!("--prior-mean @{file}"),
        ] {
            let (code, said, most) = most_memory(&folder, &format!("{FIT} {option} --max-memory 300MB --out q"));
            assert_eq!(code, Some(status), "{option}: {said}");
            assert!(said.contains(word) && said.contains(file), "{option}: {said}");
            assert!(most < MOST, "{option}: {most} bytes");
        }
    }
    let endless = folder.shell(&format!(
        "head -c 2000000000 /dev/zero | rla {FIT} --prior-precision @/dev/stdin --max-memory 100MB --out q"
    ));
    assert_eq!(endless.status, Some(1), "{}", endless.stderr);
    // A pipe that holds what is asked for is fine.
    let weights = "1\n".repeat(19);
    let piped = folder.shell(&format!("printf '{weights}' | rla {FIT} --prior-precision @/dev/stdin --out q"));
    assert_eq!(piped.status, Some(0), "{}", piped.stderr);
}

#[test]
fn a_header_is_parsed_within_the_budget() {
    let folder = folder();
    let entry = |index: usize| format!("\"t{index}\":{{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    let tensors: Vec<String> = (0..1_200_000).map(entry).collect();
    let long_metadata = format!("{{\"__metadata__\":{{\"a\":\"{}\"}}}}", "x".repeat(71_000_000));
    for header in [format!("{{{}}}", tensors.join(",")), long_metadata] {
        assert!(header.len() > 60_000_000);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        folder.write("big.safetensors", &bytes);
        for command in [
            "fit --model big.safetensors --data d.csv --target y --likelihood gaussian --activation tanh --out q",
            "predict --posterior big.safetensors --inputs d.csv --out q",
            "merge big.safetensors big.safetensors --out q",
        ] {
            let (code, said, most) = most_memory(&folder, &format!("{command} --max-memory 300MB"));
            assert!(code == Some(1) || code == Some(2), "{code:?}: {said}");
            assert!(said.contains("GB"), "{said}");
            assert!(most < MOST, "{command}: {most} bytes");
        }
        let (code, said, most) =
            most_memory(&folder, "predict --posterior big.safetensors --inputs d.csv --out q --max-memory 2500MB");
        assert_eq!(code, Some(2), "{said}");
        assert!(most < 2_500_000_000, "{most} bytes");
        println!("a header of {} MB: {} MB", header.len() / 1_000_000, most / 1_000_000);
    }
}

#[test]
fn messages_of_an_onnx_graph_are_counted_before_they_are_decoded() {
    let folder = folder();
    let varint = |mut value: usize| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let field = |tag: usize, value: &[u8]| [varint(tag << 3 | 2), varint(value.len()), value.to_vec()].concat();
    let many = |tag: usize| field(tag, b"").repeat(5_000_000);
    // Empty nodes, initialisers, attributes, names, descriptions of values, numbers of one byte.
    let graphs = [
        many(1),
        many(5),
        field(1, &many(5)),
        field(1, &many(1)),
        many(13),
        field(13, &field(2, &field(1, &field(2, &many(1))))),
        field(5, &field(7, &vec![1; 10_000_000])),
        field(1, &field(5, &field(8, &vec![1; 10_000_000]))),
    ];
    for (index, graph) in graphs.iter().enumerate() {
        folder.write("bomb.onnx", field(7, graph));
        let fit = FIT.replace("m.safetensors", "bomb.onnx");
        let (code, said, most) = most_memory(&folder, &format!("{fit} --max-memory 300MB --out q"));
        assert!(code == Some(1) || code == Some(2), "{index}: {code:?}: {said}");
        assert!(most < MOST, "{index}: {most} bytes: {said}");
        let (code, said, most) = most_memory(&folder, &format!("{fit} --max-memory 4GB --out q"));
        assert!(code == Some(1) || code == Some(2), "{index}: {code:?}: {said}");
        assert!(most < 4_000_000_000, "{index}: {most} bytes: {said}");
    }
}
