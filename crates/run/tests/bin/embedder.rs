//! A program that runs agents and does not become a guard if it is started as one: the trap of embedding.
//! Its environment says what it does, because its arguments change if it is started as a guard.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "it is a test's program")]

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{env, fs, thread};

use callsheet_core::delivery::{DeliveryAction, DeliveryText};
use callsheet_run::{PerformOptions, ProcessEvent, SubmissionGate, TerminalOptions, TmuxServer, perform};

fn main() {
    let var = |name: &str| env::var(name).ok();
    let dir = PathBuf::from(var("EMBEDDER_DIR").unwrap());
    // Every start is noted, so that a test can count them.
    let mut notes = fs::File::options().append(true).create(true).open(dir.join("starts")).unwrap();
    notes.write_all(b"started\n").unwrap();
    let is_guard = env::args().len() > 1;
    match var("EMBEDDER_TRAP").as_deref() {
        Some("exec") if is_guard => drop(Command::new(env::current_exe().unwrap()).exec()),
        Some("linger") if is_guard => {
            #[expect(clippy::zombie_processes, reason = "the test looks for it")]
            Command::new("sleep").arg(var("EMBEDDER_SECONDS").unwrap()).spawn().unwrap();
            thread::spawn(move || {
                io::copy(&mut io::stdin(), &mut fs::File::create(dir.join("input")).unwrap()).unwrap()
            });
            thread::sleep(Duration::from_secs(600));
            return;
        }
        _ => {}
    }
    let (argv, cwd) = (["echo", "the agent ran"].map(str::to_owned).to_vec(), "/".to_owned());
    let (act, terminal, submissions) = match var("EMBEDDER_TMUX") {
        None => {
            let stdin = DeliveryText::Prompt { before: String::new() };
            (DeliveryAction::Spawn { argv, env: [].into(), cwd, stdin }, None, None)
        }
        Some(server) => {
            let (run, recorder) = ("r".to_owned(), serde_json::Value::Null);
            let gate = SubmissionGate { run, dir, session: None, role: None, recorder, watched: None };
            let (server, ready_within) = (TmuxServer::Own(server), Duration::ZERO);
            let act = DeliveryAction::Open { argv, env: [].into(), cwd };
            (act, Some(TerminalOptions { server, ready_within }), Some(gate))
        }
    };
    let with = PerformOptions {
        guard: var("EMBEDDER_GUARD").map(PathBuf::from),
        terminal,
        submissions,
        ..PerformOptions::new("/".into())
    };
    let outcome = perform(&[act], "the prompt", &with, &mut |event| {
        if let ProcessEvent::Output { text, .. } = event {
            println!("{text}");
        }
    });
    println!("{}", outcome.err().map_or("done".to_owned(), |error| error.to_string()));
}
