//! A day of an operator: twenty runs, three failures, a violation, a revert, and a flow with a question. The operator knows only
//! what the terminal shows, and types the commands that it offers.

use callsheet_testing::CommandOutput;

use crate::explained_waits::type_command;
use crate::project::FlowProject;
use crate::rounds::run_before_agent;

struct OperatorDay {
    project: FlowProject,
}

impl OperatorDay {
    /// Gives an agent a task, and returns the page.
    fn run(&self, task: &str, flags: &[&str], script: &str) -> CommandOutput {
        let start = ["run", "-q", "--task-id", task, "--write", "src/**"];
        let words = [&start[..], flags, &["Do the work of today", "--", "sh", "-c", script]].concat();
        self.project.run(words)
    }

    /// Types the first command of a page that contains these words.
    fn type_offered(&self, page: &str, words: &str) -> CommandOutput {
        let offered = page.lines().skip_while(|line| *line != "next:").skip(1);
        let commands = offered.filter_map(|line| line.trim_start().split("  ").next());
        let command = commands.into_iter().find(|command| command.contains(words));
        assert!(command.is_some(), "no `{words}` in:\n{page}");
        type_command(&self.project, command.unwrap_or_default())
    }

    /// Returns the lines of a list, without its head.
    fn list(&self, args: &[&str]) -> Vec<String> {
        let page = self.project.run(args).expect_code(0).out();
        page.lines().skip(1).map(str::to_owned).collect()
    }
}

/// Returns the name of the run in the headline of a page.
fn run_name(page: &str) -> &str {
    page.strip_prefix("run ").and_then(|rest| rest.split(' ').next()).unwrap()
}

#[test]
fn terminal_leads_through_operators_day() {
    let day = OperatorDay { project: FlowProject::new("quick.sh") };
    for number in 1..=13 {
        let script = format!("echo {number} > src/{number}.txt");
        let ran = day.run(&format!("D-{number}"), &["--check", "ok=true"], &script).expect_code(0);
        assert!(ran.out().starts_with(&format!("run r{number}  succeeded\n")), "{}", ran.out());
    }
    // The check fails; the page shows its end, and the retry succeeds.
    let script = "if [ -e src/one ]; then touch src/two; else touch src/one; fi";
    let failed = day.run("T-check", &["--check", "two=ls src/two"], script).expect_code(1).out();
    assert!(failed.contains("  failed checks\n") && failed.contains("No such file or directory"), "{failed}");
    let retried = day.type_offered(&failed, "callsheet retry").expect_code(0).out();
    assert!(retried.contains("  succeeded\n"), "{retried}");
    // The agent fails; the page shows the end of its errors.
    let failed = day.run("T-agent", &[], "echo 'no key is set' >&2; exit 3").expect_code(6).out();
    assert!(failed.contains("agent failed: exit code 3") && failed.contains("│ no key is set"), "{failed}");
    let stderr = day.type_offered(&failed, "--stream stderr").expect_code(0).out();
    assert_eq!(stderr, "no key is set\n");
    // The agent takes too long.
    let late = day.run("T-late", &["--timeout", "1s"], "sleep 60").expect_code(7).out();
    assert!(late.contains("  timed out: after 1 s\n"), "{late}");
    // A change outside of the scope is seen, shown and taken back.
    let script = "echo good > src/good.txt; echo bad > leaked.txt";
    let leaked = day.run("T-leak", &["--check", "ok=true"], script).expect_code(5).out();
    assert!(
        leaked.contains("  out of scope\n") && leaked.contains("violation  leaked.txt (pending)"),
        "{leaked}"
    );
    assert!(day.type_offered(&leaked, "--diff").expect_code(0).out().contains("+bad\n"));
    day.type_offered(&leaked, "callsheet revert").expect_code(0);
    assert!(!day.project.path().join("leaked.txt").exists());
    assert_eq!(day.project.read("src/good.txt"), "good\n");
    // The list of open tasks leads to the decision.
    let open = day.list(&["status"]);
    let leak = open.iter().find(|line| line.starts_with("T-leak ")).unwrap();
    assert!(leak.contains("callsheet decide"), "{leak}");
    let command = &leak[leak.find("callsheet decide").unwrap()..];
    type_command(&day.project, command).expect_code(0);
    let open = day.list(&["status"]);
    assert!(open.iter().any(|line| line.starts_with("T-late ") && line.contains("timed out")), "{open:#?}");
    type_command(&day.project, "callsheet task close T-late --yes").expect_code(0);
    assert!(!day.list(&["status"]).iter().any(|line| line.starts_with("T-late ")));
    // A flow asks, gets its answer, and ends.
    let asks = "case \"$CALLSHEET_PHASE\" in\nplan) if mkdir \"$MEET_AT/asked\" 2> /dev/null; then \
                cat > /dev/null; echo '<question>Which database?</question>'; exit 0; fi ;;\nesac";
    run_before_agent(&day.project, asks);
    let agent = day.project.agent().to_str().unwrap().to_owned();
    let waits =
        day.project.run(["-q", "flow", "start", "sdd", "Add a login", "--", &agent]).expect_code(1).out();
    assert!(waits.contains("asks: Which database?"), "{waits}");
    let done = day.type_offered(&waits, "flow decide answer");
    assert_eq!(done.code, Some(0), "{} {}", done.out(), done.err());
    assert_eq!(day.project.run(["flow", "status"]).expect_code(0).out(), "");
    // In the evening: every run of the day, and the failures among them.
    let all = day.list(&["log", "--all"]);
    assert!(all.len() >= 20, "{all:#?}");
    let failures = day.list(&["log", "--failed", "--since", "today"]);
    let outcome = |words: &str| failures.iter().filter(|line| line.contains(words)).count();
    assert_eq!(
        (outcome("failed checks"), outcome("agent failed"), outcome("timed out")),
        (1, 1, 1),
        "{failures:#?}"
    );
    let late = day.project.run(["show", run_name(&late)]).expect_code(0).out();
    assert!(late.contains("timed out"), "{late}");
    let stats = day.project.run(["stats", "--by", "agent"]).expect_code(0).out();
    assert!(stats.lines().count() > 2, "{stats}");
    day.project.run(["verify", "--all"]).expect_code(0);
}
