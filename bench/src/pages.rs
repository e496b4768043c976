//! Pages of `callsheet serve`: each against a server that sends a file of the same size and does nothing else.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::lists::fill;
use crate::peers::Peers;
use crate::report::{Report, Row, Taken};

/// A server that ends with its value.
struct Served {
    child: Child,
    address: SocketAddr,
    cookie: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Served {
    fn start(mut command: Command) -> Self {
        command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a server");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("an address");
        let (host, path) =
            line.trim().strip_prefix("http://").and_then(|it| it.split_once('/')).expect("an address");
        let address = host.parse().expect("a socket");
        let answer = get(address, &format!("/{path}"), "");
        let head = String::from_utf8_lossy(&answer).into_owned();
        let cookie = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next().unwrap_or_default())
        });
        Self { child, address, cookie: cookie.expect("a cookie").to_owned() }
    }

    fn page(&self, path: &str) -> Vec<u8> {
        let answer = get(self.address, path, &self.cookie);
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}");
        answer
    }
}

/// Returns a whole answer, with its head.
fn get(address: SocketAddr, path: &str, cookie: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

/// Starts a server that answers every request with the same bytes.
fn serve_bytes(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            drop(stream.read(&mut head));
            drop(stream.write_all(&bytes));
        }
    });
    address
}

fn median(rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.expect("a process");
}

/// Makes a repository with a run: a prompt of 200 KB, 2,000 changed lines, and a log of 10 MB.
fn make_run(peers: &Peers, dir: &Path) {
    fs::create_dir_all(dir.join("src")).expect("a folder");
    fs::write(dir.join("notes.md"), "A line of the notes for this task.\n".repeat(5_800)).expect("a file");
    fs::write(dir.join("src/a.txt"), "before\n".repeat(1_000)).expect("a file");
    for words in [&["init", "-q"][..], &["add", "-A"], &["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "c"]] {
        run(Command::new("git").args(words).current_dir(dir));
    }
    let script = "cat > /dev/null; yes 'a line of the log of this run, which is not short' | head -c 10000000; \
                  yes after | head -n 1000 > src/a.txt";
    let mut command = Command::new(&peers.callsheet);
    command.current_dir(dir).args(["run", "-q", "--write", "src/**", "--embed", "notes.md", "Do it.", "--"]);
    run(command.args(["sh", "-c", script]));
}

/// Measures the page of a large run, and the inbox of a ledger of many runs.
pub(crate) fn report(report: &mut Report, peers: &Peers, dir: &Path, runs: usize, rounds: usize) {
    let project = dir.join("project");
    make_run(peers, &project);
    let many = dir.join("many.db");
    fill(&many, runs);
    let own = |args: &[&str]| {
        let mut command = Command::new(&peers.callsheet);
        command.current_dir(&project).args(args);
        command
    };
    let many = many.display().to_string();
    let pages = [
        ("the page of a run: a prompt of 200 KB, 2,000 changed lines, 10 MB of log".to_owned(), own(&[]), "/runs/last"),
        (format!("the inbox of {runs} runs"), own(&["--ledger", &many, "--all-projects"]), "/"),
    ];
    for (name, command, path) in pages {
        let served = Served::start(command);
        let size = served.page(path).len();
        let file = serve_bytes(served.page(path));
        let taken = median(rounds, || assert!(served.page(path).len() >= size / 2));
        let bare = median(rounds, || assert_eq!(get(file, path, "").len() / 1000, size / 1000));
        let row = Row::new(&name).at_most("serving a file of the same size", taken / bare, 20.0);
        let entry = |name: &str, nanoseconds| Taken {
            name: name.into(),
            nanoseconds,
            remark: format!("median, {} KB", size / 1000),
        };
        report.add(row.contenders([entry("a file", bare), entry("callsheet", taken)]));
    }
}
