//! A test agent that obeys its arguments, one word after the other, and the guard of its runs.

#![expect(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, reason = "it is a test's agent")]

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;
use std::{env, fs, process};

use rustix::process::{Pid, Signal, getpid, kill_process};

fn main() -> ExitCode {
    callsheet_run::guard_if_asked();
    let args: Vec<String> = env::args().skip(1).collect();
    // Like any other program, it can also only record how it was started.
    if let Some(file) = env::var_os("FAKE_AGENT_NOTES") {
        let names = ["CALLSHEET_RUN", "CALLSHEET_PHASE", "CALLSHEET_ROLE", "CALLSHEET_SESSION"];
        let env: Vec<_> = names.map(|name| (name, env::var(name).ok())).into();
        let mut input = String::new();
        io::stdin().read_to_string(&mut input).unwrap();
        let notes = serde_json::json!({ "argv": args, "env": env, "stdin": input });
        fs::write(file, notes.to_string()).unwrap();
        return ExitCode::SUCCESS;
    }
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut next = || words.next().map_or("", String::as_str);
        match word.as_str() {
            // Input and output.
            "read" => {
                let mut all = Vec::new();
                io::stdin().read_to_end(&mut all).unwrap();
                println!("read {} bytes", all.len());
            }
            "cat" => drop(io::copy(&mut io::stdin(), &mut io::stdout()).unwrap()),
            "say" => println!("{}", next()),
            "say-part" => {
                print!("{}", next());
                io::stdout().flush().unwrap();
            }
            "talk" => eprintln!("{}", next()),
            "talk-lines" => {
                (0..next().parse().unwrap()).for_each(|line: u64| eprintln!("line {line} of much"))
            }
            "bytes" => {
                let bytes: Vec<u8> = next().split(',').map(|byte| byte.parse().unwrap()).collect();
                io::stdout().write_all(&bytes).unwrap();
            }
            "line-of" => {
                let count: usize = next().parse().unwrap();
                let chunk = vec![b'x'; 1 << 20];
                let mut left = count;
                while left > 0 {
                    let size = left.min(chunk.len());
                    io::stdout().write_all(&chunk[..size]).unwrap();
                    left -= size;
                }
                println!();
            }
            "for-ever" => loop {
                if writeln!(io::stdout(), "again and again").is_err() {
                    return ExitCode::FAILURE;
                }
            },
            "argv" => println!("{args:?}"),
            "env" => println!("{:?}", env::var(next()).ok()),
            "cwd" => println!("{}", env::current_dir().unwrap().display()),
            // Time and exit.
            "sleep" => thread::sleep(Duration::from_millis(next().parse().unwrap())),
            "exit" => process::exit(next().parse().unwrap()),
            "abort" => process::abort(),
            "kill-self" => kill_process(getpid(), Signal::KILL).unwrap(),
            "hang-up" => kill_process(getpid(), Signal::HUP).unwrap(),
            "wait-for" => {
                let file = next();
                while !fs::exists(file).unwrap() {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            "ignore-term" => ignore_signals(),
            // Other processes: each of them obeys one argument, split at whitespace.
            "child" => drop(child_command(next(), false).spawn().unwrap()),
            "child-setsid" => drop(child_command(next(), true).spawn().unwrap()),
            "child-wait" => drop(child_command(next(), false).spawn().unwrap().wait().unwrap()),
            "setsid" => drop(rustix::process::setsid().unwrap()),
            "kill-guard" => kill_process(rustix::process::getppid().unwrap(), Signal::KILL).unwrap(),
            "interrupt-ours" => kill_process(run_starter(), Signal::INT).unwrap(),
            "kill-ours" => kill_process(run_starter(), Signal::KILL).unwrap(),
            // Files.
            "write" => fs::write(next(), "written").unwrap(),
            "append" => {
                let mut file = fs::OpenOptions::new().append(true).open(next()).unwrap();
                file.write_all(b"more").unwrap();
            }
            "remove" => fs::remove_file(next()).unwrap(),
            "remove-all" => fs::remove_dir_all(next()).unwrap(),
            "link" => std::os::unix::fs::symlink(next(), words.next().unwrap()).unwrap(),
            // A run of its own, during which this process can be ended.
            "run-job" => run_job(next()),
            other => exit_unknown(other),
        }
    }
    ExitCode::SUCCESS
}

/// Returns the guard's parent: the process that started the run.
fn run_starter() -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", rustix::process::getppid().unwrap())).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

fn exit_unknown(word: &str) {
    eprintln!("the fake agent knows no `{word}`");
    process::exit(99);
}

fn child_command(script: &str, leaves: bool) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    if leaves {
        command.arg("setsid");
    } else {
        command.process_group(0);
    }
    // The words for a child's own children are separated by plus signs.
    let between = if script.contains(' ') { ' ' } else { '+' };
    command.args(script.split(between).filter(|word| !word.is_empty())).stdin(Stdio::null());
    command
}

/// Ignores signals by way of a shell: without unsafe code a process cannot ignore one, and a program that a
/// shell executes inherits that.
fn ignore_signals() {
    if env::var_os("SHRUGS").is_none() {
        let error = Command::new("sh")
            .args(["-c", "trap '' TERM HUP INT; exec \"$0\" \"$@\""])
            .arg(env::current_exe().unwrap())
            .args(env::args().skip(1))
            .env("SHRUGS", "1")
            .exec();
        eprintln!("{error}");
    }
}

fn run_job(script: &str) {
    let own = env::current_exe().unwrap().to_str().unwrap().to_owned();
    let argv = [own].into_iter().chain(script.split(' ').map(str::to_owned)).collect();
    let job = callsheet_run::ProcessJob::new(argv, env::current_dir().unwrap());
    let (mut most, mut told, mut left_out) = (0, 0, 0);
    let exit = callsheet_run::run_process(&job, &mut |event| match event {
        callsheet_run::ProcessEvent::Output { text, .. } => {
            most = most.max(text.len());
            told += text.len();
        }
        callsheet_run::ProcessEvent::LeftOut { bytes, .. } => left_out += bytes,
        callsheet_run::ProcessEvent::Started { .. }
        | callsheet_run::ProcessEvent::Submitted(_)
        | callsheet_run::ProcessEvent::Printed { .. } => {}
    });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    println!("{:?} {most} {told} {left_out} {peak}", exit.unwrap().ended);
}
