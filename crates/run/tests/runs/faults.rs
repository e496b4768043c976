//! Tests that an agent's input, output and end are reported as they were, whatever it does.

use std::time::Duration;

use callsheet_core::request::fact::EndReason::{Exited, Signaled, Stopped, Timeout};
use callsheet_run::{
    MAX_RECORD_BYTES, OutputStream, ProcessEvent, ProcessJob, ProcessLimits, StartError, run_process,
};

use crate::support::{AGENT, job, run, run_agent, run_agent_within};

#[test]
fn output_is_split_by_line_stream() {
    let ran = run_agent(&["say", "one", "talk", "two", "say", "", "say-part", "three", "exit", "3"]);
    assert_eq!(ran.ended(), (Exited, Some(3), None));
    assert_eq!((ran.out().as_str(), ran.text(OutputStream::Stderr).as_str()), ("one\n\nthree\n", "two\n"));
    assert!(matches!(ran.events[0], ProcessEvent::Started { .. }));
}

#[test]
fn stdin_is_complete_and_closed() {
    let stdin = "{{x}} $HOME `id`\r\n\té\0\u{1b}".repeat(50_000).into_bytes();
    let ran = run(&ProcessJob { stdin: stdin.clone(), ..job(&["read"]) });
    assert_eq!(ran.out(), format!("read {} bytes\n", stdin.len()));
    // Without input, reading ends at once.
    assert_eq!(run_agent(&["read"]).out(), "read 0 bytes\n");
}

#[test]
fn unread_stdin_does_not_block_child() {
    let stdin = vec![b'x'; 4 << 20];
    let never = run(&ProcessJob { stdin: stdin.clone(), ..job(&["say", "busy"]) });
    assert_eq!((never.ended(), never.out().as_str()), ((Exited, Some(0), None), "busy\n"));
    let closes = ["sh", "-c", "exec <&-; echo closed; sleep 0.1; exit 4"].map(str::to_owned).to_vec();
    let closed = run(&ProcessJob { stdin: stdin.clone(), argv: closes, ..job(&[]) });
    assert_eq!((closed.ended(), closed.out().as_str()), ((Exited, Some(4), None), "closed\n"));
    // Unread input does not prevent a stop either.
    let limits = ProcessLimits { deadline: Some(Duration::from_millis(300)), ..ProcessLimits::default() };
    let hung = run(&ProcessJob { stdin, limits, ..job(&["sleep", "60000"]) });
    assert_eq!(hung.ended(), (Timeout, None, Some(15)));
}

#[test]
fn silent_agent_reports_exit_zero() {
    let ran = run_agent(&[]);
    assert_eq!((ran.ended(), ran.out().as_str(), ran.events.len()), ((Exited, Some(0), None), "", 1));
}

#[test]
fn claimed_success_keeps_exit_code() {
    let ran = run_agent(&["say", "{\"type\":\"result\",\"is_error\":false}", "exit", "1"]);
    assert_eq!(ran.ended(), (Exited, Some(1), None));
}

#[test]
fn huge_line_becomes_bounded_records() {
    // In a process of its own, so that only its memory is counted.
    let ran = run_agent(&["run-job", "line-of 100000000 say end"]);
    let out = ran.out();
    let words: Vec<&str> = out.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<usize>().unwrap();
    let (most, told, left_out, peak_kb) = (number(1), number(2), number(3), number(4));
    assert_eq!((words[0], most, told + left_out), ("Exited", MAX_RECORD_BYTES, 100_000_003));
    let limits = ProcessLimits::default();
    assert!(told <= limits.head_bytes + limits.tail_bytes, "{told}");
    assert!(peak_kb < 50_000, "{peak_kb} kB");
}

#[test]
fn endless_output_keeps_its_end() {
    let limits = ProcessLimits {
        deadline: Some(Duration::from_millis(500)),
        grace: Duration::from_millis(300),
        head_bytes: 1000,
        tail_bytes: 160,
    };
    let ran = run(&ProcessJob { limits, ..job(&["for-ever"]) });
    assert_eq!(ran.ended(), (Timeout, None, Some(15)));
    let kinds: Vec<usize> = ran
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| matches!(event, ProcessEvent::LeftOut { .. }))
        .map(|(at, _)| at)
        .collect();
    // 62 lines of 16 bytes, the count of omitted bytes, and the last 10 lines, of which one may be truncated.
    assert_eq!(kinds, [63]);
    assert!((73..=75).contains(&ran.events.len()), "{}", ran.events.len());
}

#[test]
fn long_output_omits_only_middle() {
    let limits = ProcessLimits { head_bytes: 10, tail_bytes: 100, ..job(&[]).limits };
    let ran = run(&ProcessJob {
        limits,
        ..job(&["say", "first", "line-of", "200000", "say", "{\"type\":\"result\"}"])
    });
    assert_eq!(
        ran.events[1..],
        [
            ProcessEvent::Output {
                stream: OutputStream::Stdout,
                text: "first".into(),
                goes_on: false,
                replaced: false
            },
            ProcessEvent::LeftOut { stream: OutputStream::Stdout, bytes: 200_001 },
            ProcessEvent::Output {
                stream: OutputStream::Stdout,
                text: "{\"type\":\"result\"}".into(),
                goes_on: false,
                replaced: false
            },
        ]
    );
    let whole = format!("first\n{}\n{{\"type\":\"result\"}}\n", "x".repeat(200_000));
    assert_eq!(ran.printed, whole.as_bytes());
}

#[test]
fn non_utf8_output_is_marked_replaced() {
    let ran = run_agent(&["bytes", "97,255,98,10,195,169,10"]);
    let output = |text: &str, replaced| ProcessEvent::Output {
        stream: OutputStream::Stdout,
        text: text.into(),
        goes_on: false,
        replaced,
    };
    assert_eq!(ran.events[1..], [output("a\u{fffd}b", true), output("é", false)]);
}

#[test]
fn character_at_record_edge_stays_whole() {
    let ran = run_agent(&["say-part", &"x".repeat(MAX_RECORD_BYTES - 1), "say", "éy"]);
    let records: Vec<(usize, bool, bool)> = ran
        .events
        .iter()
        .filter_map(|event| match event {
            ProcessEvent::Output { text, goes_on, replaced, .. } => Some((text.len(), *goes_on, *replaced)),
            _ => None,
        })
        .collect();
    assert_eq!(records, [(MAX_RECORD_BYTES - 1, true, false), (3, false, false)]);
}

#[test]
fn nul_and_escape_bytes_are_kept() {
    let ran = run_agent(&["bytes", "0,27,91,50,74,13,10,10"]);
    assert_eq!(ran.out(), "\0\u{1b}[2J\n\n");
}

#[test]
fn deadline_ends_hanging_child() {
    assert_eq!(run_agent_within(200, &["sleep", "60000"]).ended(), (Timeout, None, Some(15)));
    let after_result = run_agent_within(300, &["say", "{\"type\":\"result\"}", "sleep", "60000"]);
    assert_eq!(
        (after_result.ended(), after_result.out().as_str()),
        ((Timeout, None, Some(15)), "{\"type\":\"result\"}\n")
    );
}

#[test]
fn child_ignoring_sigterm_is_killed() {
    let ran = run_agent_within(500, &["ignore-term", "say", "no", "sleep", "60000"]);
    assert_eq!((ran.ended(), ran.out().as_str()), ((Timeout, None, Some(9)), "no\n"));
}

#[test]
fn exit_code_after_sigterm_is_timeout() {
    // A shell that catches the signal ends by itself, with a code of its own.
    let mut job = job(&[]);
    job.argv =
        vec!["sh".into(), "-c".into(), "trap 'exit 7' TERM; echo on; while :; do sleep 0.05; done".into()];
    job.limits.deadline = Some(Duration::from_millis(400));
    assert_eq!(run(&job).ended(), (Timeout, Some(7), None));
}

#[test]
fn another_thread_can_stop_process() {
    let job = job(&["say", "on", "sleep", "60000"]);
    let stop = job.stop.clone();
    let mut events = Vec::new();
    let exit = run_process(&job, &mut |event| {
        if matches!(event, ProcessEvent::Output { .. }) {
            stop.stop();
        }
        events.push(event);
    });
    let exit = exit.unwrap();
    assert_eq!((exit.ended, exit.code, exit.signal), (Stopped, None, Some(15)));
    // A stop before the start counts as well.
    let ran = run(&job);
    assert_eq!(ran.exit.ended, Stopped);
}

#[test]
fn ending_signal_is_reported() {
    assert_eq!(run_agent(&["kill-self"]).ended(), (Signaled, None, Some(9)));
    assert_eq!(run_agent(&["abort"]).ended(), (Signaled, None, Some(6)));
}

#[test]
fn child_with_closed_streams_is_awaited() {
    let mut job = job(&[]);
    job.argv = vec!["sh".into(), "-c".into(), "echo on; exec >&- 2>&-; sleep 0.3; exit 5".into()];
    let ran = run(&job);
    assert_eq!((ran.ended(), ran.out().as_str()), ((Exited, Some(5), None), "on\n"));
}

#[test]
fn child_has_own_environment_no_terminal() {
    let mut job = job(&["env", "CALLSHEET_RUN", "env", "PWD", "cwd"]);
    job.env = [("CALLSHEET_RUN".to_owned(), "r 1\n$x".to_owned())].into();
    let dir = tempfile::tempdir().unwrap();
    job.cwd = dir.path().canonicalize().unwrap();
    let cwd = job.cwd.display();
    assert_eq!(run(&job).out(), format!("Some(\"r 1\\n$x\")\nSome(\"{cwd}\")\n{cwd}\n"));
    job.argv = vec![
        "sh".into(),
        "-c".into(),
        "test -c /dev/tty && (: < /dev/tty) 2>/dev/null && echo terminal || echo none".into(),
    ];
    assert_eq!(run(&job).out(), "none\n");
}

#[test]
fn unstartable_program_returns_reason() {
    let failed = |argv: &[&str], cwd: &str| {
        let job =
            ProcessJob { argv: argv.iter().map(ToString::to_string).collect(), cwd: cwd.into(), ..job(&[]) };
        run_process(&job, &mut |event| panic!("{event:?}")).unwrap_err()
    };
    assert!(matches!(failed(&["no-such-program"], "/"), StartError::NotFound(_)));
    assert!(matches!(failed(&[AGENT], "/no/such/folder"), StartError::NotFound(_)));
    assert!(matches!(failed(&["/etc/passwd"], "/"), StartError::Other(_)));
    assert!(matches!(failed(&[], "/"), StartError::Other(_)));
}

#[test]
fn arguments_arrive_without_shell() {
    let hostile = [
        "$(touch x)",
        "`id`",
        "; rm x",
        "| cat",
        "&& x",
        "> x",
        "a b",
        "x\ny",
        "'",
        "\"",
        "\\",
        "--",
        "-p",
        "@/etc/passwd",
        "*",
        "~",
        "",
        "\u{1b}[201~\r",
        "é",
        "${HOME}",
    ];
    let mut words = vec!["argv", "exit", "0"];
    words.extend(hostile);
    let ran = run_agent(&words);
    assert_eq!(ran.out(), format!("{words:?}\n"));
}
