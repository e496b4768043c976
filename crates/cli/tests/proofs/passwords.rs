//! Passwords of a ledger: no program that callsheet starts gets them, and no output shows them.

use std::fs;
use std::process::Command;

use callsheet_core::secrets::{mask_address, mask_address_in};

use crate::world::{World, run_to_end};
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
    let world = World::new();
    for number in 0..12 {
        let address = generate_address(&mut choices);
        // Nothing listens at this address, so the errors of the driver are shown as well.
        let address = address.replace("db.example.org:5432", "127.0.0.1:1").replace("//h", "//127.0.0.1:1");
        let of_project = format!("ledger = {address:?}\n");
        world.write(".callsheet/config.toml", if number % 3 == 0 { of_project.as_str() } else { "" });
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
            let mut command = world.command();
            match number % 3 {
                0 => drop(command.args(args)),
                1 => drop(command.env("CALLSHEET_LEDGER", &address).args(args)),
                _ => drop(command.arg("--ledger").arg(&address).args(args)),
            }
            let said = run_to_end(&mut command);
            let shown = format!("{}{}", said.out(), said.err());
            assert!(!shown.contains(CORE), "{address} {args:?}: {shown}");
        }
    }
}

/// Connection options in libpq's notation are not a file name: no file is created, and no part of them is
/// shown.
#[test]
fn libpq_options_are_not_file_name() {
    let world = World::new();
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
                let mut command = world.command();
                if is_flag {
                    command.arg("--ledger").arg(address);
                } else {
                    command.env("CALLSHEET_LEDGER", address);
                }
                let said = run_to_end(command.args(args));
                let shown = format!("{}{}", said.out(), said.err());
                assert_eq!(said.code, Some(2), "{address} {args:?}: {shown}");
                assert!(!shown.contains(CORE), "{address} {args:?}: {shown}");
                assert!(shown.contains("postgres://USER:…@HOST"), "{address} {args:?}: {shown}");
            }
        }
    }
    assert_eq!(fs::read_dir(&world.project).unwrap().count(), 0);
    // A file with such a name can still be specified.
    assert_eq!(world.run(&["-q", "--ledger", "./host=h", "compose", "--record", "x"]).code, Some(0));
    assert!(world.project.join("host=h").exists());
}

/// A mistake in the command line or in a file shows the place, and no password.
#[test]
fn mistakes_show_no_password() {
    let world = World::new();
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
        let said = world.run(args);
        let shown = format!("{}{}", said.out(), said.err());
        assert!(said.code != Some(0) && !shown.contains(CORE), "{args:?}: {shown}");
    }
    for text in [format!("ledger = {address}\n"), format!("ledger = \"{address}\"\nledger = 1\n")] {
        world.write(".callsheet/config.toml", &text);
        let said = world.run(&["log"]);
        assert!(said.code == Some(3) && !said.err().contains(CORE), "{text}: {}", said.err());
    }
}

#[test]
fn doctor_checks_configured_ledger() {
    let world = World::new();
    let row = |args: &[&str]| -> (Option<i32>, String, String) {
        let said =
            run_to_end(world.command().env("PATH", "/usr/bin:/bin").args(args).args(["--json", "doctor"]));
        assert!(!said.out().contains(CORE) && !said.err().contains(CORE), "{}{}", said.out(), said.err());
        let rows: serde_json::Value = serde_json::from_slice(&said.out).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "ledger").unwrap().clone();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (said.code, text("state"), text("detail"))
    };
    let (_, state, detail) = row(&[]);
    assert_eq!(state, "absent", "{detail}");
    assert_eq!(world.run(&["-q", "compose", "--record", "-r", "run", "x"]).code, Some(0));
    let records = |world: &World| world.run(&["export"]).out().lines().count();
    let before = records(&world);
    let (_, state, detail) = row(&[]);
    assert!(state == "good" && detail.contains("1 records"), "{detail}");
    assert_eq!(records(&world), before, "doctor leaves no record");
    fs::write(world.at("broken.db"), "no database at all, and long enough to be looked at").unwrap();
    let broken = world.at("broken.db").display().to_string();
    assert_eq!(row(&["--ledger", &broken]).1, "bad");
    let (code, state, detail) =
        row(&["--ledger", &format!("postgres://u:{CORE}@127.0.0.1:1/db?password={CORE}")]);
    assert_eq!((code, state.as_str()), (Some(1), "bad"), "{detail}");
    assert!(detail.contains("postgres://u:…@127.0.0.1:1/db"), "{detail}");
}

#[test]
fn programs_get_no_password() {
    let world = World::new();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&world.project).args(["-c", "user.name=T", "-c", "user.email=t@t"]).args(args);
        assert!(git.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap().success());
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    let ledger = format!("{}?password={CORE}", world.at("ledger.db").display());
    // Everything that a process below the agent can see: the variables and command lines of itself and of the
    // processes that callsheet started.
    let look = "env; tr '\\0' '\\n' < /proc/self/environ; p=$$; \
                while [ \"$p\" != \"$OURS\" ] && [ \"$p\" -gt 1 ]; do \
                tr '\\0' '\\n' < /proc/$p/environ; tr '\\0' '\\n' < /proc/$p/cmdline; \
                n=$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f2); \
                case \"$(tr '\\0' ' ' < /proc/$n/cmdline)\" in *' run '*) break;; esac; p=$n; done; echo looked";
    world.put("look.sh", look);
    let script = world.at("look.sh").display().to_string();
    let mut command = world.command();
    command.env("CALLSHEET_LEDGER", &ledger).args(["--json", "-q", "run", "-r", "run"]);
    let said = run_to_end(command.args(["--check", &format!("look=sh {script}"), "x", "--", "sh", &script]));
    assert_eq!(said.code, Some(0), "{} {}", said.out(), said.err());
    let mut show = world.command();
    show.env("CALLSHEET_LEDGER", &ledger).args(["show", "last", "--records", "--json"]);
    let records = crate::world::run_to_end(&mut show).out();
    assert!(records.matches("looked").count() >= 2, "{records}");
    assert!(!records.contains(CORE), "{records}");
    if Command::new("tmux").arg("-V").output().is_err() {
        return not_tested("the environment of a terminal: tmux is not installed");
    }
    let out = world.at("pane.out").display().to_string();
    world.put("pane.sh", format!("sh {script} > {out}.new 2>&1; mv {out}.new {out}\necho ready\nprintf '> '\nread -r line\nprintf '\\033[2J\\033[H'\nsleep 600\n"));
    let pane = world.at("pane.sh").display().to_string();
    world.put(
        "home/.config/callsheet/agents/shell.toml",
        format!(
            "name = \"Shell\"\n[start]\nprogram = \"sh\"\nargs = [\"{pane}\"]\n[prompt]\nby = [\"terminal\"]\n\
             [terminal]\nargs = [\"{pane}\"]\nready = [\"ready\"]\ncomposer = \">\"\nsettle_ms = 200\n"
        ),
    );
    let mut command = world.command();
    command
        .env("CALLSHEET_LEDGER", &ledger)
        .env("TMUX_TMPDIR", world.at(""))
        .args(["-q", "run", "-a", "shell"]);
    let typed = crate::world::run_to_end(command.args(["--terminal", "x"]));
    assert_eq!(typed.code, Some(0), "{} {}", typed.out(), typed.err());
    let mut stop = world.command();
    stop.env("CALLSHEET_LEDGER", &ledger).env("TMUX_TMPDIR", world.at("")).args(["stop", "last"]);
    assert_eq!(crate::world::run_to_end(&mut stop).code, Some(0));
    let seen = fs::read_to_string(&out).unwrap();
    assert!(seen.contains("looked") && !seen.contains(CORE), "{seen}");
}
