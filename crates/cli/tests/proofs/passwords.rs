//! Passwords of a ledger: no program that callsheet starts gets them, and no output shows them.

use std::fs;
use std::process::Command;

use callsheet_core::secrets::{mask_address, mask_address_in};
use callsheet_testing::run_command;

use crate::project::CanaryProject;
use crate::{is_long, not_tested};

/// Text that is part of every password and of nothing else.
const CORE: &str = "zq9Xv7";

/// A generator of numbers that are the same in every run.
struct Choices(u64);

impl Choices {
    fn next(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.next(items.len())]
    }
}

/// Characters around the core, as people write and encode them.
const PARTS: [&str; 22] = [
    "", "a", "1", "-", "_", ".", "~", "!", "*", "$", "+", "%40", "%3A", "%2F", "%25", "%20", "é", "%C3%A9",
    "(", ")", ",", "^",
];
/// Characters that must be encoded in a URL, which people forget.
const RAW: [&str; 6] = ["/", "?", "#", "@", ":", "%"];

fn generate_password(choices: &mut Choices, parts: &[&str]) -> String {
    let mut password = String::new();
    for _ in 0..choices.next(4) {
        password += choices.pick(parts);
    }
    password += CORE;
    for _ in 0..choices.next(4) {
        password += choices.pick(parts);
    }
    password
}

/// Generates an address with a password in one of the possible places.
fn generate_address(choices: &mut Choices) -> String {
    let (plain, raw) = (PARTS.to_vec(), [&PARTS[..], &RAW[..]].concat());
    let scheme = choices.pick(&["postgres", "postgresql"]);
    let host = choices.pick(&["h", "db.example.org:5432", "[::1]:5432", "a:1,b:2", "%2Fvar%2Frun"]);
    let before =
        choices.pick(&["", "sslmode=disable&", "user=me&application_name=x&", "options=-c%20a%3Db&"]);
    let after = choices.pick(&["", "&sslmode=require", "&connect_timeout=3&user=me"]);
    let key = choices.pick(&["password", "sslpassword", "PASSWORD", "passWord", "%70assword", "pass%77ord"]);
    match choices.next(6) {
        0 => format!("{scheme}://u:{}@{host}/db", generate_password(choices, &raw)),
        1 => format!("{scheme}://:{}@{host}/db?sslmode=disable", generate_password(choices, &plain)),
        2 => format!("{scheme}://u@{host}/db?{before}{key}={}{after}", generate_password(choices, &plain)),
        3 => {
            let first = generate_password(choices, &plain);
            format!("{scheme}://u:{first}@{host}/db?{key}={}{after}", generate_password(choices, &plain))
        }
        4 => format!("host=h {key}={} dbname=d user=u", generate_password(choices, &plain)),
        _ => format!("host=h {key} = '{} {}' dbname=d", generate_password(choices, &plain), CORE),
    }
}

#[test]
fn generated_addresses_show_no_password() {
    let count = if is_long() { 1_000_000 } else { 20_000 };
    let mut choices = Choices(1);
    for _ in 0..count {
        let address = generate_address(&mut choices);
        assert!(address.contains(CORE));
        let shown = mask_address(&address);
        assert!(!shown.contains(CORE), "{address}: {shown}");
        let text = format!("`{address}` fails: {address:?}; {}", address.replace('%', "%25"));
        let error = mask_address_in(&format!("PostgreSQL: cannot use `{address}`: {address:?}"), &address);
        assert!(!error.contains(CORE), "{text}: {error}");
    }
    for plain in ["postgres://u@h:5432/db?sslmode=disable", "postgres://h/db", "/a/b.db", "sqlite:x.db"] {
        assert_eq!(mask_address(plain), plain);
    }
}

#[test]
fn commands_show_no_password() {
    let mut choices = Choices(2);
    let project = CanaryProject::new();
    for number in 0..12 {
        let address = generate_address(&mut choices);
        // Nothing listens at this address, so the errors of the driver are shown as well.
        let address = address.replace("db.example.org:5432", "127.0.0.1:1").replace("//h", "//127.0.0.1:1");
        let of_project = format!("ledger = {address:?}\n");
        project.write(".callsheet/config.toml", if number % 3 == 0 { of_project.as_str() } else { "" });
        let commands: [&[&str]; 7] = [
            &["config", "show"],
            &["config", "show", "--json"],
            &["log"],
            &["-v", "--json", "status"],
            &["trust", "--show"],
            &["trust", "--yes", "--json"],
            &["-v", "show", "last"],
        ];
        for args in commands {
            let mut command = project.command();
            match number % 3 {
                0 => drop(command.args(args)),
                1 => drop(command.env("CALLSHEET_LEDGER", &address).args(args)),
                _ => drop(command.arg("--ledger").arg(&address).args(args)),
            }
            let output = run_command(&mut command);
            let shown = format!("{}{}", output.out(), output.err());
            assert!(!shown.contains(CORE), "{address} {args:?}: {shown}");
        }
    }
}

/// Connection options in libpq's notation are not a file name: no file is created, and no part of them is
/// shown.
#[test]
fn libpq_options_are_not_file_name() {
    let project = CanaryProject::new();
    let spelled = [
        format!("host=h password={CORE} dbname=d"),
        format!("password={CORE}"),
        format!("PASSWORD={CORE} HOST=h"),
        format!("dbname=d password = '{CORE} {CORE}'"),
        format!("  user=u  password='{CORE}'"),
        format!("sqlite:host=h password={CORE}"),
        format!("service=s sslpassword={CORE}"),
        format!("postgres:host=h {CORE}"),
        format!("postgresql:{CORE}@h/db"),
    ];
    for address in &spelled {
        for args in
            [&["log"][..], &["--json", "status"], &["compose", "--record", "x"], &["run", "x", "--", "true"]]
        {
            for is_flag in [true, false] {
                let mut command = project.command();
                if is_flag {
                    command.arg("--ledger").arg(address);
                } else {
                    command.env("CALLSHEET_LEDGER", address);
                }
                let output = run_command(command.args(args));
                let shown = format!("{}{}", output.out(), output.err());
                assert_eq!(output.code, Some(2), "{address} {args:?}: {shown}");
                assert!(!shown.contains(CORE), "{address} {args:?}: {shown}");
                assert!(shown.contains("postgres://USER:…@HOST"), "{address} {args:?}: {shown}");
            }
        }
    }
    assert_eq!(fs::read_dir(project.path()).unwrap().count(), 0);
    // A file with such a name can still be specified.
    assert_eq!(project.run(["-q", "--ledger", "./host=h", "compose", "--record", "x"]).code, Some(0));
    assert!(project.path().join("host=h").exists());
}

/// A mistake in the command line or in a file shows the place, and no password.
#[test]
fn mistakes_show_no_password() {
    let project = CanaryProject::new();
    let address = format!("postgres://u:{CORE}@h/db?password={CORE}");
    let commands: [&[&str]; 6] = [
        &["log", &address],
        &["--json", "log", &address],
        &[&address, "log"],
        &["show", &address],
        &["--ledger", "x", "--ledger", &address, "log"],
        &["--ledger", &format!("mysql://u:{CORE}@h/db"), "log"],
    ];
    for args in commands {
        let output = project.run(args);
        let shown = format!("{}{}", output.out(), output.err());
        assert!(output.code != Some(0) && !shown.contains(CORE), "{args:?}: {shown}");
    }
    for text in [format!("ledger = {address}\n"), format!("ledger = \"{address}\"\nledger = 1\n")] {
        project.write(".callsheet/config.toml", &text);
        let output = project.run(["log"]);
        assert!(output.code == Some(3) && !output.err().contains(CORE), "{text}: {}", output.err());
    }
}

#[test]
fn doctor_checks_configured_ledger() {
    let project = CanaryProject::new();
    let row = |args: &[&str]| -> (Option<i32>, String, String) {
        let output =
            run_command(project.command().env("PATH", "/usr/bin:/bin").args(args).args(["--json", "doctor"]));
        assert!(
            !output.out().contains(CORE) && !output.err().contains(CORE),
            "{}{}",
            output.out(),
            output.err()
        );
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let row =
            rows["items"].as_array().unwrap().iter().find(|row| row["name"] == "ledger").unwrap().clone();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (output.code, text("state"), text("detail"))
    };
    let (_, state, detail) = row(&[]);
    assert_eq!(state, "absent", "{detail}");
    assert_eq!(project.run(["-q", "compose", "--record", "-r", "run", "x"]).code, Some(0));
    let records = |project: &CanaryProject| project.run(["export"]).out().lines().count();
    let before = records(&project);
    let (_, state, detail) = row(&[]);
    assert!(state == "good" && detail.contains("1 record,"), "{detail}");
    assert_eq!(records(&project), before, "doctor leaves no record");
    fs::write(project.beside("broken.db"), "no database at all, and long enough to be looked at").unwrap();
    let broken = project.beside("broken.db").display().to_string();
    assert_eq!(row(&["--ledger", &broken]).1, "bad");
    let (code, state, detail) =
        row(&["--ledger", &format!("postgres://u:{CORE}@127.0.0.1:1/db?password={CORE}")]);
    assert_eq!((code, state.as_str()), (Some(1), "bad"), "{detail}");
    assert!(detail.contains("postgres://u:…@127.0.0.1:1/db"), "{detail}");
}

#[test]
fn programs_get_no_password() {
    let project = CanaryProject::new();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(project.path()).args(["-c", "user.name=T", "-c", "user.email=t@t"]).args(args);
        assert!(git.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap().success());
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    let ledger = format!("{}?password={CORE}", project.beside("ledger.db").display());
    // Everything that a process below the agent can see: the variables and command lines of itself and of the
    // processes that callsheet started.
    let look = "env; tr '\\0' '\\n' < /proc/self/environ; p=$$; \
                while [ \"$p\" != \"$OURS\" ] && [ \"$p\" -gt 1 ]; do \
                tr '\\0' '\\n' < /proc/$p/environ; tr '\\0' '\\n' < /proc/$p/cmdline; \
                n=$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f2); \
                case \"$(tr '\\0' ' ' < /proc/$n/cmdline)\" in *' run '*) break;; esac; p=$n; done; echo looked";
    project.write_beside("look.sh", look);
    let script = project.beside("look.sh").display().to_string();
    let mut command = project.command();
    command.env("CALLSHEET_LEDGER", &ledger).args(["--json", "-q", "run", "-r", "run"]);
    let output =
        run_command(command.args(["--check", &format!("look=sh {script}"), "x", "--", "sh", &script]));
    assert_eq!(output.code, Some(0), "{} {}", output.out(), output.err());
    let mut show = project.command();
    show.env("CALLSHEET_LEDGER", &ledger).args(["show", "last", "--records", "--json"]);
    let records = run_command(&mut show).out();
    assert!(records.matches("looked").count() >= 2, "{records}");
    assert!(!records.contains(CORE), "{records}");
    if Command::new("tmux").arg("-V").output().is_err() {
        return not_tested("the environment of a terminal: tmux is not installed");
    }
    let out = project.beside("pane.out").display().to_string();
    project.write_beside("pane.sh", format!("sh {script} > {out}.new 2>&1; mv {out}.new {out}\necho ready\nprintf '> '\nread -r line\nprintf '\\033[2J\\033[H'\nsleep 600\n"));
    let pane = project.beside("pane.sh").display().to_string();
    project.write_beside(
        "home/.config/callsheet/agents/shell.toml",
        format!(
            "name = \"Shell\"\n[start]\nprogram = \"sh\"\nargs = [\"{pane}\"]\n[prompt]\nby = [\"terminal\"]\n\
             [terminal]\nargs = [\"{pane}\"]\nready = [\"ready\"]\ncomposer = \">\"\nsettle_ms = 200\n"
        ),
    );
    let mut command = project.command();
    command
        .env("CALLSHEET_LEDGER", &ledger)
        .env("TMUX_TMPDIR", project.beside(""))
        .args(["-q", "run", "-a", "shell"]);
    let typed = run_command(command.args(["--terminal", "x"]));
    assert_eq!(typed.code, Some(0), "{} {}", typed.out(), typed.err());
    let mut stop = project.command();
    stop.env("CALLSHEET_LEDGER", &ledger).env("TMUX_TMPDIR", project.beside("")).args(["stop", "last"]);
    assert_eq!(run_command(&mut stop).code, Some(0));
    let seen = fs::read_to_string(&out).unwrap();
    assert!(seen.contains("looked") && !seen.contains(CORE), "{seen}");
}
