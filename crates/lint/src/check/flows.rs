//! Flows: checks that the files they name exist, that every phase is reached, and that no loop is endless.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::catalog::{CatalogFile, SourceCatalog, is_agent, value_range_in};
use crate::check::{LintProblems, find_missing_paths, missing_template_error, suggest_path, with_file};
use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::flow::{
    EvidenceNeed, Flow, Phase, PhaseRequest, TransitionTarget, parse_need, read_flow,
};
use callsheet_core::library::contract::{self, Contract, FieldType};
use callsheet_core::library::recipe::RequestField;
use callsheet_core::text::SharedText;

pub(super) fn check(
    catalog: &SourceCatalog,
    file: &CatalogFile,
    text: &SharedText,
    problems: &mut LintProblems,
) {
    let flow = match read_flow(&file.id, text) {
        Ok(flow) => flow,
        Err(Diagnostics(wrong)) => {
            wrong.into_iter().for_each(|problem| problems.add(&file.id, with_file(&file.id, problem)));
            return;
        }
    };
    let mut check = FlowCheck { catalog, file, text, flow: &flow, problems };
    for (at, phase) in flow.phase.iter().enumerate() {
        check.check_names(at, phase);
        check.check_verdicts(at, phase);
    }
    check.check_reachability();
    check.check_loops();
}

struct FlowCheck<'c> {
    catalog: &'c SourceCatalog,
    file: &'c CatalogFile,
    text: &'c SharedText,
    flow: &'c Flow,
    problems: &'c mut LintProblems,
}

impl<'c> FlowCheck<'c> {
    fn add(&mut self, problem: Diagnostic, at: usize, keys: &[&str]) {
        let at = at.to_string();
        let span = value_range_in(self.text, &[&["phase", &at], keys].concat());
        self.problems.add(&self.file.id, problem.at(&self.file.id, self.text, span.start..span.end));
    }

    fn add_missing(&mut self, code: Code, path: &str, at: usize, keys: &[&str]) {
        let (folder, name) = path.trim_end_matches(".toml").split_once('/').unwrap_or(("files", path));
        let message = format!("unknown {} `{name}`", folder.trim_end_matches('s'));
        let error = Diagnostic::error(code, message).searched(self.catalog.candidate_places(path));
        let error = suggest_path(self.catalog, error, path);
        self.add(error, at, keys);
    }

    fn check_names(&mut self, at: usize, phase: &Phase) {
        let exists = |path: &str| self.catalog.files.winner(path).is_some();
        let (recipe, contract) = (format!("recipes/{}.toml", phase.recipe), contract_path(phase));
        let no_recipe = !exists(&recipe);
        let no_contract = contract.filter(|path| !exists(path));
        if no_recipe {
            self.add_missing(Code::RecipeNotFound, &recipe, at, &["recipe"]);
        }
        if let Some(contract) = no_contract {
            self.add_missing(Code::ContractNotFound, &contract, at, &["contract"]);
        }
        if let Some(agent) =
            phase.agent.as_ref().filter(|agent| !is_agent(&self.catalog.agents, agent, false))
        {
            self.add_missing(Code::AgentNotFound, &format!("agents/{agent}.toml"), at, &["agent"]);
        }
        self.check_templates(at, phase, &phase.ask, &["ask"]);
        if let Some(again) = &phase.again {
            self.check_templates(at, phase, &again.ask, &["again", "ask"]);
        }
    }

    /// Checks that every block of the recipe that a request of the phase does not skip finds its template.
    fn check_templates(&mut self, at: usize, phase: &Phase, ask: &PhaseRequest, keys: &[&str]) {
        let path = format!("recipes/{}.toml", phase.recipe);
        let winner = self.catalog.files.winner(&path).map(|file| &file.id);
        let recipe = self.catalog.recipes.iter().find(|recipe| Some(&recipe.id) == winner);
        let Some(recipe) = recipe else { return };
        let kinds: &[&str] =
            if ask.role.iter().any(|role| role.contains("{type}")) { &["code", "web"] } else { &[""] };
        let mut missing: Vec<Vec<String>> = Vec::new();
        for kind in kinds {
            let role = ask.role.as_ref().map(|role| role.replace("{type}", kind));
            let agent = phase.agent.as_deref().unwrap_or("base");
            let given = |field: RequestField| match field {
                RequestField::Agent => Some(agent),
                RequestField::Phase => ask.phase.as_deref(),
                RequestField::Role => role.as_deref(),
                RequestField::Command => ask.command.as_deref(),
            };
            missing.extend(
                recipe.blocks().filter_map(|(_, block)| find_missing_paths(self.catalog, block, given)),
            );
        }
        let field = [("phase", &ask.phase), ("role", &ask.role), ("command", &ask.command)];
        let field = field.into_iter().find(|(_, given)| given.is_some()).map_or("phase", |(field, _)| field);
        for paths in missing {
            let message = format!("no `{}`", paths.join("` or `"));
            let error = missing_template_error(self.catalog, message, &paths);
            self.add(error, at, &[keys, &[field]].concat());
        }
    }

    /// Checks that the flow has a transition for every reply that the contract allows.
    fn check_verdicts(&mut self, at: usize, phase: &Phase) {
        let file = contract_path(phase).and_then(|path| self.catalog.files.winner(&path));
        let text = file.and_then(|file| Some((&file.id, file.text.as_ref().ok()?)));
        let contract = text.and_then(|(id, text)| contract::read_contract(id, text).ok());
        let Some(contract) = contract else { return };
        let words = allowed_outcomes(&contract);
        let needs = || phase.on.iter().flat_map(|on| on.needs.iter().filter_map(|word| parse_need(word)));
        let reads_reply = |needs: &[String]| {
            needs.iter().any(|word| matches!(parse_need(word), Some(EvidenceNeed::Reply(_))))
        };
        // A transition that needs no reply accepts every one.
        if phase.on.iter().all(|on| reads_reply(&on.needs)) {
            let said = |word: &str| needs().any(|need| need == EvidenceNeed::Reply(word));
            let unsaid: Vec<String> =
                words.iter().filter(|word| !said(word)).map(|word| format!("`{word}`")).collect();
            if !unsaid.is_empty() {
                let message = format!("`{}` has no transition for {}", phase.name, unsaid.join(", "));
                let error = Diagnostic::error(Code::FlowVerdict, message);
                self.add(
                    error.hint("add a `[[phase.on]]` that needs it; `to = \"person\"` asks a person"),
                    at,
                    &["name"],
                );
            }
        }
        let foreign = needs().filter_map(|need| match need {
            EvidenceNeed::Reply(word) if !words.iter().any(|known| known == word) => Some(word.to_string()),
            _ => None,
        });
        for word in foreign.collect::<BTreeSet<_>>() {
            let name = phase.contract.as_deref().unwrap_or_default();
            let message = format!("`{}` needs `reply.{word}`, which `{name}` does not allow", phase.name);
            let error = Diagnostic::error(Code::FlowVerdict, message)
                .suggest(&word, words.iter().map(String::as_str));
            self.add(error, at, &["name"]);
        }
    }

    fn check_reachability(&mut self) {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> =
            self.flow.phase.first().map(|first| first.name.as_str()).into_iter().collect();
        while let Some(name) = open.pop() {
            if let Some(phase) = self.flow.phase(name).filter(|_| reached.insert(name)) {
                let targets =
                    phase.on.iter().map(|on| TransitionTarget::new(&on.to)).chain([phase.approval_target()]);
                open.extend(targets.filter_map(|target| match target {
                    TransitionTarget::Phase(name) => Some(name),
                    _ => None,
                }));
                open.push(phase.changes_phase());
            }
        }
        for (at, phase) in
            self.flow.phase.iter().enumerate().filter(|(_, phase)| !reached.contains(phase.name.as_str()))
        {
            let error =
                Diagnostic::error(Code::FlowUnreachable, format!("nothing leads to `{}`", phase.name));
            self.add(error.hint("add a transition to it, or remove it"), at, &["name"]);
        }
    }

    /// Reports every phase without a limit that leads to itself through others without one.
    fn check_loops(&mut self) {
        let mut reported: BTreeSet<&str> = BTreeSet::new();
        for (at, phase) in self.flow.phase.iter().enumerate() {
            let ahead = self.unlimited_successors(&phase.name);
            if !ahead.contains(phase.name.as_str()) || reported.contains(phase.name.as_str()) {
                continue;
            }
            let in_loop = |name: &&str| self.unlimited_successors(name).contains(phase.name.as_str());
            let names: BTreeSet<&str> = ahead.iter().copied().filter(in_loop).collect();
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            reported.extend(names);
            let error =
                Diagnostic::error(Code::FlowLoop, format!("nothing ends the loop of {}", quoted.join(", ")));
            let hint = "give one of them a `limit`; a person is asked when it is reached";
            self.add(error.hint(hint), at, &["name"]);
        }
    }

    /// Returns every phase that can follow through phases without a limit.
    fn unlimited_successors(&self, name: &str) -> BTreeSet<&'c str> {
        let flow = self.flow;
        let unlimited = |name: &str| flow.phase(name).is_some_and(|phase| phase.limit.is_none());
        let mut ahead = BTreeSet::new();
        let mut open = if unlimited(name) { next_phases(flow, name) } else { Vec::new() };
        while let Some(name) = open.pop() {
            if unlimited(name) && ahead.insert(name) {
                open.extend(next_phases(flow, name));
            }
        }
        ahead
    }
}

/// Returns the phases that follow without a person.
fn next_phases<'f>(flow: &'f Flow, name: &str) -> Vec<&'f str> {
    let Some(phase) = flow.phase(name) else { return Vec::new() };
    let mut next = Vec::new();
    for on in &phase.on {
        match TransitionTarget::new(&on.to) {
            TransitionTarget::Phase(name) => next.push(name),
            TransitionTarget::Back => {
                let leads_here = |other: &&Phase| other.on.iter().any(|on| on.to == name);
                next.extend(flow.phase.iter().filter(leads_here).map(|phase| phase.name.as_str()));
            }
            TransitionTarget::Person | TransitionTarget::Done => {}
        }
    }
    next
}

fn contract_path(phase: &Phase) -> Option<String> {
    phase.contract.as_ref().map(|contract| format!("contracts/{contract}.toml"))
}

/// Returns the outcomes that a contract allows for a reply.
fn allowed_outcomes(contract: &Contract) -> Vec<String> {
    let mut words: Vec<String> = contract.verdict.iter().map(|verdict| verdict.name.clone()).collect();
    let fields = contract.submission.iter().flat_map(|submission| &submission.field);
    let has_verdict = |name: &str, kind: FieldType| name == "verdict" && kind == FieldType::Choice;
    if fields.into_iter().any(|field| has_verdict(&field.name, field.kind)) {
        words.extend(["PASS", "NEEDS_CHANGES"].map(String::from));
    }
    if !contract.task_status.is_empty() {
        words.push("complete".to_string());
    }
    words
}
