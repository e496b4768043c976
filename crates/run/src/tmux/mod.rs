//! Drives an agent in a tmux terminal: waits until it accepts a line, and types one.
//!
//! Nothing is ever typed blindly. A pane that is dead, scrolled, or shows an unknown dialog is an error; a
//! line is sent only after it was seen in the input field, and it counts as sent only when it is gone from
//! there.

mod screen;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::library::agent::{TerminalDialog, TerminalSpec};

use crate::perform::PerformError;
use crate::process::StopFlag;
use crate::process::ancestry::guard_arguments;
use crate::process::environment::{handshake_limit, new_command};
use crate::process::guard::{GuardMessage, ORDER, SpawnRequest};
use crate::process::handshake::{STARTED_AS_GUARD, await_greeting, no_guard};
use crate::process::submission::{listen_in, peer_process, receive, send};
use crate::process::trace::ProcessTrace;
use crate::process::tree;
use screen::{PaneScreen, ScreenState};

/// The reason why a line could not be typed. Nothing was typed, except for [`TerminalError::Unsent`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// tmux is not installed, or refuses a command.
    #[error("tmux: {0}")]
    Tmux(String),
    /// The program in the pane has ended.
    #[error("the program in the terminal is gone; it showed:\n{screen}")]
    Dead {
        /// The last text of the pane.
        screen: String,
    },
    /// A person scrolls in the pane.
    #[error("the pane is in copy mode; leave it first")]
    Scrolled,
    /// The agent shows a dialog.
    #[error("the agent shows a dialog ({name}): {todo}")]
    Dialog {
        /// The dialog's name.
        name: String,
        /// The action that the dialog requires from a person.
        todo: String,
    },
    /// The agent did not become ready in time.
    #[error("the agent does not accept a line; its screen shows:\n{screen}")]
    NotReady {
        /// The text of the pane.
        screen: String,
    },
    /// The line was pasted, but is not visible.
    #[error("the typed line is not visible; the agent shows:\n{screen}")]
    NotTyped {
        /// The text of the pane.
        screen: String,
    },
    /// The line is in the input field, and Enter does not send it.
    #[error("the line was typed and not sent; the agent shows:\n{screen}")]
    Unsent {
        /// The text of the pane.
        screen: String,
    },
    /// A stop was requested.
    #[error("it was stopped")]
    Stopped,
}

/// A tmux server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TmuxServer {
    /// The server that a person uses.
    Usual,
    /// A server of our own, by this name, without a configuration.
    Own(String),
}

/// The tmux program, for one server.
#[derive(Clone, Debug)]
pub struct Tmux {
    server: TmuxServer,
}

/// A pane by its id, which no other pane can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmuxPane(String);

impl fmt::Display for TmuxPane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of panes opened so far, for unique session names.
static OPENED: AtomicUsize = AtomicUsize::new(0);

const LOOK: Duration = Duration::from_millis(100);
/// Agents take an Enter that follows too soon for a part of the pasted text.
const BEFORE_ENTER: Duration = Duration::from_millis(300);
const SEEN_WITHIN: Duration = Duration::from_secs(5);
const SENT_WITHIN: Duration = Duration::from_secs(3);
const ENTERS: usize = 3;
/// Wide enough that a path is rarely wrapped.
const SIZE: (&str, &str) = ("220", "50");

impl Tmux {
    /// Returns tmux for `server`, without starting it.
    pub fn new(server: TmuxServer) -> Self {
        Self { server }
    }

    /// Starts a program in a new pane of its own.
    pub fn open(
        &self,
        argv: &[String],
        env: &BTreeMap<String, String>,
        cwd: &Path,
    ) -> Result<TmuxPane, TerminalError> {
        let cwd = to_utf8(cwd)?;
        if argv.first().is_none_or(|program| program.starts_with('-') || program.contains('=')) {
            return Err(TerminalError::Tmux("not a program".into()));
        }
        let session = format!("callsheet-{}-{}", std::process::id(), OPENED.fetch_add(1, Ordering::SeqCst));
        let mut args = vec!["new-session", "-d", "-s", &session, "-P", "-F", "#{pane_id}"];
        args.extend(["-x", SIZE.0, "-y", SIZE.1, "-c", cwd]);
        // tmux would give a single word to a shell; `env` makes it several words, and also sets the search
        // path, which tmux would take from elsewhere.
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        args.extend(["--", "env"]);
        args.extend(env.iter().chain(argv).map(String::as_str));
        // In the same tmux call: a program that ends at once must still be visible.
        let window = format!("={session}:");
        let keep = ["set-option", "-w", "-t", &window, "remain-on-exit", "on"];
        let pane = self.run_both(&args, &keep)?;
        Ok(TmuxPane(pane.trim().to_owned()))
    }

    /// Starts a program in a new pane under a guard, which is the first process of the pane. The guard's
    /// program is `guard`; it gets the spawn request on a socket in `dir`, the directory of the submission
    /// gate.
    pub(crate) fn open_guarded(
        &self,
        guard: &Path,
        order: &SpawnRequest,
        dir: &Path,
        trace: &ProcessTrace,
    ) -> Result<TmuxPane, PerformError> {
        let failed = |error: io::Error| TerminalError::Tmux(error.to_string());
        let listener = listen_in(dir, ORDER).map_err(failed)?;
        let mut argv = vec![to_utf8(guard)?.to_owned()];
        argv.extend(guard_arguments());
        argv.push(to_utf8(dir)?.to_owned());
        let mark = BTreeMap::from([(STARTED_AS_GUARD.to_owned(), "1".to_owned())]);
        let pane = self.open(&argv, &mark, Path::new(&order.cwd))?;
        let start = || {
            let pid = self.read_pane_pid(&pane)?;
            trace.add_guard(pid).map_err(failed)?;
            let control = self.accept_guard(&listener, &pane, pid).map_err(failed)?;
            let control = control.ok_or_else(|| no_guard(guard))?;
            await_greeting(&control, guard)?;
            Ok(send_request(&control, order).map_err(failed)??)
        };
        let started = start();
        if started.is_err() {
            // The first error is reported.
            let _ = self.close(&pane, Duration::ZERO);
        }
        started.map(|()| pane)
    }

    /// Accepts the connection of the process `pid` and of no other. Returns `None` if it ends without one, or
    /// takes too long.
    fn accept_guard(
        &self,
        listener: &UnixListener,
        pane: &TmuxPane,
        pid: i32,
    ) -> io::Result<Option<UnixStream>> {
        listener.set_nonblocking(true)?;
        let (begun, limit) = (Instant::now(), handshake_limit());
        let mut looked = begun;
        loop {
            let is_own = |stream: &UnixStream| {
                !cfg!(target_os = "linux") || peer_process(stream).is_some_and(|peer| peer.pid == pid)
            };
            match listener.accept() {
                Ok((stream, _)) if is_own(&stream) => {
                    stream.set_nonblocking(false)?;
                    return Ok(Some(stream));
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => thread::sleep(Duration::from_millis(5)),
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                if begun.elapsed() > limit || !self.is_pane_alive(pane) {
                    return Ok(None);
                }
            }
        }
    }

    /// Returns the id of the first process of a pane.
    pub fn read_pane_pid(&self, pane: &TmuxPane) -> Result<i32, TerminalError> {
        let raw = self.run(&["display-message", "-p", "-t", &pane.0, "#{pane_pid}"], "")?;
        raw.trim().parse().map_err(|_| TerminalError::Tmux("no such pane".into()))
    }

    /// Finds an existing pane by the name that a person gives.
    pub fn find_pane(&self, target: &str) -> Result<TmuxPane, TerminalError> {
        // A target with another first character is relative to the position of some client.
        if !target.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '%' | '=' | '_')) {
            return Err(TerminalError::Tmux(format!("no pane `{target}`")));
        }
        let id = self.run(&["display-message", "-p", "-t", target, "#{pane_id}"], "")?;
        let id = id.trim();
        let is_id = id.strip_prefix('%').is_some_and(|number| number.parse::<u32>().is_ok());
        if is_id {
            Ok(TmuxPane(id.to_owned()))
        } else {
            Err(TerminalError::Tmux(format!("no pane `{target}`")))
        }
    }

    /// Waits until the agent accepts a line: its screen is ready, stays the same, and shows no dialog.
    pub fn wait_until_ready(
        &self,
        pane: &TmuxPane,
        agent: &TerminalSpec,
        within: Duration,
        stop: &StopFlag,
    ) -> Result<(), TerminalError> {
        let begun = Instant::now();
        let settle = Duration::from_millis(agent.settle_ms);
        let mut last = (PaneScreen::default(), Instant::now());
        loop {
            let screen = self.capture_screen(pane)?;
            if screen != last.0 {
                last = (screen, Instant::now());
            }
            let stable = last.1.elapsed() >= settle;
            match last.0.classify(agent) {
                ScreenState::Ready if stable => return Ok(()),
                ScreenState::Dialog(dialog) if stable => {
                    return Err(dialog_error(dialog));
                }
                _ if begun.elapsed() > within => {
                    return Err(TerminalError::NotReady { screen: last.0.to_text() });
                }
                _ => {}
            }
            if stop.is_stopped() {
                return Err(TerminalError::Stopped);
            }
            thread::sleep(LOOK);
        }
    }

    /// Types one line into a pane that is ready, and sends it. Returns how often Enter was pressed.
    pub fn type_line(
        &self,
        pane: &TmuxPane,
        agent: &TerminalSpec,
        line: &str,
    ) -> Result<usize, TerminalError> {
        if line.is_empty() || line.contains(char::is_control) {
            return Err(TerminalError::Tmux("only one line can be typed".into()));
        }
        let before = self.capture_screen(pane)?;
        if let ScreenState::Dialog(dialog) = before.classify(agent) {
            return Err(dialog_error(dialog));
        }
        let buffer = format!("callsheet-{}", std::process::id());
        self.run(&["load-buffer", "-b", &buffer, "-"], line)?;
        self.run(&["paste-buffer", "-p", "-d", "-b", &buffer, "-t", &pane.0], "")?;
        let typed = self.wait_until(pane, SEEN_WITHIN, |screen| screen.is_written(agent, line))?;
        if let Err(screen) = typed {
            return Err(TerminalError::NotTyped { screen });
        }
        thread::sleep(BEFORE_ENTER);
        for enters in 1..=ENTERS {
            // A dialog that appeared meanwhile must not get the Enter.
            if let ScreenState::Dialog(dialog) = self.capture_screen(pane)?.classify(agent) {
                return Err(dialog_error(dialog));
            }
            self.run(&["send-keys", "-t", &pane.0, "Enter"], "")?;
            let sent = self.wait_until(pane, SENT_WITHIN, |screen| !screen.is_written(agent, line))?;
            if sent.is_ok() {
                return Ok(enters);
            }
        }
        Err(TerminalError::Unsent { screen: self.capture_screen(pane)?.to_text() })
    }

    /// Ends the program in a pane with everything that it started, and the server if it is our own.
    pub fn close(&self, pane: &TmuxPane, grace: Duration) -> Result<(), TerminalError> {
        let raw = self.run(&["display-message", "-p", "-t", &pane.0, "#{pane_pid}"], "")?;
        if let Some(root) = raw.trim().parse().ok().and_then(|raw| tree::to_pid(raw).ok()) {
            tree::terminate_tree(root, grace);
        }
        if self.server == TmuxServer::Usual {
            return self.run(&["kill-pane", "-t", &pane.0], "").map(drop);
        }
        self.kill_server();
        Ok(())
    }

    /// Ends a server of our own, if it is still alive, and removes its socket.
    pub fn kill_server(&self) {
        if let TmuxServer::Own(name) = &self.server {
            // The server may have ended with its last pane.
            let _ = self.run(&["kill-server"], "");
            socket::remove_socket(name);
        }
    }

    /// Ends all programs of a server of our own, and the server.
    pub fn close_all(&self, grace: Duration) -> Result<(), TerminalError> {
        for raw in self.run(&["list-panes", "-a", "-F", "#{pane_pid}"], "")?.lines() {
            if let Some(root) = raw.parse().ok().and_then(|raw| tree::to_pid(raw).ok()) {
                tree::terminate_tree(root, grace);
            }
        }
        self.kill_server();
        Ok(())
    }

    /// Checks whether the program in the pane is still running.
    pub fn is_pane_alive(&self, pane: &TmuxPane) -> bool {
        let state = self.run(&["display-message", "-p", "-t", &pane.0, "#{pane_dead}"], "");
        state.is_ok_and(|state| state.trim() == "0")
    }

    /// Checks whether a person may be watching: a terminal is attached to the server.
    pub fn is_attended(&self) -> bool {
        self.run(&["list-clients", "-F", "#{client_name}"], "")
            .is_ok_and(|clients| !clients.trim().is_empty())
    }

    /// Returns all text that the pane has shown, with wrapped lines joined.
    pub fn capture_text(&self, pane: &TmuxPane) -> Result<String, TerminalError> {
        self.run(&["capture-pane", "-p", "-J", "-S", "-", "-t", &pane.0], "")
    }

    /// Polls the screen until `is_so` holds. Returns the screen if it does not hold in time.
    fn wait_until(
        &self,
        pane: &TmuxPane,
        within: Duration,
        is_so: impl Fn(&PaneScreen) -> bool,
    ) -> Result<Result<(), String>, TerminalError> {
        let begun = Instant::now();
        loop {
            let screen = self.capture_screen(pane)?;
            if is_so(&screen) {
                return Ok(Ok(()));
            }
            if begun.elapsed() > within {
                return Ok(Err(screen.to_text()));
            }
            thread::sleep(LOOK);
        }
    }

    /// Reads the screen of the pane, if a person in front of it could type.
    fn capture_screen(&self, pane: &TmuxPane) -> Result<PaneScreen, TerminalError> {
        let state =
            self.run(&["display-message", "-p", "-t", &pane.0, "#{pane_dead} #{pane_in_mode}"], "")?;
        match state.trim() {
            "0 0" => Ok(PaneScreen::new(&self.run(&["capture-pane", "-p", "-t", &pane.0], "")?)),
            state if state.starts_with("0 ") => Err(TerminalError::Scrolled),
            _ => {
                // tmux reports below that the pane is dead, which moves the program's last words out of
                // sight.
                let all = self.run(&["capture-pane", "-p", "-S", "-50", "-t", &pane.0], "")?;
                Err(TerminalError::Dead { screen: PaneScreen::new(&all).to_text() })
            }
        }
    }

    fn run(&self, args: &[&str], input: &str) -> Result<String, TerminalError> {
        self.run_words(&args.iter().map(|arg| escape_semicolon(arg)).collect::<Vec<_>>(), input)
    }

    /// Runs two commands with nothing between them.
    fn run_both(&self, first: &[&str], second: &[&str]) -> Result<String, TerminalError> {
        let words = first.iter().map(|arg| escape_semicolon(arg)).chain([";".to_owned()]);
        self.run_words(&words.chain(second.iter().map(|arg| escape_semicolon(arg))).collect::<Vec<_>>(), "")
    }

    fn run_words(&self, args: &[String], input: &str) -> Result<String, TerminalError> {
        let failed = |error: std::io::Error| TerminalError::Tmux(error.to_string());
        let mut command = new_command("tmux");
        if let TmuxServer::Own(name) = &self.server {
            command.args(["-L", name, "-f", "/dev/null"]);
        }
        // A client inside tmux would use the server that it runs in.
        command.args(args).env_remove("TMUX").env_remove("TMUX_PANE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(failed)?;
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(TerminalError::Tmux(said.lines().next().unwrap_or("it failed without a message").to_owned()))
    }
}

fn to_utf8(path: &Path) -> Result<&str, TerminalError> {
    path.to_str().ok_or_else(|| TerminalError::Tmux("a path is not UTF-8".into()))
}

fn dialog_error(dialog: &TerminalDialog) -> TerminalError {
    TerminalError::Dialog { name: dialog.name.clone(), todo: dialog.todo.clone() }
}

/// How long the guard of a pane may take to start the agent.
const STARTED_WITHIN: Duration = Duration::from_secs(20);

/// Sends the spawn request to a guard, and waits until the agent is started.
fn send_request(control: &UnixStream, order: &SpawnRequest) -> io::Result<Result<(), TerminalError>> {
    control.set_read_timeout(Some(STARTED_WITHIN))?;
    send(control, order)?;
    Ok(match receive(BufReader::new(control))? {
        GuardMessage::Failed { why, .. } => {
            let program = order.argv.first().map_or("", String::as_str);
            Err(TerminalError::Tmux(format!("cannot start `{program}` in `{}`: {why}", order.cwd)))
        }
        _ => Ok(()),
    })
}

/// Escapes a semicolon at the end of an argument: for tmux it ends the command.
fn escape_semicolon(arg: &str) -> String {
    match arg.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => arg.to_owned(),
    }
}
