//! A PostgreSQL server for one test: created by `initdb`, on a free port, removed on drop.

use std::fs::{self, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A running PostgreSQL server, which is stopped and removed on drop.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    dir: TempDir,
    port: u16,
    /// The user and group of the server, if it refuses to run as the current user.
    user: Option<(u32, u32)>,
}

impl Postgres {
    /// Starts a server. The error says why that failed.
    pub fn start() -> Result<Self, String> {
        let programs = find_programs().ok_or("PostgreSQL is not installed")?;
        let said = |error: io::Error| error.to_string();
        let dir = tempfile::Builder::new().prefix("callsheet-pg").tempdir().map_err(said)?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).map_err(said)?;
        let user = find_unprivileged_user();
        if let Some((user, group)) = user {
            chown(dir.path(), Some(user), Some(group)).map_err(said)?;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(said)?.port();
        let server = Self { programs, dir, port, user };
        let data = server.data();
        let options =
            ["-U", "callsheet", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "-D"];
        server.run(server.command("initdb").args(options).arg(&data))?;
        server.resume()?;
        Ok(server)
    }

    /// Returns the URL of its default database.
    pub fn url(&self) -> String {
        format!("postgres://callsheet@127.0.0.1:{}/postgres", self.port)
    }

    /// Creates a database on this server and returns its URL.
    pub fn create_database(&self, name: &str) -> Result<String, String> {
        let port = self.port.to_string();
        let place = ["-h", "127.0.0.1", "-p", &port, "-U", "callsheet"];
        self.run(self.command("createdb").args(place).arg(name))?;
        Ok(format!("postgres://callsheet@127.0.0.1:{}/{name}", self.port))
    }

    /// Runs the statements of a file, such as a dump, in the database at `url`.
    pub fn restore(&self, url: &str, file: &Path) -> Result<(), String> {
        // The server's user may not be able to read the file.
        let copy = self.dir.path().join("restore.sql");
        fs::copy(file, &copy)
            .and_then(|_| fs::set_permissions(&copy, Permissions::from_mode(0o644)))
            .map_err(|error| error.to_string())?;
        self.run(self.command("psql").args(["-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f"]).arg(copy))
    }

    /// Starts the server, also after a crash.
    pub fn resume(&self) -> Result<(), String> {
        let options =
            format!("-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories=''", self.port);
        let log = self.dir.path().join("log");
        let mut command = self.command("pg_ctl");
        command.arg("-D").arg(self.data()).arg("-l").arg(log);
        self.run(command.args(["-w", "-o", &options, "start"]))
    }

    /// Stops the server as a power cut would.
    pub fn crash(&self) -> Result<(), String> {
        self.run(self.command("pg_ctl").arg("-D").arg(self.data()).args(["-w", "-m", "immediate", "stop"]))
    }

    /// Suspends its processes: sockets stay open, and nothing is answered. They resume when the result is
    /// dropped.
    pub fn pause(&self) -> Result<Paused, String> {
        let said = |error: io::Error| error.to_string();
        let file = fs::read_to_string(self.data().join("postmaster.pid")).map_err(said)?;
        let first: i32 = file.lines().next().and_then(|line| line.trim().parse().ok()).ok_or("no process")?;
        // The first process starts the others.
        let mut paused = Paused(vec![first]);
        send_signal(Signal::STOP, &paused.0);
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).map_err(said)?;
        paused.0.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        send_signal(Signal::STOP, &paused.0);
        Ok(paused)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.gid(group).uid(user);
        }
        command
    }

    fn run(&self, command: &mut Command) -> Result<(), String> {
        // The server keeps its initial files open, so none of ours may be a pipe.
        let said = self.dir.path().join("said");
        let file = fs::File::create(&said).map_err(|error| error.to_string())?;
        let both = file.try_clone().map_err(|error| error.to_string())?;
        let status = command.stdout(file).stderr(both).status().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(said).unwrap_or_default();
        Err(format!("{}: {said}", command.get_program().display()))
    }
}

/// The processes of a suspended server.
#[derive(Debug)]
pub struct Paused(Vec<i32>);

impl Drop for Paused {
    fn drop(&mut self) {
        send_signal(Signal::CONT, &self.0);
    }
}

fn send_signal(signal: Signal, pids: &[i32]) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // A process that has exited in the meantime needs no signal.
        let _ = kill_process(pid, signal);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An error is fine: the server may already be down.
        drop(self.crash());
    }
}

/// Returns the folder of the newest installed server.
fn find_programs() -> Option<PathBuf> {
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    installed.sort_by_key(|path| version(path));
    let on_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    let folders = installed.into_iter().rev().map(|path| path.join("bin")).chain(on_path);
    folders.into_iter().find(|folder| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file())
}

/// Returns the user and group for the server if this process is root, which PostgreSQL refuses: its own user
/// or, without one, the user `nobody`.
fn find_unprivileged_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).or(Some((65534, 65534)))
}
