//! A person at a real terminal: the view while an agent works, the form of a question, the effect of keys.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use callsheet_testing::{mask_page, wait_until};

use crate::project::{RunProject, fake_agent};
use crate::terminals::has_tmux;

/// A tmux terminal with one command in it, which prints its exit code when it has ended.
pub(crate) struct Terminal<'w> {
    project: &'w RunProject,
    /// A server takes time to end, and the next one must not meet it.
    server: String,
}

impl<'w> Terminal<'w> {
    pub(crate) fn open(project: &'w RunProject, columns: u32, args: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let terminal = Self { project, server: COUNT.fetch_add(1, Relaxed).to_string() };
        let command = project.command();
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let mut tmux = terminal.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-y", "60", "-x", &columns.to_string()]);
        tmux.args(["sh", "-c", "trap : INT; \"$@\"; echo \"it exits with $?\"; sleep 600", "sh"])
            .args(words)
            .args(args);
        assert!(tmux.status().unwrap().success());
        terminal
    }

    fn tmux(&self) -> Command {
        let command = self.project.command();
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.server]);
        tmux.current_dir(self.project.path()).env_clear().env("LANG", "C.UTF-8").env("TERM", "xterm");
        tmux.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        tmux
    }

    pub(crate) fn send_keys(&self, keys: &[&str]) {
        assert!(self.tmux().arg("send-keys").args(keys).status().unwrap().success());
    }

    /// Returns the screen, without the ids of runs and the name of this project.
    fn capture_screen(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p", "-J"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let text = text.replace(&self.project.beside("").display().to_string(), "WORLD/");
        let text = mask_page(&text, "ID", "TIME");
        let hide_size = |line: &str| match line.split_once("│ read ") {
            Some((before, _)) => format!("{before}│ read BYTES bytes\n"),
            None => format!("{}\n", line.trim_end()),
        };
        text.trim_end().lines().map(hide_size).collect()
    }

    /// Returns the screen; with `join`, wrapped lines are one line again.
    pub(crate) fn capture_whole(&self, join: bool) -> String {
        let flags: &[&str] = if join { &["-J", "-S", "-"] } else { &[] };
        let output = self.tmux().args(["capture-pane", "-p"]).args(flags).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.trim_end().lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }

    /// Waits until the screen shows this text, at any second.
    fn wait_for_screen(&self, wanted: &str) {
        let at_any_time = |screen: String| match screen.split_once("  0:") {
            Some((before, after)) => format!("{before}  0:00{}", after.get(2..).unwrap_or_default()),
            None => screen,
        };
        let begun = Instant::now();
        while at_any_time(self.capture_screen()) != wanted {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}\n{wanted}", self.capture_screen());
        }
    }

    /// Waits for the end of the command and returns the screen.
    pub(crate) fn wait_for_end(self) -> String {
        wait_until("it ends", || self.capture_screen().contains("it exits with"));
        self.capture_screen()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        drop(self.tmux().arg("kill-server").status());
    }
}

/// One line shows the progress in a terminal of any width, and Ctrl-C or another process ends the run.
#[test]
fn c5_person_sees_progress_and_stops() {
    if !has_tmux() {
        return;
    }
    for columns in [120, 24] {
        let project = RunProject::new();
        project.write_program("agent", &format!("#!/bin/sh\nexec {} \"$@\"\n", fake_agent()));
        let words = ["read", "say", "a line that is much longer than a narrow terminal", "sleep", "600000"];
        let args = [&["run", "--write", "**", "Do it.", "--", "agent"], &words[..]].concat();
        let terminal = Terminal::open(&project, columns, &args);
        let whole = "agent  0:00  a line that is much longer than a narrow terminal";
        let seen = if columns < 60 { "agent  0:00  a line th…".to_owned() } else { whole.to_owned() };
        terminal.wait_for_screen(&format!("run ID\n{seen}\n"));
        let why = if columns < 60 {
            project.run(["stop", "last"]).expect_code(0);
            "asked for by `callsheet stop`"
        } else {
            terminal.send_keys(&["C-c"]);
            "interrupted"
        };
        assert_eq!(
            terminal.wait_for_end(),
            format!(
                "run ID\nrun r1  stopped: {why}\n  delivered  spawned\n  took       TIME\n  \
             changed    nothing\n  checks     none\n  reply      none\n  said       │ read BYTES bytes\n             \
             │ a line that is much longer than a narrow terminal\nnext:\n  callsheet retry r1  \
             run it again with these facts\nit exits with 130\n"
            )
        );
        project.assert_all_runs_finished();
    }
}

/// Callsheet shows the project's requests and asks about them, and only `yes` means yes.
#[test]
fn terminal_asks_for_trust() {
    if !has_tmux() {
        return;
    }
    let project = RunProject::new();
    project.write(".callsheet/config.toml", "[checks]\nbuild = \"touch built\"\n");
    project.commit();
    let args = ["run", "--write", "**", "Do it.", "--", fake_agent(), "read"];
    let question =
        "This project's files ask to:\n  run the check `build`: touch built\nTrust this project? [y/N]\n";
    for answer in ["no", "n", "", "yes please"] {
        let terminal = Terminal::open(&project, 200, &args);
        terminal.wait_for_screen(question);
        terminal.send_keys(&["-l", "--", answer]);
        terminal.send_keys(&["Enter"]);
        let refused = "error[TrustRequired]: this project's files need your trust to: run the check \
                       `build`: touch built\n  = hint: review them, then run `callsheet trust`\nit exits with 10\n";
        assert_eq!(terminal.wait_for_end(), format!("{question}{answer}\n{refused}"));
        assert!(!project.path().join("built").exists() && !project.ledger().exists());
    }
    for (asked, name) in [(true, "r1"), (false, "r2")] {
        let terminal = Terminal::open(&project, 200, &args);
        if asked {
            terminal.wait_for_screen(question);
            terminal.send_keys(&["y", "Enter"]);
        }
        let screen = terminal.wait_for_end();
        let ran = screen.strip_prefix(&format!("{question}y\n")).filter(|_| asked).unwrap_or(&screen);
        assert_eq!(
            ran,
            format!(
                "run ID\nrun {name}  nothing changed\n  delivered  spawned\n  took       TIME\n  changed    nothing\n  \
                 check      build passed (TIME)\n  reply      none\n  said       │ read BYTES bytes\nnext:\n  \
                 callsheet retry {name}  run it again with these facts\nit exits with 0\n"
            )
        );
        fs::remove_file(project.path().join("built")).unwrap();
    }
    project.assert_all_runs_finished();
}
