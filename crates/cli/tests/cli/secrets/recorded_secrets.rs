//! Tests that the ledger keeps no secrets.

use std::fs;

use super::planted_secrets::{Dice, Planted, plant};
use crate::world::World;

/// Reads everything that is stored: the database, the files beside it, and an export, in which texts are not
/// compressed.
fn read_stored_bytes(world: &World) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in [world.ledger(), world.sidecar_path("-wal"), world.sidecar_path("-shm")] {
        bytes.extend(fs::read(path).unwrap_or_default());
    }
    let export = world.run(["export", "--all"]);
    assert_eq!((export.code, export.err.as_str()), (0, ""));
    bytes.extend(export.out.into_bytes());
    bytes
}

fn contains_secret(bytes: &[u8], secret: &str) -> bool {
    // The line ends of a secret of several lines would be stored as `\n`.
    let longest = secret.lines().max_by_key(|line| line.len()).unwrap_or_default();
    bytes.windows(longest.len()).any(|window| window == longest.as_bytes())
}

#[test]
fn redacted_secret_is_not_stored() {
    let world = World::new();
    let mut dice = Dice(42);
    let planted: Vec<Planted> = (0..500).map(|number| plant(&mut dice, number)).collect();
    let mut shown = 0;
    for some in planted.chunks(50) {
        let text: Vec<&str> = some.iter().map(|planted| planted.text.as_str()).collect();
        world.write("notes.md", text.join("\n\n"));
        let done = world.run([
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
        assert_eq!(done.code, 0, "{}", done.err);
        let prompt = done.json()["text"].as_str().unwrap().to_owned();
        let run = done.json()["run"].as_str().unwrap().to_owned();
        // The delivered, the stored and the verified prompt are the same.
        assert_eq!(world.run(["show", &run, "--prompt"]).out, prompt);
        shown += some.iter().filter(|planted| contains_secret(prompt.as_bytes(), &planted.secret)).count();
    }
    let kept = read_stored_bytes(&world);
    let found: Vec<&str> = planted
        .iter()
        .filter(|planted| contains_secret(&kept, &planted.secret))
        .map(|planted| planted.kind)
        .collect();
    assert_eq!(found.len(), shown, "{found:?}");
    assert!(shown * 20 <= planted.len(), "{shown} of {} were not caught", planted.len());
    assert_eq!(world.run(["verify", "--all", "--read-data"]).code, 0);
}

#[test]
fn refused_secret_writes_nothing() {
    let world = World::new();
    let secret = plant(&mut Dice(7), 0);
    world.write("notes.md", &secret.text);
    let refused = world.run(["compose", "-p", "plan", "-f", "notes.md", "--record", "Add login"]);
    assert_eq!((refused.code, refused.out.as_str()), (9, ""));
    assert!(!world.ledger().exists());
    let warned = ["compose", "-p", "plan", "-f", "notes.md", "--record", "--secrets", "warn", "Add login"];
    let said = world.run(warned);
    let told = "error[usage/bad]: a secret is not recorded with a warning\n  = hint: `--secrets redact`, or `allow`\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (2, "", told));
    let allowed = world.run([
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
    assert_eq!(allowed.code, 0, "{}", allowed.err);
    let records = world.run(["--json", "show", "last", "--records"]).json();
    let composed = &records["records"][0];
    let passed = &composed["data"]["secrets"];
    assert_eq!(passed["mode"], "allow", "{composed}");
    assert_eq!(passed["found"].as_array().map(Vec::len), Some(1), "{passed}");
}

#[test]
fn marked_value_is_stored_as_hmac() {
    let world = World::new();
    world.write(".callsheet/templates/identity/keeper.md", "The word is {{word}}.");
    world.write("word.txt", "open sesame, please");
    world.write("other.txt", "open barley");
    let ask = ["-r", "layers", "--role", "keeper", "--set-secret", "word=word.txt", "--record", "Wait."];
    let said = world.run(["compose"].iter().chain(&ask));
    assert_eq!((said.code, said.out.as_str()), (0, "The word is open sesame, please.\n\n---\n\nWait."));
    assert!(!contains_secret(&read_stored_bytes(&world), "open sesame"));
    let shown = world.run(["show", "last", "--prompt"]).out;
    let seal = shown.strip_prefix("The word is [secret value word hmac-sha256:").unwrap();
    assert_eq!(&seal[64..], "].\n\n---\n\nWait.");
    let verify = |more: &[&str]| world.run(["verify", "last"].iter().chain(more)).code;
    assert_eq!(verify(&[]), 12);
    assert_eq!(verify(&["--set-secret", "word=word.txt"]), 0);
    assert_eq!(verify(&["--set-secret", "word=other.txt"]), 1);
    fs::write(world.project.join("run.json"), world.run(["export", "last"]).out).unwrap();
    let file = |more: &[&str]| world.run(["verify", "--file", "run.json"].iter().chain(more)).code;
    assert_eq!((file(&[]), file(&["--set-secret", "word=word.txt"])), (12, 0));
}
