//! Committees: lists from strangers, and replacing an earlier committee.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::program;
use super::{Folder, TRAIN, data, fitted, most_memory};

/// Data, and a committee of two.
fn trained() -> Folder {
    let folder = Folder::new();
    folder.write("d.csv", data());
    folder.ok(&format!("{TRAIN} --out together"));
    folder.write("x.csv", "x\n0.5\n2\n");
    folder
}

fn list(names: &[&str]) -> String {
    let entries: Vec<String> =
        names.iter().map(|name| format!("{{\"posterior\": {name:?}, \"weight\": 0.5}}")).collect();
    format!("{{\"held_out_log_likelihood\": 0, \"members\": [{}]}}", entries.join(","))
}

/// The names that a list has, sorted, with that of the list.
fn listed(folder: &Folder, committee: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path(&format!("{committee}/committee.json"))).expect("a list");
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let members = list["members"].as_array().expect("members").iter();
    let mut names: Vec<String> =
        members.map(|entry| entry["posterior"].as_str().expect("a name").to_string()).collect();
    names.push("committee.json".to_string());
    names.sort();
    names.dedup();
    names
}

fn names(folder: &Folder, committee: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path(committee)).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_list_that_leads_out_of_its_folder_removes_and_reads_nothing() {
    let folder = fitted();
    folder.write("x.csv", "x\n1\n");
    let victim = folder.path("victim.txt");
    std::fs::create_dir_all(folder.path("theirs/member-x")).expect("folders");
    let absolute = folder.path("p.safetensors").display().to_string();
    for name in
        ["member-x/../../victim.txt", "../victim.txt", "member-x/../victim", "..", ".", "", "./p", "a\\b", &absolute]
    {
        folder.write("victim.txt", "precious");
        folder.write("theirs/committee.json", list(&[name]));
        folder.refuses(&format!("{TRAIN} --out theirs"), &["plain name"]);
        folder.refuses("predict --posterior theirs --inputs x.csv --out o.csv", &["plain name"]);
        folder.refuses("evaluate --posterior theirs --data d.csv --target y", &["plain name"]);
        assert_eq!(std::fs::read(&victim).expect("the victim"), b"precious");
    }
    // The same posterior is read through neither an absolute name, nor a step up, nor a link.
    std::fs::create_dir(folder.path("linked")).expect("a folder");
    symlink(folder.path("p.safetensors"), folder.path("linked/member-01.safetensors")).expect("a link");
    folder.write("linked/committee.json", list(&["member-01.safetensors"]));
    folder.refuses("predict --posterior linked --inputs x.csv --out o.csv", &["member-01.safetensors", "a link"]);
}

#[test]
fn links_in_a_committee_are_neither_written_through_nor_followed() {
    let folder = trained();
    folder.write("victim.txt", "precious");
    folder.write("victim.json", list(&["member-01.safetensors"]));
    let kept = std::fs::read(folder.path("victim.json")).expect("a list");
    std::fs::create_dir(folder.path("theirs")).expect("a folder");
    for member in ["member-01.safetensors", "member-02.safetensors", "member-01-2.safetensors"] {
        symlink("../victim.txt", folder.path(&format!("theirs/{member}"))).expect("a link");
    }
    folder.write("theirs/committee.json", list(&["member-01.safetensors"]));
    folder.ok(&format!("{TRAIN} --out theirs"));
    assert_eq!(std::fs::read(folder.path("victim.txt")).expect("the victim"), b"precious");
    folder.ok("predict --posterior theirs --inputs x.csv --out o.csv");
    std::fs::remove_file(folder.path("theirs/committee.json")).expect("the list");
    symlink("../victim.json", folder.path("theirs/committee.json")).expect("a link");
    folder.refuses(&format!("{TRAIN} --out theirs"), &["committee.json", "a link"]);
    assert_eq!(std::fs::read(folder.path("victim.json")).expect("the victim"), kept);
}

#[test]
fn a_committee_removes_only_what_this_program_wrote() {
    let folder = trained();
    // A file of another kind, a damaged posterior, and others beside.
    folder.write("together/notes.txt", "mine");
    folder.write("together/member-07.safetensors", "mine");
    let mut damaged = std::fs::read(folder.path("together/member-01.safetensors")).expect("a member");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    folder.write("together/member-08.safetensors", &damaged);
    folder.write("together/committee.json", list(&["notes.txt", "member-07.safetensors", "member-08.safetensors"]));
    folder.ok(&format!("{TRAIN} --seed 2 --out together"));
    assert_eq!(std::fs::read(folder.path("together/notes.txt")).expect("notes"), b"mine");
    assert_eq!(std::fs::read(folder.path("together/member-07.safetensors")).expect("a file"), b"mine");
    assert!(std::fs::read(folder.path("together/member-08.safetensors")).expect("a file") == damaged);
    folder.ok("predict --posterior together --inputs x.csv --out o.csv");
}

#[test]
fn a_list_takes_no_more_memory_than_is_allowed() {
    let folder = fitted();
    folder.write("x.csv", "x\n1\n");
    std::fs::create_dir(folder.path("many")).expect("a folder");
    std::fs::copy(folder.path("p.safetensors"), folder.path("many/a")).expect("a copy");
    let predict = "predict --posterior many --inputs x.csv --out o.csv --max-memory 50MB";
    for count in [100_000, 2_000_000] {
        let entry = "{\"posterior\":\"a\",\"weight\":1}";
        let entries = format!("{entry},").repeat(count - 1);
        folder
            .write("many/committee.json", format!("{{\"held_out_log_likelihood\":0,\"members\":[{entries}{entry}]}}"));
        let (status, said, most) = most_memory(&folder, predict);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("committee.json"), "{said}");
        assert!(most < 50_000_000, "{most} bytes: {said}");
    }
    // As many as are allowed, of a budget for fewer.
    folder.write("many/committee.json", list(&["a"; 1000]));
    let (status, said, most) = most_memory(&folder, &predict.replace("50MB", "5MB"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("in many") && most < 50_000_000, "{most} bytes: {said}");
    folder.write("many/committee.json", list(&["a"; 1001]));
    folder.refuses(predict, &["1001 members"]);
}

#[test]
fn predictions_never_replace_what_they_are_made_of() {
    let folder = trained();
    for name in
        ["member-01.safetensors", "member-02.safetensors", "committee.json", "../together/member-01.safetensors"]
    {
        let before = std::fs::read(folder.path(&format!("together/{name}"))).expect("a file of the committee");
        folder.refuses(
            &format!("predict --posterior together --inputs x.csv --out together/{name}"),
            &["one of the input files"],
        );
        assert!(std::fs::read(folder.path(&format!("together/{name}"))).expect("the file") == before);
    }
    folder.ok("predict --posterior together --inputs x.csv --out together/predictions.csv");
}

#[test]
fn a_committee_that_fails_half_way_leaves_the_earlier_one_and_can_be_tried_again() {
    let folder = trained();
    let before = predicted(&folder);
    let whole = names(&folder, "together");
    let bytes = |name: &str| std::fs::read(folder.path(&format!("together/{name}"))).expect("a file");
    let kept: Vec<Vec<u8>> = whole.iter().map(|name| bytes(name)).collect();
    // Members of a few kilobytes do not fit below one block.
    let outcome = folder
        .shell(&format!("ulimit -f 2; rla {TRAIN} --seed 2 --hidden 40 --out together").replace("--hidden 2 ", ""));
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert_eq!(names(&folder, "together"), whole);
    assert!(whole.iter().zip(&kept).all(|(name, kept)| bytes(name) == *kept));
    assert_eq!(predicted(&folder), before);
    // What a killed run leaves in a new folder is no obstacle.
    std::fs::create_dir(folder.path("begun")).expect("a folder");
    std::fs::copy(folder.path("together/member-01.safetensors"), folder.path("begun/member-01.safetensors"))
        .expect("a copy");
    folder.ok(&format!("{TRAIN} --seed 2 --out begun"));
    assert_eq!(names(&folder, "begun"), listed(&folder, "begun"));
}

fn predicted(folder: &Folder) -> Vec<u8> {
    folder.ok("predict --posterior together --inputs x.csv --out o.csv");
    std::fs::read(folder.path("o.csv")).expect("predictions")
}

/// Kills runs that replace a committee, and compares what is there with the old and the new one.
pub fn kill_while_a_committee_is_replaced(kills: usize) {
    let folder = trained();
    let old = predicted(&folder);
    let train = format!("{TRAIN} --seed 2 --out together");
    let began = Instant::now();
    folder.ok(&train);
    let length = began.elapsed();
    let new = predicted(&folder);
    assert!(old != new);
    let (mut killed, mut olds, mut news) = (0, 0, 0);
    for kill in 0..kills {
        // Most of the time goes into training; half of the kills are for what comes at its end.
        let share = if kill % 2 == 0 { 0.9 + 0.25 * (kill as f64 / kills as f64) } else { kill as f64 / kills as f64 };
        // A run that ended before the signal came is begun again, and killed sooner.
        for shorter in [1.0, 0.7, 0.4, 0.2] {
            folder.ok(&format!("{TRAIN} --out together"));
            let mut child = Command::new(program())
                .args(train.split_whitespace())
                .current_dir(folder.path(""))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program runs");
            // Where the list changes, the instant is caught by looking at it.
            let stamp = || folder.path("together/member-01-2.safetensors").exists();
            let end = Instant::now() + length.mul_f64(shorter * share);
            while Instant::now() < end && !(kill % 4 == 2 && stamp()) {
                std::thread::sleep(Duration::from_micros(20));
            }
            child.kill().expect("a signal");
            if child.wait().expect("an end").code().is_none() {
                killed += 1;
                break;
            }
        }
        let now = predicted(&folder);
        assert!(now == old || now == new, "kill {kill}: neither the old committee nor the new one");
        (olds, news) = (olds + usize::from(now == old), news + usize::from(now == new));
        folder.ok(&train);
        assert!(predicted(&folder) == new, "kill {kill}");
        assert_eq!(names(&folder, "together"), listed(&folder, "together"), "kill {kill}: something stayed behind");
    }
    println!("{killed} of {kills} runs killed: {olds} times the old committee, {news} times the new one");
    assert!(2 * killed >= kills, "{killed}");
}

#[test]
fn a_committee_is_replaced_as_a_whole_or_not_at_all() {
    kill_while_a_committee_is_replaced(4);
}

#[test]
#[ignore = "takes minutes: the same with 200 kills; RUNS has another number"]
fn two_hundred_kills_lose_no_committee() {
    kill_while_a_committee_is_replaced(super::runs(200));
}

#[test]
fn two_runs_at_once_leave_one_whole_committee() {
    let folder = trained();
    let results: Vec<Vec<u8>> = ["2", "3"]
        .map(|seed| {
            folder.ok(&format!("{TRAIN} --seed {seed} --out together"));
            predicted(&folder)
        })
        .into();
    for _ in 0..3 {
        let both = folder.shell(&format!(
            "rla {TRAIN} --seed 2 --out together & rla {TRAIN} --seed 3 --out together || exit 9; wait $!"
        ));
        assert_eq!(both.status, Some(0), "{}", both.stderr);
        assert!(results.contains(&predicted(&folder)));
        assert_eq!(names(&folder, "together"), listed(&folder, "together"));
    }
}
