//! Instruction units: what the BASE template of a phase demands, every agent's own template demands too.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::{CatalogFile, SourceCatalog};
use crate::check::LintProblems;
use crate::diag::{Code, Diagnostic};
use crate::template::{Template, TemplateNotation};
use crate::unit::Clause;

/// Compares an agent's own template with the BASE one of its phase. What is missing or empty is an error; what is
/// changed or added has to be named in `differs`.
pub(super) fn check(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    let stem = file.path.strip_prefix("templates/system/").and_then(|name| name.strip_suffix(".md"));
    let Some((agent, phase)) = stem.and_then(|stem| catalog.agent_and_phase(stem)) else { return };
    let template = |file: &CatalogFile| file.template(TemplateNotation::Braces).cloned();
    let Some(own) = template(file) else { return };
    check_duplicates(&own, problems);
    // What another file hides is asked for nowhere.
    let hidden = catalog.files.winner(&file.path).is_none_or(|winner| winner.id != file.id);
    if agent == "BASE" || hidden {
        return;
    }
    let base = catalog.files.winner(&format!("templates/system/BASE-{phase}.md")).and_then(template);
    let Some(base) = base else { return };
    let mut missing = Vec::new();
    for unit in &base.units {
        let name = unit.id.of(&base.text);
        match find(&own, name) {
            None => missing.push(format!("`{name}`")),
            Some(found) if words(&own, found).is_empty() => {
                add(problems, &own, found, format!("the unit `{name}` is empty"));
            }
            Some(found) => {
                let changed = words(&own, found) != words(&base, unit);
                let declared = own.front.differs.iter().any(|known| known == name);
                if changed && !declared {
                    let message = format!("the unit `{name}` is changed: `{}` words it otherwise", base.id);
                    push_undeclared(problems, &own, found, message);
                } else if declared && !changed {
                    let message =
                        format!("`differs` names the unit `{name}`, which says what `{}` says", base.id);
                    add(problems, &own, found, message);
                }
            }
        }
    }
    if !missing.is_empty() {
        let message = format!("`{}` lacks units of `{}`: {}", own.id, base.id, missing.join(", "));
        let hint = "say each of them, with its mark `<!-- unit: NAME -->` at the end";
        problems.add(&own.id, Diagnostic::error(Code::TemplateUnit, message).hint(hint));
    }
    for unit in &own.units {
        let name = unit.id.of(&own.text);
        if find(&base, name).is_none() && !own.front.differs.iter().any(|known| known == name) {
            push_undeclared(
                problems,
                &own,
                unit,
                format!("the unit `{name}` is extra: `{}` has none of that name", base.id),
            );
        }
    }
    for name in own.front.differs.iter().filter(|name| find(&own, name).is_none()) {
        let message = format!("`{}`: `differs` names a unit `{name}`, which it does not have", own.id);
        problems.add(&own.id, Diagnostic::error(Code::TemplateUnit, message));
    }
}

/// An id stands for one statement.
fn check_duplicates(template: &Template, problems: &mut LintProblems) {
    for (at, unit) in template.units.iter().enumerate() {
        let name = unit.id.of(&template.text);
        if template.units[..at].iter().any(|before| before.id.of(&template.text) == name) {
            add(problems, template, unit, format!("there are two units `{name}`"));
        }
    }
}

fn find<'t>(template: &'t Template, name: &str) -> Option<&'t Clause> {
    template.units.iter().find(|unit| unit.id.of(&template.text) == name)
}

/// What a unit says, however its lines are broken.
fn words(template: &Template, unit: &Clause) -> String {
    let words: Vec<&str> = unit.words.of(&template.text).split_whitespace().collect();
    words.join(" ")
}

fn add(problems: &mut LintProblems, template: &Template, unit: &Clause, message: String) {
    let error = Diagnostic::error(Code::TemplateUnit, message);
    problems.add(&template.id, error.at(&template.id, &template.text, unit.id.start..unit.id.end));
}

/// Like [`add`], for what is fine once it is said to be meant.
fn push_undeclared(problems: &mut LintProblems, template: &Template, unit: &Clause, message: String) {
    let error = Diagnostic::error(Code::TemplateUnit, message)
        .at(&template.id, &template.text, unit.id.start..unit.id.end)
        .hint("name what differs on purpose in `differs` of the frontmatter");
    problems.add(&template.id, error);
}
