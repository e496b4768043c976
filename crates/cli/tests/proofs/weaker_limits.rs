//! A project's configuration, flows and contracts do not loosen the user's own limits without trust.

use std::fs;

use callsheet_core::flow::{Flow, find_flow};
use callsheet_core::library::contract::{Contract, FieldRequirement};
use callsheet_core::library::layout::Layout;
use callsheet_core::{Builtin, Library, find_contract, list_names};
use serde_json::{Value, json};

use crate::project::CanaryProject;

const PERMITS: [&str; 3] = ["ask", "edit", "all"];
/// Ordered from the strictest.
const MODES: [&str; 4] = ["refuse", "redact", "warn", "allow"];
const TIMES: [u64; 3] = [1, 2, 3];
const COSTS: [f64; 3] = [0.5, 1.5, 2.5];
const USUAL_BYTES: u64 = 16 * 1024 * 1024;
const BYTES: [u64; 3] = [1_000_000, USUAL_BYTES, 99_000_000];
const GLOBS: [&str; 3] = ["a/**", "b/**", "c/**"];

/// The settings of one file; the numbers are indices into the lists above.
#[derive(Clone, Debug, Default, PartialEq)]
struct Says {
    permit: Option<usize>,
    secrets: Option<usize>,
    timeout: Option<usize>,
    max_cost: Option<usize>,
    max_file_bytes: Option<usize>,
    write: Option<Vec<usize>>,
    exclude: Option<Vec<usize>>,
}

/// A generator of pseudo-random numbers that are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn maybe_below(&mut self, most: usize) -> Option<usize> {
        let number = self.below(most + 1);
        (number < most).then_some(number)
    }

    fn globs(&mut self) -> Option<Vec<usize>> {
        let bits = self.maybe_below(8)?;
        Some((0..3).filter(|bit| bits >> bit & 1 == 1).collect())
    }

    fn next_settings(&mut self) -> Says {
        Says {
            permit: self.maybe_below(3),
            secrets: self.maybe_below(4),
            timeout: self.maybe_below(3),
            max_cost: self.maybe_below(3),
            max_file_bytes: self.maybe_below(3),
            write: self.globs(),
            exclude: self.globs(),
        }
    }
}

impl Says {
    fn toml(&self, hard: bool) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: Option<String>| {
            text += &value.map(|value| format!("{key} = {value}\n")).unwrap_or_default();
        };
        let globs = |list: &Vec<usize>| format!("{:?}", list.iter().map(|it| GLOBS[*it]).collect::<Vec<_>>());
        line("permit", self.permit.map(|it| format!("{:?}", PERMITS[it])));
        line("secrets", self.secrets.map(|it| format!("{:?}", MODES[it])));
        line("timeout", self.timeout.map(|it| format!("\"{}h\"", TIMES[it])));
        line("max_cost", self.max_cost.map(|it| COSTS[it].to_string()));
        line("max_file_bytes", self.max_file_bytes.map(|it| BYTES[it].to_string()));
        line("exclude", self.exclude.as_ref().map(globs));
        if !hard {
            line("write", self.write.as_ref().map(globs));
        }
        text
    }
}

/// Returns the expected value. States the rule independently, for lists that are ordered from strict to
/// loose.
fn expected_limit(
    user: Option<usize>,
    project: Option<usize>,
    hard: Option<usize>,
    usual: Option<usize>,
    trusted: bool,
) -> Option<usize> {
    let own = user.or(usual);
    let both = match (project, own) {
        (Some(project), Some(_)) if trusted => Some(project),
        (Some(project), Some(own)) => Some(project.min(own)),
        (project, own) => project.or(own),
    };
    match (both, hard) {
        (Some(both), Some(hard)) => Some(both.min(hard)),
        (both, hard) => both.or(hard),
    }
}

fn globs(list: &[usize]) -> Vec<&'static str> {
    list.iter().map(|it| GLOBS[*it]).collect()
}

fn expected_settings(user: &Says, project: &Says, hard: &Says, trusted: bool) -> Value {
    let pick = |of: fn(&Says) -> Option<usize>, usual| {
        expected_limit(of(user), of(project), of(hard), usual, trusted)
    };
    let mut exclude: Vec<usize> = match (&user.exclude, &project.exclude) {
        (Some(_), Some(project)) if trusted => project.clone(),
        (user, project) => user.iter().chain(project).flatten().copied().collect(),
    };
    exclude.extend(hard.exclude.iter().flatten());
    exclude.sort_unstable();
    exclude.dedup();
    let write = match (&user.write, &project.write) {
        (Some(_), Some(project)) if trusted => project.clone(),
        (user, project) => user.clone().or(project.clone()).unwrap_or_default(),
    };
    let secrets = match (user.secrets, project.secrets, hard.secrets) {
        // The default is not shown.
        (None, None, _) => None,
        (None, Some(project), _) if !trusted && project > 2 => None,
        _ => pick(|it| it.secrets, Some(2)),
    };
    json!({
        "permit": pick(|it| it.permit, Some(1)).map(|it| PERMITS[it]),
        "secrets": secrets.map(|it| MODES[it]),
        "timeout": pick(|it| it.timeout, None).map(|it| format!("{}h", TIMES[it])),
        "max_cost": pick(|it| it.max_cost, None).map(|it| COSTS[it]),
        "max_file_bytes": pick(|it| it.max_file_bytes, Some(1)).map(|it| BYTES[it]),
        "exclude": globs(&exclude),
        "write": globs(&write),
    })
}

fn shown_settings(project: &CanaryProject) -> Value {
    let output = project.run(["config", "show", "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.err());
    let all = output.settings();
    let mut picked = json!({});
    for key in ["permit", "secrets", "timeout", "max_cost", "max_file_bytes", "exclude", "write"] {
        picked[key] = all[key]["value"].clone();
        if let Value::Array(globs) = &mut picked[key] {
            globs.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        }
    }
    picked
}

#[test]
fn project_loosens_limits_only_with_trust() {
    let project = CanaryProject::new();
    let mut numbers = Numbers(7);
    let rounds = if crate::is_long() { 2_000 } else { 60 };
    for round in 0..rounds {
        let (user, project_settings, hard) =
            (numbers.next_settings(), numbers.next_settings(), numbers.next_settings());
        project.write_beside(
            "home/.config/callsheet/config.toml",
            format!("{}[hard]\n{}", user.toml(false), hard.toml(true)),
        );
        project.write(".callsheet/config.toml", project_settings.toml(false));
        let _ = fs::remove_dir_all(project.beside("home/.local"));
        let about = format!("{round}: {user:?} {project_settings:?} {hard:?}");
        assert_eq!(
            shown_settings(&project),
            expected_settings(&user, &project_settings, &hard, false),
            "{about}"
        );
        let trusted = project.run(["trust", "--yes"]);
        assert_eq!(trusted.code, Some(0), "{about} {}", trusted.err());
        assert_eq!(
            shown_settings(&project),
            expected_settings(&user, &project_settings, &hard, true),
            "{about}"
        );
    }
    crate::print_measurement(&format!("{} configurations, as the rule says", rounds * 2));
}

/// A value that is not applied does not block anything either, and the note says what to type.
#[test]
fn ignored_looser_value_blocks_nothing() {
    let project = CanaryProject::new();
    project.write_beside("home/.config/callsheet/config.toml", "permit = \"ask\"\ntimeout = \"1h\"\n");
    project.write(".callsheet/config.toml", "permit = \"all\"\ntimeout = \"9h\"\nsecrets = \"allow\"\n");
    let output = project.run(["run", "--json", "--dry-run", "x", "--", "true"]);
    assert_eq!(output.code, Some(0), "{}", output.err());
    let launch = &serde_json::from_str::<Value>(&output.out()).unwrap()["launch"];
    assert_eq!((&launch["permit"], &launch["timeout_ms"]), (&json!("ask"), &json!(3_600_000)));
    let output = project.run(["run", "--dry-run", "x", "--", "true"]);
    let note = "note: this project's `secrets`, `permit`, `timeout` would loosen your configuration and is not applied; \
                run `callsheet config show` for details, `callsheet trust` to apply it\n";
    assert!(output.err().contains(note), "{}", output.err());
}

/// A flag overrides everything except the hard limits.
#[test]
fn flags_win_within_hard_limits() {
    let project = CanaryProject::new();
    let all = [
        "run",
        "--json",
        "--dry-run",
        "--permit",
        "all",
        "--timeout",
        "9h",
        "--max-cost",
        "9",
        "-a",
        "claude",
        "x",
    ];
    project.write_program("claude", "#!/bin/sh\n");
    let launch = |project: &CanaryProject| {
        let output = project.run(all);
        assert_eq!(output.code, Some(0), "{}", output.err());
        let launch = serde_json::from_str::<Value>(&output.out()).unwrap()["launch"].clone();
        (
            launch["permit"].clone(),
            launch["timeout_ms"].clone(),
            launch["max_cost_microusd"].clone(),
            launch["scope"]["exclude"].clone(),
        )
    };
    project.write_beside(
        "home/.config/callsheet/config.toml",
        "permit = \"ask\"\ntimeout = \"1h\"\nmax_cost = 1.0\n",
    );
    assert_eq!(launch(&project), (json!("all"), json!(9 * 3_600_000), json!(9_000_000), json!([])));
    let hard = "[hard]\npermit = \"edit\"\ntimeout = \"2h\"\nmax_cost = 3.0\nexclude = [\"k/**\"]\nsecrets = \"refuse\"\n";
    project.write_beside("home/.config/callsheet/config.toml", hard);
    assert_eq!(launch(&project), (json!("edit"), json!(2 * 3_600_000), json!(3_000_000), json!(["k/**"])));
    let token = format!("gh{}_{}", "p", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let output = project.run(["compose", "-q", "--secrets", "allow", &token]);
    assert_eq!(output.code, Some(9), "{} {}", output.out(), output.err());
}

#[test]
fn project_cannot_set_hard_limits() {
    let project = CanaryProject::new();
    project.write(".callsheet/config.toml", "[hard]\npermit = \"all\"\n");
    let output = project.run(["config", "show"]);
    assert_eq!(output.code, Some(3));
    assert!(
        output.err().starts_with(
            "error[ConfigBad]: `project:.callsheet/config.toml`: only the user's configuration can set `[hard]`\n"
        ),
        "{}",
        output.err()
    );
}

const LAST_VERDICT: &str = "\n[[verdict]]\nname = \"MAJOR_ISSUES\"\n\
                            when = \"a security hole, lost data, or an approach that has to be redone\"\n";

fn shipped_flows() -> Vec<(String, Flow)> {
    let (library, layout) = (Library::new(&Builtin), Layout::default());
    let names = list_names(&Builtin, "flows", &layout);
    names.into_iter().map(|name| (name.clone(), find_flow(&library, &name, &layout).unwrap().1)).collect()
}

fn shipped_contracts() -> Vec<(String, Contract)> {
    let (library, layout) = (Library::new(&Builtin), Layout::default());
    let names = list_names(&Builtin, "contracts", &layout);
    names.into_iter().map(|name| (name.clone(), find_contract(&library, &name, &layout).unwrap().1)).collect()
}

/// Every way to remove something from a flow, and some ways to add something.
#[test]
fn weaker_flow_is_detected() {
    let (mut weaker, mut stronger) = (0, 0);
    for (name, flow) in shipped_flows() {
        assert_eq!(flow.list_weaknesses(&flow), [""; 0], "{name}");
        let mut weak: Vec<(String, Flow)> = Vec::new();
        let mut strong: Vec<(String, Flow)> = Vec::new();
        for at in 0..flow.phase.len() {
            let changed = |what: &str, change: &dyn Fn(&mut callsheet_core::flow::Phase)| {
                let mut flow = flow.clone();
                change(&mut flow.phase[at]);
                (format!("{name} {at} {what}"), flow)
            };
            let phase = &flow.phase[at];
            let mut without = flow.clone();
            without.phase.remove(at);
            weak.push((format!("{name} without phase {at}"), without));
            if phase.limit.is_some() {
                weak.push(changed("no limit", &|phase| phase.limit = None));
                weak.push(changed("a higher limit", &|phase| {
                    phase.limit = phase.limit.map(|limit| limit + 1)
                }));
            }
            strong.push(changed("a limit", &|phase| phase.limit = Some(1)));
            weak.push(changed("another contract", &|phase| phase.contract = Some("other".into())));
            if !phase.optional {
                weak.push(changed("optional", &|phase| phase.optional = true));
            }
            weak.push(changed("approval", &|phase| phase.approve = Some("elsewhere".into())));
            weak.push(changed("shortcut", &|phase| {
                phase.on.insert(
                    0,
                    callsheet_core::flow::PhaseTransition { needs: vec!["exit".into()], to: "done".into() },
                );
            }));
            if !phase.outputs.is_empty() {
                weak.push(changed("outputs", &|phase| drop(phase.outputs.pop())));
            }
            if !phase.reviewer.is_empty() {
                weak.push(changed("reviewer", &|phase| drop(phase.reviewer.pop())));
            }
            for on in 0..phase.on.len() {
                weak.push(changed(&format!("without {on}"), &|phase| drop(phase.on.remove(on))));
                weak.push(changed(&format!("{on} elsewhere"), &|phase| phase.on[on].to = "elsewhere".into()));
                for need in 0..phase.on[on].needs.len() {
                    weak.push(changed(&format!("{on} without {need}"), &|phase| {
                        drop(phase.on[on].needs.remove(need))
                    }));
                }
                strong.push(changed(&format!("{on} with more"), &|phase| {
                    phase.on[on].needs.push("check.x".into())
                }));
            }
            if phase.on.len() > 1 {
                weak.push(changed("turned round", &|phase| phase.on.reverse()));
            }
        }
        for (what, own) in &weak {
            assert_ne!(own.list_weaknesses(&flow), [""; 0], "{what}");
        }
        for (what, own) in &strong {
            assert_eq!(own.list_weaknesses(&flow), [""; 0], "{what}");
        }
        weaker += weak.len();
        stronger += strong.len();
    }
    assert!(weaker > 100 && stronger > 20, "{weaker} {stronger}");
    crate::print_measurement(&format!("{weaker} weaker flows known, {stronger} stronger ones let through"));
}

#[test]
fn weaker_contract_is_detected() {
    let mut weaker = 0;
    for (name, contract) in shipped_contracts() {
        assert_eq!(contract.find_weakenings(&contract), [""; 0], "{name}");
        let mut weak: Vec<Contract> = Vec::new();
        let mut changed = |change: &dyn Fn(&mut Contract)| {
            let mut own = contract.clone();
            change(&mut own);
            weak.push(own);
        };
        if !contract.verdict.is_empty() {
            changed(&|own| drop(own.verdict.pop()));
            changed(&|own| own.verdict.reverse());
            changed(&|own| own.verdict.clear());
        }
        if !contract.task_status.is_empty() {
            changed(&|own| own.task_status.clear());
        }
        if !contract.part.is_empty() {
            changed(&|own| drop(own.part.pop()));
        }
        if let Some(submission) = &contract.submission {
            changed(&|own| own.submission = None);
            changed(&|own| own.submission.as_mut().unwrap().roles.push("anybody".into()));
            if !submission.needs.is_empty() {
                changed(&|own| own.submission.as_mut().unwrap().needs.clear());
            }
            for (at, field) in submission.field.iter().enumerate() {
                changed(&|own| drop(own.submission.as_mut().unwrap().field.remove(at)));
                if field.required != FieldRequirement::Always(false) {
                    changed(&|own| {
                        own.submission.as_mut().unwrap().field[at].required = FieldRequirement::Always(false)
                    });
                }
                if field.at_least.is_some() {
                    changed(&|own| own.submission.as_mut().unwrap().field[at].at_least = None);
                }
                if !field.choices.is_empty() {
                    changed(&|own| own.submission.as_mut().unwrap().field[at].choices.push("fine".into()));
                }
                if !field.field.is_empty() {
                    changed(&|own| drop(own.submission.as_mut().unwrap().field[at].field.remove(0)));
                }
            }
        }
        for own in &weak {
            assert_ne!(own.find_weakenings(&contract), [""; 0], "{name}: {own:?}");
        }
        weaker += weak.len();
    }
    assert!(weaker > 50, "{weaker}");
    crate::print_measurement(&format!("{weaker} weaker contracts known"));
}

/// Uses the program: a weaker file needs trust, a stronger one is announced.
#[test]
fn weaker_overrides_need_trust() {
    let project = CanaryProject::new();
    let shipped = |path: &str| callsheet_core::FILES.iter().find(|(name, _)| *name == path).unwrap().1;
    let run = ["run", "-p", "review", "-r", "unified", "x", "--", "true"];
    project.write(".callsheet/contracts/review.toml", shipped("contracts/review.toml"));
    project.write(".callsheet/recipes/unified.toml", shipped("recipes/unified.toml"));
    project.write(".callsheet/flows/sdd.toml", shipped("flows/sdd.toml").replace("limit = 3", "limit = 2"));
    let output = project.run(run);
    let notes: Vec<String> =
        output.err().lines().filter(|line| line.starts_with("note:")).map(str::to_owned).collect();
    assert_eq!(
        notes,
        [
            "note: the recipe `unified` is this project's own, project:.callsheet/recipes/unified.toml",
            "note: the contract `review` is this project's own, project:.callsheet/contracts/review.toml",
        ],
        "{}",
        output.err()
    );
    assert_ne!(output.code, Some(10), "{}", output.err());
    let flow = project.run(["flow", "start", "sdd", "x", "--", "true"]);
    assert!(flow.err().contains("note: the flow `sdd` is this project's own"), "{}", flow.err());
    for (path, from, to) in [
        ("flows/sdd.toml", "limit = 3", "limit = 9"),
        ("flows/sdd.toml", "\"clean\", \"checks-or-none\"]", "\"clean\"]"),
        ("contracts/review.toml", LAST_VERDICT, ""),
    ] {
        let project = CanaryProject::new();
        let weak = shipped(path).replace(from, to);
        assert_ne!(weak, shipped(path), "{path}");
        project.write(&format!(".callsheet/{path}"), weak);
        for command in [&run[..], &["flow", "start", "sdd", "x", "--", "true"], &["read", "-p", "review"]] {
            let output = project.run(command);
            assert_eq!(output.code, Some(10), "{path} {command:?} {}", output.err());
        }
        assert_eq!(project.run(["trust", "--yes"]).code, Some(0));
        assert_ne!(project.run(run).code, Some(10), "{path}");
    }
    let project = CanaryProject::new();
    project.write(".callsheet/templates/identity/supervisor.md", "You.");
    assert!(
        project
            .run(["compose", "-v", "x"])
            .err()
            .contains("`templates/identity/supervisor.md` is this project's own")
    );
    assert!(!project.run(["compose", "x"]).err().contains("this project's own"));
}
