//! A directory that repeatedly becomes a link while prompts are composed from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use callsheet_core::request::RequestDocument;
use callsheet_core::{PromptFormat, Request, compose, render::render};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};

use crate::project::{CANARY, CanaryProject};

/// The swapped paths, each with the link that takes its place.
const SWAPPED: [(&str, &str); 3] =
    [("dir", ".dir-link"), ("file.md", ".file-link"), (".callsheet/templates", ".templates-link")];

fn scene() -> CanaryProject {
    let project = CanaryProject::new();
    project.write("dir/canary.md", "harmless");
    project.write("file.md", "harmless");
    project.write(
        ".callsheet/templates/agents/reader.md",
        "[[include-optional:dir/canary.md]][[include-optional:file.md]][[shared:part]]",
    );
    project.write(".callsheet/templates/shared/part.md", " part");
    project.write_beside("outside/agents/reader.md", CANARY);
    project.write_beside("outside/shared/part.md", CANARY);
    project.write_beside(&format!("outside/{CANARY}.md"), "");
    project.link("../outside", ".dir-link");
    project.link("../outside/canary.md", ".file-link");
    project.link("../outside", ".templates-link");
    project
}

/// Swaps until `stop` is set, and counts the swaps.
fn swap(project: &Path, stop: &AtomicBool, swaps: &AtomicUsize) {
    let name = |name: &str| project.join(name);
    while !stop.load(Ordering::Relaxed) {
        for (real, link) in SWAPPED {
            fs::rename(name(real), name(".aside")).unwrap();
            fs::rename(name(link), name(real)).unwrap();
            fs::rename(name(real), name(link)).unwrap();
            fs::rename(name(".aside"), name(real)).unwrap();
            swaps.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs `read` at least `reads` times while at least `swaps` swaps happen. Returns the texts that were read.
fn read_while_swapping(
    project: &CanaryProject,
    swaps: usize,
    reads: usize,
    read: impl Fn() -> Vec<String>,
) -> BTreeSet<String> {
    let (stop, swapped) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| swap(project.path(), &stop, &swapped));
        let (mut seen, mut times) = (BTreeSet::new(), 0);
        while times < reads || swapped.load(Ordering::Relaxed) < swaps {
            seen.extend(read());
            times += 1;
        }
        stop.store(true, Ordering::Relaxed);
        seen
    })
}

/// Returns the texts that show a read outside the project.
fn find_escapes(seen: &BTreeSet<String>) -> Vec<&String> {
    seen.iter().filter(|text| text.contains(CANARY)).collect()
}

/// Returns the minimum number of swaps.
fn minimum_swaps() -> usize {
    if crate::is_long() { 100_000 } else { 2_000 }
}

/// Returns every text that a prompt can take from the disk: includes, documents, templates, fragments, the
/// tree.
fn compose_texts(disk: &Disk) -> Vec<String> {
    let request = |json: serde_json::Value| -> Request { serde_json::from_value(json).unwrap() };
    let document = |path: &str| RequestDocument { path: Some(path.into()), ..RequestDocument::default() };
    let mut unified =
        request(serde_json::json!({ "recipe": "unified", "phase": "plan", "instructions": "x" }));
    unified.documents = vec![document("dir/canary.md"), document("file.md")];
    let staged = request(serde_json::json!({ "recipe": "staged", "role": "reader", "instructions": "x" }));
    let prompts = [unified, staged].into_iter().filter_map(|request| compose(&request, disk).ok());
    prompts
        .filter_map(|composed| Some(render(&composed.prompt, PromptFormat::Markdown, None).ok()?.text))
        .collect()
}

#[test]
fn swapped_link_is_not_read() {
    let project = scene();
    let roots = Roots { project: Some(project.path().to_owned()), ..Roots::default() };
    let disk = Disk::new(&roots, DEFAULT_MAX_FILE_BYTES);
    let seen = read_while_swapping(&project, minimum_swaps(), 1_000, || compose_texts(&disk));
    assert_eq!(find_escapes(&seen), Vec::<&String>::new());
    assert!(seen.iter().any(|text| text.contains("harmless")), "nothing was ever read: {seen:?}");
}

/// Tests the program itself, which opens the project anew each time; packing too.
#[test]
fn program_does_not_follow_swapped_link() {
    let project = scene();
    let seen = read_while_swapping(&project, minimum_swaps(), 50, || {
        let staged = project.run(["compose", "--role", "reader", "--session", ".", "x"]);
        let packed = project.run(["compose", "-r", "layers", "-f", "dir", "-f", "*.md", "x"]);
        vec![staged.out(), staged.err(), packed.out(), packed.err()]
    });
    assert_eq!(find_escapes(&seen), Vec::<&String>::new());
    assert!(seen.iter().any(|text| text.contains("harmless")), "nothing was ever read");
}

/// A reader that checks first and opens later is caught, if not in the first round then in a later one.
#[test]
fn careless_reader_is_detected() {
    let project = scene();
    let careless = || {
        let path = project.path().join("dir/canary.md");
        let is_inside = path.canonicalize().is_ok_and(|path| path.starts_with(project.path()));
        let text = is_inside.then(|| fs::read_to_string(path).ok()).flatten();
        text.into_iter().collect()
    };
    let caught =
        (0..50).any(|_| !find_escapes(&read_while_swapping(&project, 2_000, 1_000, careless)).is_empty());
    assert!(caught, "the swaps are too slow to catch anybody");
}
