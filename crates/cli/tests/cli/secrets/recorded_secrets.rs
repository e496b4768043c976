//! Tests that the ledger keeps no secrets.

use std::fs;

use callsheet_testing::TestProject;

use super::planted_secrets::{Dice, Planted, plant};

/// Reads everything that is stored: the database, the files beside it, and an export, in which texts are not
/// compressed.
fn read_stored_bytes(project: &TestProject) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in [project.ledger(), project.sidecar_path("-wal"), project.sidecar_path("-shm")] {
        bytes.extend(fs::read(path).unwrap_or_default());
    }
    let export = project.run(["export", "--all"]);
    assert_eq!((export.code, export.err().as_str()), (Some(0), ""));
    bytes.extend(export.out().into_bytes());
    bytes
}

fn contains_secret(bytes: &[u8], secret: &str) -> bool {
    // The line ends of a secret of several lines would be stored as `\n`.
    let longest = secret.lines().max_by_key(|line| line.len()).unwrap_or_default();
    bytes.windows(longest.len()).any(|window| window == longest.as_bytes())
}

#[test]
fn redacted_secret_is_not_stored() {
    let project = TestProject::new();
    let mut dice = Dice(42);
    let planted: Vec<Planted> = (0..500).map(|number| plant(&mut dice, number)).collect();
    let mut shown = 0;
    for some in planted.chunks(50) {
        let text: Vec<&str> = some.iter().map(|planted| planted.text.as_str()).collect();
        project.write("notes.md", text.join("\n\n"));
        let done = project.run([
            "--json",
            "compose",
            "-p",
            "plan",
            "-f",
            "notes.md",
            "--secrets",
            "redact",
            "--record",
            "Add login",
        ]);
        assert_eq!(done.code, Some(0), "{}", done.err());
        let prompt = done.json()["text"].as_str().unwrap().to_owned();
        let run = done.json()["run"].as_str().unwrap().to_owned();
        // The delivered, the stored and the verified prompt are the same.
        assert_eq!(project.run(["show", &run, "--prompt"]).out(), prompt);
        shown += some.iter().filter(|planted| contains_secret(prompt.as_bytes(), &planted.secret)).count();
    }
    let kept = read_stored_bytes(&project);
    let found: Vec<&str> = planted
        .iter()
        .filter(|planted| contains_secret(&kept, &planted.secret))
        .map(|planted| planted.kind)
        .collect();
    assert_eq!(found.len(), shown, "{found:?}");
    assert!(shown * 20 <= planted.len(), "{shown} of {} were not caught", planted.len());
    assert_eq!(project.run(["verify", "--all", "--read-data"]).code, Some(0));
}

#[test]
fn refused_secret_writes_nothing() {
    let project = TestProject::new();
    let secret = plant(&mut Dice(7), 0);
    project.write("notes.md", &secret.text);
    let refused = project.run(["compose", "-p", "plan", "-f", "notes.md", "--record", "Add login"]);
    assert_eq!((refused.code, refused.out().as_str()), (Some(9), ""));
    assert!(!project.ledger().exists());
    let warned = ["compose", "-p", "plan", "-f", "notes.md", "--record", "--secrets", "warn", "Add login"];
    let output = project.run(warned);
    let told = "error[UsageBad]: a secret is never recorded with only a warning\n  = hint: add `--secrets redact` or `--secrets allow`\n";
    assert_eq!((output.code, output.out().as_str(), output.err().as_str()), (Some(2), "", told));
    let allowed = project.run([
        "-q",
        "compose",
        "-p",
        "plan",
        "-f",
        "notes.md",
        "--record",
        "--secrets",
        "allow",
        "Add login",
    ]);
    assert_eq!(allowed.code, Some(0), "{}", allowed.err());
    let records = project.run(["--json", "show", "last", "--records"]).json();
    let composed = &records["items"][0];
    let passed = &composed["data"]["secrets"];
    assert_eq!(passed["mode"], "allow", "{composed}");
    assert_eq!(passed["found"].as_array().map(Vec::len), Some(1), "{passed}");
}

#[test]
fn marked_value_is_stored_as_hmac() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/keeper.md", "The word is {{word}}.");
    project.write("word.txt", "open sesame, please");
    project.write("other.txt", "open barley");
    let ask = ["-r", "layers", "--role", "keeper", "--set-secret", "word=word.txt", "--record", "Wait."];
    let output = project.run(["compose"].iter().chain(&ask));
    assert_eq!(
        (output.code, output.out().as_str()),
        (Some(0), "The word is open sesame, please.\n\n---\n\nWait.")
    );
    assert!(!contains_secret(&read_stored_bytes(&project), "open sesame"));
    let shown = project.run(["show", "last", "--prompt"]).out();
    let seal = shown.strip_prefix("The word is [secret value word hmac-sha256:").unwrap();
    assert_eq!(&seal[64..], "].\n\n---\n\nWait.");
    let verify = |more: &[&str]| project.run(["verify", "last"].iter().chain(more)).code;
    assert_eq!(verify(&[]), Some(12));
    assert_eq!(verify(&["--set-secret", "word=word.txt"]), Some(0));
    assert_eq!(verify(&["--set-secret", "word=other.txt"]), Some(1));
    fs::write(project.path().join("run.json"), project.run(["export", "last"]).out()).unwrap();
    let file = |more: &[&str]| project.run(["verify", "--file", "run.json"].iter().chain(more)).code;
    assert_eq!((file(&[]), file(&["--set-secret", "word=word.txt"])), (Some(12), Some(0)));
}
