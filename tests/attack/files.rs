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
