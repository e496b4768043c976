//! Tests `compose --count`, the summary of `explain`, and the limits of agents and models.

use callsheet_testing::TestProject;
use serde_json::json;

/// Creates a project with a recipe that adds no text of its own.
fn create_project() -> TestProject {
    let project = TestProject::new();
    project.write(
        ".callsheet/recipes/small.toml",
        "format = \"markdown\"\n\n[[section]]\nname = \"task\"\npart = \"instructions\"\nblocks = [{ value = \"instructions\" }]\n\n\
         [[section]]\nname = \"context\"\npart = \"context\"\nlevel = \"should\"\nblocks = [{ documents = [\"file\"] }]\n",
    );
    project
}

#[test]
fn known_vocabulary_is_counted_exactly() {
    let project = create_project();
    project.write("a.txt", "hello world\n");
    let output =
        project.run(["compose", "-r", "small", "-a", "codex", "-f", "a.txt", "--count", "Say hello."]);
    let table = "   tokens     bytes\n        3        10  task\n       13        39  context\n       16        51  total\n\
                 exact for gpt-5.5: o200k_base\nthe model accepts 272000 tokens\n";
    assert_eq!((output.code, output.out().as_str(), output.err().as_str()), (Some(0), table, ""));
    let prompt = project.run(["compose", "-r", "small", "-a", "codex", "-f", "a.txt", "Say hello."]).out();
    assert_eq!(prompt, "Say hello.\n\n<file path=\"a.txt\">\nhello world\n</file>");
    assert_eq!(bpe_openai::o200k_base().count(prompt.as_str()), 16);
}

#[test]
fn model_selects_vocabulary() {
    let project = create_project();
    let output = |model: &str, agent: &str| {
        let model = format!("model={model}");
        let args =
            ["compose", "--json", "-r", "small", "-a", agent, "-s", &model, "--count", "naïve größe 中文"];
        let counted = project.run(args).json();
        (counted["encoding"].clone(), counted["estimated"].clone(), counted["total"].clone())
    };
    assert_eq!(output("gpt-4o-mini", "codex"), (json!("o200k_base"), json!(false), json!(6)));
    assert_eq!(output("gpt-4-turbo", "codex"), (json!("cl100k_base"), json!(false), json!(7)));
    assert_eq!(output("gpt-6-sol", "codex"), (json!("o200k_base"), json!(true), json!(6)));
    assert_eq!(output("claude-haiku-4-5", "claude"), (json!("o200k_base"), json!(true), json!(8)));
    assert_eq!(output("claude-opus-5", "claude"), (json!("o200k_base"), json!(true), json!(10)));
    assert_eq!(output("gemini-2.5-pro", "gemini"), (json!("o200k_base"), json!(true), json!(8)));
    assert_eq!(output("whatever", "opencode"), (json!("o200k_base"), json!(true), json!(6)));
}

#[test]
fn estimate_names_its_method() {
    let project = create_project();
    let counted =
        project.run(["compose", "--json", "-r", "small", "-a", "claude", "--count", "Say hello."]).json();
    let wanted = json!({
        "schema": "callsheet/token-count/1",
        "encoding": "o200k_base",
        "method": "o200k_base × 1.18, the ratio that was measured for models before Opus 4.7",
        "estimated": true,
        "model": "claude-sonnet-4-5",
        "total": 4,
        "bytes": 10,
        "characters": 10,
        "sections": [{ "section": "task", "tokens": 4, "bytes": 10 }],
        "context_window": 200_000,
        "limits": { "max_bytes": 10_000_000, "max_chars": null },
        "diagnostics": [],
    });
    assert_eq!(counted, wanted);
    let counted = project.run(["compose", "--json", "-r", "small", "--count", "Grüße, 世界"]).json();
    assert_eq!((&counted["bytes"], &counted["characters"]), (&json!(15), &json!(9)));
    let output = project.run(["compose", "-r", "small", "--count", "Say hello."]);
    let table = "   tokens     bytes\n        3        10  task\n        3        10  total\n\
                 estimated: o200k_base, because the model is unknown\n";
    assert_eq!(output.out(), table);
}

#[test]
fn explain_ends_with_counts() {
    let project = create_project();
    let args = ["-r", "small", "-a", "codex", "Say hello."];
    let page = project.run(["explain", "--tokens"].iter().chain(&args)).out();
    let counted = project.run(["compose", "--count"].iter().chain(&args)).out();
    let wanted = "── request instructions (person)\n    1 │ Say hello.\n\nNot in this prompt\n\
                  \x20 section context: not given\n\nTokens\n";
    assert_eq!(page, format!("{wanted}{counted}"));
    let explained = project.run(["explain", "--json", "--tokens"].iter().chain(&args)).json();
    let mut counted = project.run(["compose", "--json", "--count"].iter().chain(&args)).json();
    for key in ["schema", "diagnostics"] {
        counted.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(explained["tokens"], counted);
    assert_eq!(explained["steps"], json!([]));
}

#[test]
fn prompt_over_agent_limit_warns() {
    let project = create_project();
    project.write(".callsheet/agents/tiny.toml", "name = \"Tiny\"\nmax_bytes = 20\nmax_chars = 12\n");
    let warned = |task: &str| project.run(["compose", "-r", "small", "-a", "tiny", task]);
    let over = |has: &str, limit: &str| {
        let hint = "name fewer files, show less of them with `--detail`, or add a `--budget`";
        format!(
            "warning[PromptOverLimit]: the prompt has {has}; Tiny accepts at most {limit}\n  = hint: {hint}\n"
        )
    };
    assert_eq!(warned("123456789012").err(), "");
    assert_eq!(warned("1234567890123").err(), over("13 characters", "12"));
    assert_eq!(warned("äöüäöüäöüäöü").err(), over("24 bytes", "20"));
    assert_eq!(warned(&"x".repeat(21)).err(), over("21 bytes", "20") + &over("21 characters", "12"));
    assert_eq!(warned(&"x".repeat(21)).out(), "x".repeat(21), "it is printed all the same");
}

#[test]
fn shipped_agents_have_real_limits() {
    let project = create_project();
    let args = |agent| ["compose", "-r", "small", "-a", agent, "-"];
    let code = |agent, bytes: usize| {
        let output = project.run_with(&args(agent), "y".repeat(bytes).as_bytes());
        output.err().split(':').next().unwrap().to_owned()
    };
    for (agent, most) in [("codex", 1_048_576), ("claude", 10_000_000), ("gemini", 8_388_608)] {
        assert_eq!(code(agent, most), "");
        assert_eq!(code(agent, most + 1), "warning[PromptOverLimit]");
    }
}

#[test]
fn counted_prompt_over_window_warns() {
    let project = create_project();
    project.write(
        ".callsheet/agents/tiny.toml",
        "name = \"Tiny\"\n[[tokens]]\nencoding = \"cl100k_base\"\ncontext_window = 3\n",
    );
    let words = "one two three four";
    let warning = "warning[PromptOverWindow]: the prompt has 4 tokens; the model accepts at most 3\n  = hint: add `--budget 3` to shorten it\n";
    let err = |args: &[&str]| project.run(args.iter().chain(&["-r", "small", "-a", "tiny", words])).err();
    assert_eq!(err(&["compose"]), "");
    assert_eq!(err(&["compose", "--count"]), warning);
    assert_eq!(err(&["explain"]), "");
    assert_eq!(err(&["explain", "--tokens"]), warning);
    assert_eq!(err(&["compose", "--budget", "9"]), warning);
    assert_eq!(err(&["explain", "--budget", "9"]), warning);
}

#[test]
fn count_conflicts_with_out() {
    let output = create_project().run(["compose", "-r", "small", "--count", "--out", "x", "Go"]);
    assert_eq!((output.code, output.out().as_str()), (Some(2), ""));
    assert_eq!(
        output.err().lines().next(),
        Some("error: the argument '--count' cannot be used with '--out <FILE>'")
    );
}
