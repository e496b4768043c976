//! Tests `--budget` on the shipped recipes: golden ladders at ten sizes each, in `tests/ladders`.
//!
//! `BLESS=1 cargo test -p callsheet-cli --test cli budget` rewrites them; review the difference then.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use callsheet_testing::TestProject;
use serde_json::Value;

use crate::shipped::read_shipped_body;

fn ladders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ladders")
}

/// Creates the project of the ladders, with the request for one recipe beside it.
fn create_project(recipe: &str) -> TestProject {
    fn copy(project: &TestProject, dir: &Path, below: &str) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{below}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                copy(project, &path, &format!("{name}/"));
            } else {
                project.write(&name, fs::read(&path).unwrap());
            }
        }
    }
    let project = TestProject::new();
    copy(&project, &ladders().join("project"), "");
    project.write("../request.toml", fs::read(ladders().join(format!("{recipe}.toml"))).unwrap());
    project
}

const REQUEST: [&str; 2] = ["--request", "../request.toml"];

/// Returns the texts that every prompt of a recipe contains, however small the budget is.
fn musts(recipe: &str) -> Vec<String> {
    let task = "Let a cart take a voucher.".to_owned();
    match recipe {
        "layers" => vec![task, "The type `Voucher` is done".into()],
        "unified" => vec![task, "Prices are whole cents; a sum is rounded once, at its end.".into()],
        "staged" => {
            let plan = fs::read_to_string(ladders().join("project/session/04_planning/plan_1.md")).unwrap();
            vec!["Begin with the first task.".into(), plan]
        }
        _ => {
            let own = ["profiles/coder.md", "templates/shared/constraints.md"];
            own.map(read_shipped_body).into_iter().chain([task, "A voucher works once.".into()]).collect()
        }
    }
}

/// Counts tokens as the agent's file specifies, with an independent tokenizer.
fn count_tokens(text: &str, agent: &str) -> usize {
    let percent = match agent {
        "claude" => 118,
        "gemini" => 120,
        _ => 100,
    };
    (bpe_openai::o200k_base().count(text) * percent).div_ceil(100)
}

fn parse_number(message: &str) -> usize {
    message.split(' ').find_map(|word| word.parse().ok()).unwrap()
}

/// Checks the prompt for one budget and renders its degradations: one entry of a ladder.
fn render_budget(project: &TestProject, recipe: &str, agent: &str, budget: usize) -> String {
    let limit = budget.to_string();
    let args = ["--budget", &limit, REQUEST[0], REQUEST[1]];
    let explained = project.run(["explain", "--json"].iter().chain(&args)).json();
    let text = explained["text"].as_str().unwrap();
    let tokens = explained["tokens"]["total"].as_u64().unwrap() as usize;
    assert_eq!(tokens, count_tokens(text, agent), "{recipe} {budget}");
    assert!(tokens <= budget, "{recipe}: {tokens} tokens are more than {budget}");
    for must in musts(recipe) {
        assert!(text.contains(&must), "{recipe} {budget}: {must:?} is gone");
    }
    for _ in 0..2 {
        let composed = project.run(["compose", "-q"].iter().chain(&args));
        assert_eq!((composed.out().as_str(), composed.err().as_str()), (text, ""), "{recipe} {budget}");
    }
    let steps = explained["steps"].as_array().unwrap();
    let budget_has_a_say = |absent: &&Value| absent["reason"]["code"] == "budget";
    let absent = explained["absent"].as_array().unwrap().iter().filter(budget_has_a_say).count();
    let mut stepped: Vec<&str> = steps.iter().map(|step| step["what"].as_str().unwrap()).collect();
    stepped.sort_unstable();
    stepped.dedup();
    assert_eq!(
        absent,
        stepped.len(),
        "{recipe} {budget}: all that stepped down, and nothing else, is told of"
    );
    let warned =
        explained["diagnostics"].as_array().unwrap().iter().any(|one| one["code"] == "budget/stepped");
    assert_eq!(warned, !steps.is_empty(), "{recipe} {budget}");
    let mut page = format!("budget {budget}: {tokens} tokens, {} bytes\n", text.len());
    for step in steps {
        let word = |key: &str| step[key].as_str().unwrap();
        let (what, section, level) = (word("what"), word("section"), word("level"));
        let (from, to, before, after) = (word("from"), word("to"), &step["before"], &step["after"]);
        writeln!(page, "  {what} ({section}, {level}): {from} → {to}, {before} → {after}").unwrap();
    }
    page
}

fn render_ladder(recipe: &str) -> String {
    let project = create_project(recipe);
    let counted = project.run(["compose", "--json", "--count"].iter().chain(&REQUEST)).json();
    let most = counted["total"].as_u64().unwrap() as usize;
    let agent = match counted["model"].as_str().unwrap() {
        model if model.starts_with("claude") => "claude",
        model if model.starts_with("gemini") => "gemini",
        _ => "codex",
    };
    let refused = |budget: usize| {
        let output = project
            .run(["compose", "--json", "--budget", &budget.to_string()].iter().copied().chain(REQUEST));
        assert_eq!((output.code, output.out().as_str()), (Some(3), ""), "{recipe} {budget}");
        serde_json::from_str::<Value>(&output.err()).unwrap()
    };
    let none = refused(0);
    assert_eq!(none["code"], "budget/musts");
    let least = parse_number(none["message"].as_str().unwrap());
    let mut page = format!("{recipe} for {agent}: {most} tokens in all, {least} of them musts\n");
    for size in 0..10 {
        let budget = most - (most - least) * size / 9;
        write!(page, "\n{}", render_budget(&project, recipe, agent, budget)).unwrap();
    }
    writeln!(page, "\nbudget {}: {}", least - 1, refused(least - 1)["message"].as_str().unwrap()).unwrap();
    page
}

fn compare_ladder(recipe: &str) {
    let file = ladders().join(format!("{recipe}.txt"));
    let found = render_ladder(recipe);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, found).unwrap();
        return;
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(written, found, "{recipe}: read the difference, then run with BLESS=1");
}

#[test]
fn layers_fit_at_ten_sizes() {
    compare_ladder("layers");
}

#[test]
fn unified_fits_at_ten_sizes() {
    compare_ladder("unified");
}

#[test]
fn staged_fits_at_ten_sizes() {
    compare_ladder("staged");
}

#[test]
fn run_fits_at_ten_sizes() {
    compare_ladder("run");
}

#[test]
fn explain_shows_every_degradation() {
    let project = TestProject::new();
    project.write(
        ".callsheet/recipes/small.toml",
        "format = \"markdown\"\n\n[[section]]\nname = \"context\"\npart = \"context\"\nlevel = \"may\"\nblocks = [{ documents = [\"file\"] }]\n\n\
         [[section]]\nname = \"task\"\npart = \"instructions\"\nblocks = [{ value = \"instructions\" }]\n",
    );
    let lines: String =
        (0..40).map(|at| format!("    let line_{at} = {at};\n        line_{at}();\n")).collect();
    project.write("a.rs", format!("fn a() {{\n{lines}}}\n"));
    project.write(
        "b.md",
        "# Title\n\nSome words that need not be there at all, if there is no room for them.\n",
    );
    let output = project
        .run(["explain", "-r", "small", "-a", "codex", "--budget", "70", "-f", "a.rs", "-f", "b.md", "Go"]);
    let wanted = "\
── request documents[0].name (project)
    1 │ <file path=\"a.rs\">
── builtin:templates/shared/path-only.md (ours)
    6 │ [Only the path is given: the content is left out]
── engine (ours)
      │ </file>
      │ 
── request documents[1].name (project)
    1 │ <file path=\"b.md\">
── project:b.md (project)
    1 │ # Title
    2 │ 
    3 │ Some words that need not be there at all, if there is no room for them.
── engine (ours)
      │ </file>
      │ 
── request instructions (person)
    1 │ Go

Not in this prompt
  project:a.rs: over the budget (shown by its path)

Steps to fit into the budget
  a.rs (context, may): full → outline, 575 → 391 tokens
  a.rs (context, may): outline → path, 391 → 23 tokens

Tokens
   tokens     bytes
       54       185  context
        1         2  task
       55       189  total
exact for gpt-5.5: o200k_base
the model accepts 272000 tokens
";
    assert_eq!(output.out(), wanted);
    assert_eq!(
        output.err(),
        "warning[BudgetStepped]: to fit 70 tokens, 1 of 2 blocks was reduced: 1 to a path\n  = hint: run `callsheet explain` to see every step\n"
    );
}
