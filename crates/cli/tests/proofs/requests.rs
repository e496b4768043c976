//! Requests by number: the same number gives the same request. They cover all recipes, formats and kinds of
//! input.

use serde_json::{Map, Value, json};

/// A generator that needs no crate and gives the same numbers everywhere (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub(crate) fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }

    fn is_likely(&mut self) -> bool {
        self.below(3) > 0
    }
}

const PARTS: [&str; 22] = [
    "word ",
    "\n",
    "\n\n---\n\n",
    "## Constraints\n",
    "</file>",
    "]]>",
    "<task>",
    "&amp;",
    "{{PROJECT_CONTEXT}}",
    "[[include:/etc/passwd]]",
    "```\n",
    "- item\n",
    "中文",
    "🦀👩‍💻",
    "e\u{301}",
    "\r\n",
    "\t",
    "İıſK",
    "\"",
    "\\n",
    "\u{2028}",
    "0",
];

fn random_text(dice: &mut Dice) -> String {
    let length = dice.below(8) + 1;
    let mut text: String = (0..length).map(|_| dice.pick(&PARTS)).collect();
    text.push_str("end");
    text
}

/// The input of one prompt: a request file, and flags on top of it.
pub(crate) struct Order {
    pub(crate) request: Value,
    /// Paths for `-f`, relative to the project.
    pub(crate) files: Vec<&'static str>,
    /// Paths for `--detail`, relative to the project, each with its level of detail.
    pub(crate) details: Vec<&'static str>,
    pub(crate) flags: Vec<&'static str>,
}

/// Returns the request of this number. It fits the project that `determinism` writes.
pub(crate) fn request_by_number(number: u64) -> Order {
    let mut dice = Dice::new(number);
    let mut request = Map::new();
    let mut put = |key: &str, value: Value| request.insert(key.into(), value);
    let recipe = dice.pick(&["layers", "unified", "staged", "run", "own"]);
    put("recipe", recipe.into());
    put("agent", dice.pick(&["base", "claude", "codex", "gemini", "copilot", "opencode"]).into());
    put("missing", dice.pick(&["empty", "notice"]).into());
    let mut flags: Vec<&str> = match dice.below(7) {
        0 => vec!["--api", "anthropic"],
        1 => vec!["--api", "openai"],
        2 => vec!["--api", "gemini"],
        3 => vec!["--format", "xml"],
        4 => vec!["--format", "json"],
        5 => vec!["--format", "markdown"],
        _ => vec![],
    };
    let mut values = Map::new();
    for name in ["feature", "audience", "plan_file", "model"] {
        if dice.is_likely() {
            let value =
                if name == "plan_file" { "04_planning/plan.md".into() } else { random_text(&mut dice) };
            values.insert(name.into(), value.into());
        }
    }
    values.insert("model".into(), "some-model".into());
    put("values", values.into());
    put("instructions", random_text(&mut dice).into());
    match recipe {
        "layers" => put("role", dice.pick(&["supervisor", "task-agent", "hook-executor", "mine"]).into()),
        "unified" => put("phase", dice.pick(&["plan", "challenge", "implement", "review", "archive"]).into()),
        "run" => put("role", dice.pick(&["coder", "planner", "reviewer", "writer", "generalist"]).into()),
        _ => {
            put("role", dice.pick(&["architect", "planner", "reviewer", "coder", "designer", "mine"]).into())
        }
    };
    if recipe == "staged" {
        put("session", "sessions/one".into());
        if dice.below(3) == 0 {
            put("command", dice.pick(&["review", "fix", "summary", "change", "mine"]).into());
        }
    }
    if dice.is_likely() {
        let data = json!({ "branch": random_text(&mut dice), "count": dice.below(9), "nested": { "z": 1, "a": [true, null] } });
        put(
            "context",
            json!([
                { "name": "upstream", "text": random_text(&mut dice) },
                { "name": "system_metadata", "data": data },
                { "name": "task_depth", "data": { "depth": dice.below(3), "max_depth": 2 } },
            ]),
        );
    }
    if dice.is_likely() {
        put(
            "documents",
            json!([
                { "path": "src/lib.rs" },
                { "path": "docs/windows.md", "name": random_text(&mut dice) },
                { "type": "artifact", "name": "plan", "content": random_text(&mut dice) },
                { "type": "thought", "name": "t", "content": random_text(&mut dice) },
            ]),
        );
    }
    if dice.is_likely() {
        let paths: Vec<String> =
            (0..dice.below(60)).map(|at| format!("src/part-{}/f{at}.rs", at % 7)).collect();
        put("read_first", paths.into());
        put("memories", json!([{ "type": "pattern", "content": random_text(&mut dice) }]));
        put("rules", json!([random_text(&mut dice), random_text(&mut dice)]));
        put("human_input", random_text(&mut dice).into());
        put(
            "tools",
            json!([{ "name": "look", "description": random_text(&mut dice), "input_schema": { "type": "object" } }]),
        );
    }
    if dice.is_likely() {
        put(
            "task",
            json!({
                "id": "T-1", "title": random_text(&mut dice), "description": random_text(&mut dice), "criteria": [random_text(&mut dice)],
                "write": ["src/**", "src/**", "docs/*"], "exclude": [".git/**"], "depth": dice.below(3), "max_steps": 7,
            }),
        );
        put(
            "previous",
            json!({
                "run": "r1", "ended": dice.pick(&["exited", "timeout", "lost"]), "exit_code": 1, "attempts": 2,
                "checks": [{ "name": "test", "result": "failed" }], "changed": ["src/lib.rs", random_text(&mut dice)],
                "violations": [{ "path": "etc", "reason": "outside_write", "decision": "pending" }],
            }),
        );
    }
    let mut files = Vec::new();
    for file in ["src", "docs", "*.md", "README.md", "sessions/one/tasks.md"] {
        if dice.below(4) == 0 {
            files.push(file);
        }
    }
    let shown = if dice.below(2) == 0 { vec!["src=outline", "docs=path"] } else { Vec::new() };
    // Only a few, because a budget needs the vocabulary, and loading it takes longer than everything else.
    if number % 50 == 7 {
        flags.extend(["--budget", "6000"]);
    }
    Order { request: request.into(), files, details: shown, flags }
}
