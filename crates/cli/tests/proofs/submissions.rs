//! Submitting: only the agent of a run submits for it, and only while it runs. Nothing is written for another
//! run.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use callsheet_testing::wait_until;
use serde_json::{Value, json};

use crate::not_tested;
use crate::project::CanaryProject;

const BIN: &str = env!("CARGO_BIN_EXE_callsheet");

/// An agent that runs each script that is put into its folder, and ends when the file `end` exists.
const AGENT: &str = "cd $T/$1; echo $$ > pid; echo \"$CALLSHEET_RUN\" > run.new; mv run.new run
while ! [ -e end ]; do for s in *.sh; do [ -e \"$s\" ] || continue; mv $s $s.now; sh ./$s.now > $s.out 2>&1; mv $s.out $s.done; done; sleep 0.02; done\n";

struct Running {
    name: String,
    child: Child,
    run: String,
}

fn create_project() -> CanaryProject {
    let project = CanaryProject::new();
    for folder in ["t", "project/one", "project/two"] {
        fs::create_dir_all(project.beside(folder)).unwrap();
    }
    project.write_beside("t/agent.sh", AGENT);
    // The messages of the protocol for one submission whose summary is `$1`.
    project.write_beside(
        "t/messages.sh",
        "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}' \
         '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}' \
         \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"method\\\":\\\"tools/call\\\",\\\"params\\\":{\\\"name\\\":\\\"submit_review\\\",\\\"arguments\\\":{\\\"verdict\\\":\\\"pass\\\",\\\"summary\\\":\\\"$1\\\"}}}\"\n",
    );
    project
}

impl Running {
    fn start(project: &CanaryProject, name: &str, session: &str) -> Self {
        Self::start_with(project, name, session, None)
    }

    fn start_with(project: &CanaryProject, name: &str, session: &str, state: Option<&Path>) -> Self {
        fs::create_dir_all(project.beside(&format!("t/{name}"))).unwrap();
        let agent = project.beside("t/agent.sh").display().to_string();
        let mut command = project.command();
        command.env("T", project.beside("t")).env("BIN", BIN);
        command.envs(state.map(|state| ("XDG_STATE_HOME", state)));
        command.args([
            "--json",
            "-q",
            "run",
            "--share",
            "--role",
            "reviewer",
            "--session",
            session,
            "-r",
            "run",
            "x",
            "--",
        ]);
        command.args(["sh", &agent, name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let run = project.beside(&format!("t/{name}/run"));
        wait_until(&format!("{name} starts"), || run.exists());
        let run = fs::read_to_string(run).unwrap().trim().to_owned();
        Self { name: name.to_owned(), child, run }
    }

    /// Has the agent run a script, and returns its output.
    fn run_script(&self, project: &CanaryProject, number: usize, script: &str) -> String {
        let file = project.beside(&format!("t/{}/{number}.sh", self.name));
        fs::write(file.with_extension("new"), script).unwrap();
        fs::rename(file.with_extension("new"), &file).unwrap();
        let done = file.with_extension("sh.done");
        wait_until("the agent answers", || done.exists());
        fs::read_to_string(done).unwrap()
    }

    fn end(mut self, project: &CanaryProject) -> Value {
        project.write_beside(&format!("t/{}/end", self.name), "");
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.child.wait().unwrap();
        serde_json::from_str(&out).unwrap()
    }
}

/// Returns a script that submits for `run`, with the whole command line of the server.
fn submit_script(
    project: &CanaryProject,
    run: &str,
    session: &str,
    role: &str,
    summary: &str,
    by: &str,
) -> String {
    let (t, path) = (project.beside("t").display().to_string(), project.path().display().to_string());
    format!(
        "sh {t}/messages.sh '{summary}' | {by} {BIN} -C {path} mcp --run {run} --state {}/.local/state/callsheet \
         --session {path}/{session} --role {role}",
        project.beside("home").display()
    )
}

fn is_accepted(answer: &str) -> bool {
    answer.lines().any(|line| line.contains("\"id\":1") && line.contains("\"isError\":false"))
}

fn is_refused(answer: &str) -> bool {
    answer.contains("error[RunRefused]")
}

fn read_reviews(project: &CanaryProject) -> Vec<String> {
    let read = |session: &str| {
        fs::read_to_string(project.path().join(session).join("07_review/review.md")).unwrap_or_default()
    };
    vec![read("one"), read("two")]
}

fn run_outside(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn submission_for_other_run_is_refused() {
    let project = create_project();
    let (one, two) = (Running::start(&project, "a", "one"), Running::start(&project, "b", "two"));
    let home = project.beside("home").display().to_string();
    let evil =
        |session: &str, role: &str, by: &str| submit_script(&project, &two.run, session, role, "EVIL", by);
    let mut tried = 0;
    // From the agent of another run, in many ways.
    let attempts = [
        evil("two", "reviewer", ""),
        evil("two", "reviewer", "env -i"),
        evil("two", "reviewer", "setsid -w"),
        evil("two", "reviewer", "nohup"),
        evil("two", "reviewer", &format!("env CALLSHEET_RUN={} HOME={home}", two.run)),
        evil("one", "reviewer", ""),
        evil("two", "coder", ""),
        evil("two", "planner", ""),
        format!("cp {BIN} $T/copy; {}", evil("two", "reviewer", "").replace(BIN, "$T/copy")),
        format!(
            "({} > $T/orphan.out 2>&1; echo > $T/orphan.end) & while ! [ -e $T/orphan.end ]; do sleep 0.02; done; cat $T/orphan.out",
            evil("two", "reviewer", "setsid")
        ),
    ];
    for (number, attempt) in attempts.iter().enumerate() {
        let answer = one.run_script(&project, number, attempt);
        let no_tool = answer.contains("unknown tool");
        assert!((is_refused(&answer) || no_tool) && !is_accepted(&answer), "{attempt}: {answer}");
        tried += 1;
    }
    // From a process of the user that belongs to no run, and for guessed runs.
    for run in [two.run.clone(), one.run.clone()].into_iter().chain((0..20).map(guess_run_id)) {
        let answer = run_outside(&submit_script(&project, &run, "two", "reviewer", "EVIL", "env T=/"));
        assert!(is_refused(&answer) && !is_accepted(&answer), "{run}: {answer}");
        tried += 1;
    }
    // The run's own agent, in a role or session that is not its own.
    for (number, attempt) in [
        submit_script(&project, &two.run, "two", "coder", "EVIL", ""),
        submit_script(&project, &two.run, "one", "reviewer", "EVIL", ""),
        submit_script(&project, &one.run, "one", "reviewer", "EVIL", ""),
    ]
    .iter()
    .enumerate()
    {
        let answer = two.run_script(&project, number, attempt);
        assert!(!is_accepted(&answer), "{attempt}: {answer}");
        tried += 1;
    }
    // A file that claims a submission.
    let note = json!({ "tool": "submit_review", "sha256": "0", "verdict": "pass", "done": {} });
    for name in ["submitted.jsonl", "submissions", "notes"] {
        project.write_beside(
            &format!("home/.local/state/callsheet/runs/{}/{name}", two.run),
            format!("{note}\n"),
        );
        tried += 1;
    }
    assert_eq!(read_reviews(&project), ["", ""], "nothing is written");
    // The run's own agent submits, also through programs of its own and as an orphan.
    let good =
        two.run_script(&project, 10, &submit_script(&project, &two.run, "two", "reviewer", "Good.", ""));
    assert!(is_accepted(&good), "{good}");
    let again = two.run_script(
        &project,
        11,
        &submit_script(&project, &two.run, "two", "reviewer", "Good.", "env -i setsid -w"),
    );
    assert!(is_accepted(&again), "{again}");
    let last = read_reviews(&project);
    let result = two.end(&project);
    let submitted = result["reply"]["submitted"].as_array().unwrap();
    assert_eq!((submitted.len(), &submitted[0]["tool"]), (1, &json!("submit_review")), "{result}");
    // After the end of the run.
    let run = result["run"].as_str().unwrap();
    let late = one.run_script(&project, 20, &submit_script(&project, run, "two", "reviewer", "LATE", ""));
    assert!(is_refused(&late) && !is_accepted(&late), "{late}");
    assert_eq!(read_reviews(&project), last);
    assert!(last[0].is_empty() && last[1].contains("Good.") && !last[1].contains("EVIL"), "{last:?}");
    assert_eq!(one.end(&project)["reply"]["submitted"], json!([]));
    assert_eq!(tried, 38);
}

/// Returns the id of a run that does not exist.
fn guess_run_id(number: u64) -> String {
    format!("01a1e2ed-827b-77ce-a517-{:012x}", number * 7919 + 1)
}

/// A client of the guard's socket without our program: `$1` is the socket's folder, `$2` the run.
const CLIENT: &str = r#"
import json, os, socket, sys, time
folder, run, session, how = sys.argv[1:5]
os.chdir(folder)
request = {"run": run, "tool": "submit_review", "sha256": "0", "session": session, "role": "reviewer"}
wrong = {"other-role": {"role": "coder"}, "no-role": {"role": None}, "other-session": {"session": "/"}, "other-run": {"run": "x"}}
request.update(wrong.get(how, {}))
ask = json.dumps(request) + "\n"
note = json.dumps({"verdict": "pass", "done": {}}) + "\n"
def talk(s, message):
    s.sendall(message.encode()); return s.makefile().readline().strip()
s = socket.socket(socket.AF_UNIX); s.connect("guard")
if how == "inherit":
    # The process that connected ends; a child of it has the connection.
    if os.fork(): os._exit(0)
    time.sleep(0.3); print(talk(s, ask), flush=True)
elif how == "inherit-late":
    print(talk(s, ask), flush=True)
    if os.fork(): os._exit(0)
    time.sleep(0.3); print(talk(s, note), flush=True)
elif how == "unasked":
    print(talk(s, note), flush=True)
else:
    print(talk(s, ask), flush=True)
"#;

#[test]
fn socket_answers_only_its_agent() {
    if Command::new("python3").arg("--version").output().is_err() {
        return not_tested("raw connections to a guard: python3 is not installed");
    }
    use std::os::unix::fs::PermissionsExt as _;
    let project = create_project();
    let (one, two) = (Running::start(&project, "a", "one"), Running::start(&project, "b", "two"));
    project.write_beside("t/client.py", CLIENT);
    let folder = project.beside(&format!("home/.local/state/callsheet/runs/{}", two.run));
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let client = |how: &str| {
        let session = project.path().join("two").display().to_string();
        format!(
            "python3 {}/client.py {} {} {session} {how}; sleep 1",
            project.beside("t").display(),
            folder.display(),
            two.run
        )
    };
    // The judge can fail: the agent itself gets a yes.
    assert_eq!(two.run_script(&project, 0, &client("ask")), "\"yes\"\n");
    for (number, how) in ["inherit", "inherit-late", "unasked"].into_iter().enumerate() {
        let answer = two.run_script(&project, number + 1, &client(how));
        assert!(!answer.contains("noted"), "{how}: {answer}");
        assert_eq!(answer.contains("yes"), how == "inherit-late", "{how}: {answer}");
    }
    for (number, how) in ["other-role", "no-role", "other-session", "other-run"].into_iter().enumerate() {
        let answer = two.run_script(&project, number + 4, &client(how));
        assert!(answer.starts_with("{\"no\":"), "{how}: {answer}");
    }
    for (number, how) in ["ask", "inherit", "unasked"].into_iter().enumerate() {
        let answer = one.run_script(&project, number, &client(how));
        assert!(!answer.contains("yes") && !answer.contains("noted"), "{how}: {answer}");
        assert!(!run_outside(&client(how)).contains("yes"), "{how}");
    }
    // A socket of another process in place of the guard's: our server does not believe it.
    let fake = format!(
        "cd {}; rm -f guard; python3 -c \"import socket
s = socket.socket(socket.AF_UNIX); s.bind('guard'); s.listen()
while True:
    c, _ = s.accept(); c.sendall(b'\\\"yes\\\"\\n'); c.recv(9999); c.sendall(b'\\\"noted\\\"\\n')\" > /dev/null 2>&1 &
     while ! [ -e guard ]; do sleep 0.02; done",
        folder.display()
    );
    one.run_script(&project, 10, &fake);
    let by_fake =
        one.run_script(&project, 11, &submit_script(&project, &two.run, "two", "reviewer", "EVIL", ""));
    assert!(is_refused(&by_fake) && !is_accepted(&by_fake), "{by_fake}");
    // Without the socket, the run itself cannot submit either.
    fs::remove_file(folder.join("guard")).unwrap();
    let deleted =
        two.run_script(&project, 12, &submit_script(&project, &two.run, "two", "reviewer", "Good.", ""));
    assert!(is_refused(&deleted) && !is_accepted(&deleted), "{deleted}");
    assert_eq!(read_reviews(&project), ["", ""]);
    assert_eq!(two.end(&project)["reply"]["submitted"], json!([]));
    one.end(&project);
}

#[test]
fn long_state_path_has_socket() {
    let project = create_project();
    let long = project.beside(&format!("home/{}", "long/".repeat(40)));
    fs::create_dir_all(&long).unwrap();
    let one = Running::start_with(&project, "a", "one", Some(&long));
    let usual = project.beside("home/.local/state").display().to_string();
    let script = submit_script(&project, &one.run, "one", "reviewer", "Good.", "");
    let answer = one.run_script(&project, 0, &script.replace(&usual, &long.display().to_string()));
    assert!(is_accepted(&answer), "{answer}");
    assert_eq!(one.end(&project)["reply"]["submitted"][0]["verdict"], "pass");
}
