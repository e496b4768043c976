//! Bombs and huge inputs: small files that would become large, deep ones, long ones. Each is refused or
//! processed within a fixed time and a fixed amount of memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::process::Command;
use std::time::Duration;

use crate::measure::{ENDLESS, Measured, measure, measure_within};
use crate::project::CanaryProject;

/// Limits for a bomb; [`HUGE`] has those for an input that is large itself.
const BOMB: Limits = Limits { memory: 64 << 20, wanted: Duration::from_millis(250) };
/// `check` reads every file, more than once.
const CHECKED: Limits = Limits { memory: 64 << 20, wanted: Duration::from_secs(4) };
const HUGE: Limits = Limits { memory: 256 << 20, wanted: Duration::from_secs(4) };

/// The most bytes of diagnostics, however many mistakes there are: all of them are held until they are printed.
const MOST_DIAGNOSTICS: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Limits {
    /// The maximum of memory, in bytes.
    memory: u64,
    /// The intended maximum of processor time. It is reported and not judged: a build for tests is hardly
    /// optimised.
    wanted: Duration,
}

/// Expected end: an exit code, and the beginning of the first diagnostic.
type End = (i32, &'static str);

/// Returns an objection to the end or to the memory of a command.
fn find_objection(found: &Measured, (code, output): End, limits: Limits) -> Option<String> {
    let line = found.err.lines().next().unwrap_or_default();
    if found.code != Some(code) || !line.starts_with(output) {
        return Some(format!("ends with {:?}: {line}", found.code));
    }
    if found.err.len() > MOST_DIAGNOSTICS {
        return Some(format!("prints {} bytes", found.err.len()));
    }
    (found.peak > limits.memory).then(|| format!("takes {} MiB", found.peak >> 20))
}

/// A group of inputs, and the worst results among them.
struct Group {
    name: &'static str,
    worst: BTreeMap<Limits, Worst>,
}

#[derive(Default)]
struct Worst {
    time: Duration,
    slowest: String,
    peak: u64,
}

impl Group {
    fn new(name: &'static str) -> Self {
        Self { name, worst: BTreeMap::new() }
    }

    fn check(&mut self, name: &str, project: &CanaryProject, args: &[&str], end: End, limits: Limits) {
        self.judge(name, &measure(project.command().args(args)), end, limits);
    }

    fn judge(&mut self, name: &str, found: &Measured, end: End, limits: Limits) {
        let wrong = find_objection(found, end, limits);
        assert!(wrong.is_none(), "{}, {name}: {}", self.name, wrong.unwrap());
        let worst = self.worst.entry(limits).or_default();
        worst.peak = worst.peak.max(found.peak);
        if found.time > worst.time {
            (worst.time, worst.slowest) = (found.time, name.to_owned());
        }
    }

    fn print_worst(self) {
        for (limits, worst) in self.worst {
            crate::print_measurement(&format!(
                "{}: at most {:.0?} of processor time ({}; wanted: {:?}), {} MiB of memory (limit: {})",
                self.name,
                worst.time,
                worst.slowest,
                limits.wanted,
                worst.peak >> 20,
                limits.memory >> 20
            ));
        }
    }
}

/// Creates a project whose identity `task-agent` is this text.
fn create_project_with_identity(text: impl AsRef<[u8]>) -> CanaryProject {
    let project = CanaryProject::new();
    project.write(".callsheet/templates/identity/task-agent.md", text);
    project
}

const LAYERS: [&str; 4] = ["compose", "-r", "layers", "x"];

#[test]
fn header_bombs_stay_within_limits() {
    let mut group = Group::new("bombs in a header");
    let alias = {
        let mut yaml = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            let above = format!("*a{}", level - 1);
            writeln!(yaml, "a{level}: &a{level} [{}]", vec![above; 9].join(",")).unwrap();
        }
        yaml + "variables: *a11\n"
    };
    let mut keys = String::from("variables: []\n");
    (0..1_000_000).for_each(|at| writeln!(keys, "k{at}: {at}").unwrap());
    let bombs: [(&str, String); 12] = [
        ("aliases", alias),
        ("an anchor that holds itself", "variables: &a [*a]\n".into()),
        ("depth, in brackets", format!("tags: {}\n", "[".repeat(30_000))),
        ("depth, in braces", format!("tags: {}\n", "{a: ".repeat(15_000))),
        ("depth, in dashes", format!("tags: {}\n", "- ".repeat(30_000))),
        ("depth, far over the limit", format!("tags: {}\n", "[".repeat(100_000))),
        ("a million keys", keys),
        ("a scalar of ten megabytes", format!("name: {}\n", "x".repeat(10_000_000))),
        ("merge keys", "base: {name: x}\n<<: {name: y}\nvariables:\n  - <<: {name: z}\n".into()),
        ("tags", "name: !!python/object/apply:os.system [ls]\n".into()),
        ("tags of our own", "name: !include /etc/passwd\n".into()),
        ("many documents", "name: x\n...\n".repeat(4_000)),
    ];
    for (name, yaml) in bombs {
        let project = create_project_with_identity(format!("---\n{yaml}---\nbody\n"));
        group.check(name, &project, &LAYERS, (3, "error[FrontBad]"), BOMB);
        // `check` and `templates list` read the header too, and every other file besides.
        group.check(name, &project, &["check"], (1, ""), CHECKED);
    }
    for (name, text, end) in [
        ("a header that is only opened", format!("---\n{}", "a\n".repeat(5_000_000)), (3, "error[FrontBad]")),
        ("a long line behind the fence", format!("---{}x", " ".repeat(10_000_000)), (0, "")),
        ("fences only", "---\n".repeat(1_000_000), (0, "")),
    ] {
        group.check(name, &create_project_with_identity(text), &LAYERS, end, HUGE);
    }
    group.print_worst();
}

#[test]
fn request_bombs_stay_within_limits() {
    let mut group = Group::new("bombs in requests");
    let project = CanaryProject::new();
    let deep = 100_000;
    let pairs = |number: usize, separator: &str, pair: fn(usize) -> String| {
        (0..number).map(pair).collect::<Vec<_>>().join(separator)
    };
    let number = if crate::is_long() { 1_000_000 } else { 200_000 };
    let bad = "error[RequestBad]";
    let unknown = "error[RequestUnknownKey]";
    let large = "error[PromptTooLarge]";
    let objects = vec!["{\"a\":0}"; 300_000].join(",");
    let cases: [(&str, String, End, Limits); 30] = [
        ("brackets.json", "[".repeat(deep), (2, bad), BOMB),
        ("braces.json", "{\"values\":".repeat(deep), (2, bad), BOMB),
        (
            "data.json",
            format!("{{\"context\":[{{\"name\":\"a\",\"data\":{{\"k\":{}", "[".repeat(deep)),
            (2, bad),
            BOMB,
        ),
        ("tools.json", format!("{{\"tools\":{}", "[".repeat(deep)), (2, bad), BOMB),
        (
            "unknown.json",
            format!("{{{}}}", pairs(100_000, ",", |at| format!("\"k{at}\":1"))),
            (2, unknown),
            HUGE,
        ),
        (
            "names.json",
            format!("{{\"values\":{{{}}}}}", pairs(100_000, ",", |at| format!("\"!{at}\":\"\""))),
            (2, "error[RequestBadName]"),
            HUGE,
        ),
        (
            "values.json",
            format!("{{\"values\":{{{}}}}}", pairs(number, ",", |at| format!("\"k{at}\":\"\""))),
            (0, "warning[ScopeOpen]"),
            HUGE,
        ),
        (
            "paths.json",
            format!("{{\"read_first\":[{}]}}", pairs(number, ",", |at| format!("\"p{}/f{at}\"", at % 1000))),
            (0, "warning[InputNotFound]"),
            HUGE,
        ),
        (
            "folders.json",
            format!("{{\"read_first\":[{}]}}", pairs(number, ",", |at| format!("\"p{at}/f\""))),
            (0, "warning[InputNotFound]"),
            HUGE,
        ),
        (
            "bad-paths.json",
            format!("{{\"read_first\":[{}]}}", pairs(number, ",", |at| format!("\"../f{at}\""))),
            (2, bad),
            HUGE,
        ),
        (
            "criteria.json",
            format!("{{\"task\":{{\"criteria\":[{}]}}}}", pairs(number, ",", |at| format!("\"c{at}\""))),
            (3, large),
            HUGE,
        ),
        (
            "globs.json",
            format!("{{\"task\":{{\"write\":[{}]}}}}", pairs(number, ",", |at| format!("\"g{at}\""))),
            (2, bad),
            HUGE,
        ),
        (
            "memories.json",
            format!(
                "{{\"memories\":[{}]}}",
                pairs(250_000, ",", |at| format!("{{\"type\":\"a\",\"content\":\"m{at}\"}}"))
            ),
            (3, large),
            HUGE,
        ),
        (
            "texts.json",
            format!(
                "{{\"documents\":[{}]}}",
                pairs(number / 4, ",", |at| format!("{{\"name\":\"d{at}\",\"content\":\"x\"}}"))
            ),
            (0, "warning[DocumentNotShown]"),
            HUGE,
        ),
        (
            "missing.json",
            format!(
                "{{\"recipe\":\"unified\",\"phase\":\"plan\",\"documents\":[{}]}}",
                pairs(number / 4, ",", |at| format!("{{\"path\":\"d{at}\"}}"))
            ),
            (4, "error[DocumentNotFound]"),
            HUGE,
        ),
        (
            "rows.json",
            format!(
                "{{\"context\":[{{\"name\":\"a\",\"data\":{{{}}}}}]}}",
                pairs(200_000, ",", |at| format!("\"k{at}\":0"))
            ),
            (3, large),
            HUGE,
        ),
        (
            "objects.json",
            format!("{{\"context\":[{{\"name\":\"a\",\"data\":{{\"k\":[{objects}]}}}}]}}"),
            (2, bad),
            HUGE,
        ),
        (
            "schema.json",
            format!("{{\"tools\":[{{\"name\":\"a\",\"input_schema\":{{\"a\":[{objects}]}}}}]}}"),
            (2, bad),
            HUGE,
        ),
        (
            "depth.json",
            format!(
                "{{\"context\":[{{\"name\":\"task_depth\",\"data\":{{{}}}}}]}}",
                pairs(100_000, ",", |at| format!("\"k{at}\":0"))
            ),
            (2, "error[DepthBad]"),
            HUGE,
        ),
        (
            "templates.json",
            format!("{{\"layout\":{{\"templates\":[{}]}}}}", pairs(number, ",", |at| format!("\"t{at}\""))),
            (2, bad),
            HUGE,
        ),
        ("zeroes.json", format!("{{\"x\":[0{}]}}", ",0".repeat(7_000_000)), (2, bad), BOMB),
        (
            "blocks.json",
            format!(
                "{{\"context\":[{}]}}",
                pairs(number / 5, ",", |at| format!("{{\"name\":\"c{at}\",\"text\":\"</c{at}>\"}}"))
            ),
            (0, "warning[ScopeOpen]"),
            HUGE,
        ),
        (
            "same.json",
            format!("{{{}}}", pairs(200_000, ",", |_| "\"instructions\":\"x\"".into())),
            (2, bad),
            HUGE,
        ),
        ("number.json", format!("{{\"task\":{{\"depth\":{}}}}}", "9".repeat(1_000_000)), (2, bad), HUGE),
        ("brackets.toml", format!("instructions = {}", "[".repeat(deep)), (2, bad), BOMB),
        ("braces.toml", format!("values = {}", "{a = ".repeat(deep)), (2, bad), BOMB),
        ("dots.toml", format!("{} = 1", vec!["a"; deep].join(".")), (2, bad), BOMB),
        ("headers.toml", format!("[{}]", vec!["a"; deep].join(".")), (2, bad), BOMB),
        ("unknown.toml", pairs(100_000, "\n", |at| format!("k{at} = 1")), (2, unknown), HUGE),
        ("long.toml", "# \n".repeat(2_000_000), (2, bad), BOMB),
    ];
    for (name, text, end, limits) in cases {
        project.write(name, text);
        group.check(name, &project, &["compose", "--request", name, "x"], end, limits);
    }
    project.write("tools.json", format!("[0{}]", ",0".repeat(7_000_000)));
    group.check("tools", &project, &["compose", "--tools", "tools.json", "x"], (2, bad), BOMB);
    group.print_worst();
}

#[test]
fn data_file_bombs_stay_within_limits() {
    let mut group = Group::new("bombs in recipes, agents and configuration");
    let derives = |number: usize| {
        let mut recipe = String::from(
            "format = \"markdown\"\n[[section]]\nname = \"task\"\npart = \"instructions\"\nblocks = [{ value = \"d0\" }]\n",
        );
        for at in 0..number {
            write!(recipe, "[derive.d{at}]\nfrom = \"task\"\neach = \"x{{{{d{}}}}}\"\n", at + 1).unwrap();
        }
        recipe
    };
    let project = CanaryProject::new();
    let own = ["compose", "-r", "own", "--title", "x", "x"];
    for (name, recipe, output) in [
        ("too long", derives(50_000), "error[RecipeBad]"),
        ("values in values in values", derives(1_200), "error[FragmentTooDeep]"),
        ("depth", format!("section = {}", "[".repeat(60_000)), "error[RecipeBad]"),
        ("keys", "a.".repeat(30_000) + "a = 1", "error[RecipeBad]"),
    ] {
        project.write(".callsheet/recipes/own.toml", recipe);
        group.check(name, &project, &own, (3, output), BOMB);
        group.check(name, &project, &["check"], (1, ""), CHECKED);
    }
    let project = CanaryProject::new();
    for (name, agent) in
        [("long", "# \n".repeat(1_000_000)), ("deep", format!("loads = {}", "[".repeat(60_000)))]
    {
        project.write(".callsheet/agents/mine.toml", agent);
        group.check(name, &project, &["compose", "-a", "mine", "x"], (3, "error[AgentBad]"), BOMB);
    }
    let project = CanaryProject::new();
    for (name, config) in [
        ("long", "# \n".repeat(1_000_000)),
        ("deep", format!("recipe = {}", "[".repeat(60_000))),
        ("keys", (0..5_000).fold(String::new(), |all, at| all + &format!("key-{at} = 1\n"))),
    ] {
        project.write(".callsheet/config.toml", config);
        group.check(name, &project, &["config", "show"], (3, "error[ConfigBad]"), BOMB);
    }
    group.print_worst();
}

#[test]
fn multiplying_fragments_stay_within_limits() {
    let mut group = Group::new("fragments that multiply");
    let fan = |levels: usize, width: usize, leaf: &str| {
        let project = create_project_with_identity("{{> f0}}");
        for level in 0..levels {
            let path = format!(".callsheet/templates/shared/f{level}.md");
            project.write(&path, format!("{{{{> f{}}}}}", level + 1).repeat(width));
        }
        project.write(&format!(".callsheet/templates/shared/f{levels}.md"), leaf);
        project
    };
    let large = (3, "error[PromptTooLarge]");
    let limits = HUGE;
    group.check("30 levels of 30", &fan(30, 30, "x"), &LAYERS, large, limits);
    group.check("30 levels of 30, of nothing", &fan(30, 30, ""), &LAYERS, large, limits);
    group.check("a long text, often", &fan(3, 30, &"x".repeat(1_000_000)), &LAYERS, large, limits);
    group.check("a hundred thousand of one", &fan(1, 100_000, "x"), &LAYERS, (0, ""), limits);
    let deep = (3, "error[FragmentTooDeep]");
    group.check("a thousand levels", &fan(1_000, 1, "x"), &LAYERS, deep, BOMB);
    group.check("a thousand levels, checked", &fan(1_000, 1, "x"), &["check"], (1, ""), limits);
    if crate::is_long() {
        group.check("a hundred thousand levels", &fan(100_000, 1, "x"), &LAYERS, deep, BOMB);
    }
    group.check(
        "a tree, often",
        &create_project_with_identity("{{tree}}".repeat(10_000)),
        &["compose", "-r", "layers", "--missing", "empty", "x"],
        (0, ""),
        limits,
    );
    group.print_worst();
}

#[test]
fn endless_templates_stay_within_limits() {
    let mut group = Group::new("templates without end");
    let limits = HUGE;
    let slots = "{{a}} ".repeat(1_000_000);
    let set = ["compose", "-r", "layers", "-s", "a=1", "x"];
    group.check(
        "a million slots",
        &create_project_with_identity(&slots),
        &set,
        (3, "error[PromptTooLarge]"),
        limits,
    );
    let many = create_project_with_identity("{{a}} ".repeat(300_000));
    group.check("many slots", &many, &set, (0, ""), limits);
    let tagged = ["compose", "-r", "layers", "-s", "a=</a>", "x"];
    group.check("many slots on a line that need tags", &many, &tagged, (0, "warning[TextFenced]"), limits);
    let project = create_project_with_identity(
        (0..200_000).fold(String::new(), |all, at| all + &format!("{{{{s{at}}}}} ")),
    );
    group.check("slots that nothing fills", &project, &LAYERS, (3, "error[SlotUnfilled]"), limits);
    group.check(
        "the same, left empty",
        &project,
        &["compose", "-r", "layers", "--missing", "empty", "x"],
        (0, "warning[SlotUnfilled]"),
        limits,
    );
    group.check("the same, checked", &project, &["check"], (1, ""), limits);
    let project = create_project_with_identity(
        (0..50_000).fold(String::new(), |all, at| all + &format!("{{{{> f{at}}}}} ")),
    );
    group.check("fragments that are not there", &project, &LAYERS, (3, "error[FragmentNotFound]"), limits);
    group.check("the same, checked", &project, &["check"], (1, ""), limits);
    for (name, text) in [
        ("openers", "{{".repeat(4_000_000)),
        ("openers and blanks", "{{ ".repeat(4_000_000)),
        ("a name without end", "{{".to_owned() + &"a".repeat(10_000_000)),
        ("escapes", "\\{{".repeat(300_000)),
        ("returns", "\r\n\r".repeat(300_000) + "end"),
    ] {
        group.check(name, &create_project_with_identity(text), &LAYERS, (0, ""), limits);
    }
    let hidden = create_project_with_identity("a\u{200b}".repeat(1_000_000));
    group.check("characters that nobody sees", &hidden, &["check"], (1, ""), limits);
    let staged = |text: String| {
        let project = CanaryProject::new();
        project.write(".callsheet/templates/agents/own.md", text);
        project.write("long.md", "x".repeat(8_000_000));
        project
    };
    let own = ["compose", "-r", "staged", "--role", "own", "x"];
    for (name, text, end) in [
        ("includes of one long file", "[[include:long.md]]\n".repeat(50_000), (3, "error[PromptTooLarge]")),
        (
            "includes that are not there",
            (0..30_000).fold(String::new(), |all, at| all + &format!("[[include:{at}]]")),
            (3, "error[IncludeNotFound]"),
        ),
        ("openers", "[[".repeat(4_000_000), (0, "")),
        ("includes that are not closed", "[[include:".repeat(800_000), (0, "")),
        (
            "includes of placeholders",
            "[[include:[[placeholder:a]]".repeat(200_000),
            (3, "error[SlotUnfilled]"),
        ),
    ] {
        group.check(name, &staged(text), &own, end, limits);
    }
    group.print_worst();
}

#[test]
fn huge_files_stay_within_limits() {
    let mut group = Group::new("huge inputs");
    let project = CanaryProject::new();
    File::create(project.path().join("sparse.md")).unwrap().set_len(1 << 30).unwrap();
    project.write(".callsheet/templates/agents/own.md", "[[include:sparse.md]]");
    let too_large = (3, "error[SourceUnreadable]");
    group.check(
        "an include of a gigabyte",
        &project,
        &["compose", "-r", "staged", "--role", "own", "x"],
        too_large,
        BOMB,
    );
    group.check(
        "a file of a gigabyte",
        &project,
        &["compose", "-p", "plan", "-f", "sparse.md", "x"],
        too_large,
        BOMB,
    );
    for flag in
        ["--set-file=a=sparse.md", "--context-file=a=sparse.md", "--request=sparse.md", "--tools=sparse.md"]
    {
        group.check(
            flag,
            &project,
            &["compose", "-p", "plan", flag, "x"],
            (3, "error[InputUnreadable]"),
            BOMB,
        );
    }
    let mut endless = Command::new("bash");
    endless.args(["-c", "yes | \"$0\" compose -", env!("CARGO_BIN_EXE_callsheet")]);
    endless.current_dir(project.path()).env("PATH", std::env::var("PATH").unwrap());
    group.judge("standard input without end", &measure(&endless), (3, "error[InputUnreadable]"), BOMB);
    // A file of 100 MB in one line, with a limit that allows it.
    let project = create_project_with_identity("{{a}}");
    project.write("line.txt", "x".repeat(100_000_000));
    for (name, format) in [("markdown", "markdown"), ("xml", "xml"), ("json", "json")] {
        let mut command = project.command();
        command.args(["compose", "-r", "layers", "--format", format, "--set-file", "a=line.txt", "x"]);
        command.env("CALLSHEET_MAX_FILE_BYTES", "200000000");
        let found = measure(&command);
        group.judge(name, &found, (0, ""), HUGE);
        assert!(found.out_bytes > 100_000_000, "{name}: {found:?}");
    }
    // Very many tags in a document: callsheet must find the first free number among them.
    let mut tags = String::from("<file>");
    (2..1_000_000).for_each(|at| write!(tags, "<file-{at}>").unwrap());
    let project = CanaryProject::new();
    project.write("tags.txt", &tags);
    group.check(
        "tags",
        &project,
        &["compose", "-r", "layers", "-f", "tags.txt", "x"],
        (0, "warning[TextFenced]"),
        HUGE,
    );
    project.write("marks.txt", "# \r-\r=\n".repeat(1_000_000));
    group.check(
        "marks",
        &project,
        &["compose", "-r", "run", "--set-file", "a=marks.txt", "-"],
        (2, ""),
        HUGE,
    );
    group.check(
        "marks",
        &project,
        &["compose", "-r", "run", "--context-file", "a=marks.txt", "x"],
        (0, "warning[ScopeOpen]"),
        HUGE,
    );
    group.print_worst();
}

/// A directory with a million files is listed, and the listing is short.
#[test]
fn many_files_stay_within_limits() {
    let mut group = Group::new("very many files");
    let project = CanaryProject::new();
    let (folders, each) = if crate::is_long() { (100, 10_000) } else { (10, 2_000) };
    for folder in 0..folders {
        let dir = project.path().join(format!("d{folder}"));
        std::fs::create_dir(&dir).unwrap();
        (0..each).for_each(|at| drop(File::create(dir.join(format!("f{at}"))).unwrap()));
    }
    group.check(
        "a tree of very many files",
        &project,
        &["compose", "-p", "plan", "x"],
        (0, "warning[SlotUnfilled]"),
        HUGE,
    );
    group.print_worst();
}

/// A request with 300,000 documents, and one with a million values.
#[test]
fn many_documents_and_values_within_limits() {
    let mut group = Group::new("very many documents and values");
    let project = CanaryProject::new();
    let list =
        |count: usize, each: &dyn Fn(usize) -> String| (0..count).map(each).collect::<Vec<_>>().join(",");
    let documents = list(300_000, &|at| format!(r#"{{"name":"d{at}","content":"t{at}"}}"#));
    let values = list(1_000_000, &|at| format!(r#""k{at}":"v{at}""#));
    let unified = r#""recipe":"unified","phase":"plan","instructions":"x""#;
    project.write("documents.json", format!(r#"{{{unified},"documents":[{documents}]}}"#));
    project.write("values.json", format!(r#"{{"recipe":"run","instructions":"x","values":{{{values}}}}}"#));
    let mut cases = vec![
        ("documents", "compose", vec![]),
        ("values", "compose", vec![]),
        ("documents", "explain", vec![]),
        ("values", "explain", vec![]),
    ];
    if crate::is_long() {
        for format in ["json", "markdown"] {
            cases.extend(["documents", "values"].map(|file| (file, "compose", vec!["--format", format])));
        }
        cases.extend(["documents", "values"].map(|file| (file, "compose", vec!["--secrets", "allow"])));
    }
    for (file, command, more) in cases {
        let mut started = project.command();
        started.args([command, "--request", &format!("{file}.json")]).args(&more);
        started.env("CALLSHEET_MAX_FILE_BYTES", "100000000");
        group.judge(&format!("{command} {file} {more:?}"), &measure(&started), (0, "warning["), HUGE);
    }
    group.print_worst();
}

/// The limits object to a program that does not end, to a large one, and to a different end.
#[test]
fn exploding_bomb_is_detected() {
    let judged = |script: &str, seconds: u64| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir("/").env("PATH", std::env::var("PATH").unwrap());
        find_objection(&measure_within(&command, seconds), (0, "said"), BOMB)
    };
    assert_eq!(judged("echo said >&2", ENDLESS), None);
    let large = judged("x=$(head -c 70000000 /dev/zero | tr '\\0' x); echo said >&2", ENDLESS);
    assert!(large.unwrap().ends_with("MiB"));
    for other in ["exit 1", "kill -9 $$", "echo something else >&2"] {
        assert!(judged(other, ENDLESS).unwrap().starts_with("ends with "), "{other}");
    }
    assert_eq!(judged("while :; do :; done", 1).as_deref(), Some("ends with None: "));
}
