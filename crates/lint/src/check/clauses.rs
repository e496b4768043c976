//! Clauses: every clause that the BASE template of a phase has must be in each agent's own template too.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::{CatalogFile, SourceCatalog};
use crate::check::LintProblems;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::clause::Clause;
use callsheet_core::library::template::{Template, TemplateNotation};

/// Compares an agent's own template with the BASE one of its phase. A missing or empty clause is an error; a
/// changed or added one must be named in `differs`.
pub(super) fn check(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    let stem = file.path.strip_prefix("templates/system/").and_then(|name| name.strip_suffix(".md"));
    let Some((agent, phase)) = stem.and_then(|stem| catalog.agent_and_phase(stem)) else { return };
    let template = |file: &CatalogFile| file.template(TemplateNotation::Braces).cloned();
    let Some(own) = template(file) else { return };
    check_duplicates(&own, problems);
    // A hidden file is never used.
    let hidden = catalog.files.winner(&file.path).is_none_or(|winner| winner.id != file.id);
    if agent == "BASE" || hidden {
        return;
    }
    let base = catalog.files.winner(&format!("templates/system/BASE-{phase}.md")).and_then(template);
    let Some(base) = base else { return };
    let mut missing = Vec::new();
    for clause in &base.clauses {
        let name = clause.id.slice(&base.text);
        match find_clause(&own, name) {
            None => missing.push(format!("`{name}`")),
            Some(found) if clause_words(&own, found).is_empty() => {
                push_error(problems, &own, found, format!("the clause `{name}` is empty"));
            }
            Some(found) => {
                let changed = clause_words(&own, found) != clause_words(&base, clause);
                let declared = own.front.differs.iter().any(|known| known == name);
                if changed && !declared {
                    let message = format!("the clause `{name}` differs from `{}`", base.id);
                    push_undeclared(problems, &own, found, message);
                } else if declared && !changed {
                    let message =
                        format!("`differs` names the clause `{name}`, which equals that of `{}`", base.id);
                    push_error(problems, &own, found, message);
                }
            }
        }
    }
    if !missing.is_empty() {
        let message = format!("`{}` lacks clauses of `{}`: {}", own.id, base.id, missing.join(", "));
        let hint = "add each of them, and end it with its mark `<!-- unit: NAME -->`";
        problems.add(&own.id, Diagnostic::error(Code::TemplateUnit, message).hint(hint));
    }
    for clause in &own.clauses {
        let name = clause.id.slice(&own.text);
        if find_clause(&base, name).is_none() && !own.front.differs.iter().any(|known| known == name) {
            push_undeclared(
                problems,
                &own,
                clause,
                format!("the clause `{name}` is extra: `{}` does not have it", base.id),
            );
        }
    }
    for name in own.front.differs.iter().filter(|name| find_clause(&own, name).is_none()) {
        let message = format!("`{}`: `differs` names the unknown clause `{name}`", own.id);
        problems.add(&own.id, Diagnostic::error(Code::TemplateUnit, message));
    }
}

/// Checks that an id names one clause only.
fn check_duplicates(template: &Template, problems: &mut LintProblems) {
    for (at, clause) in template.clauses.iter().enumerate() {
        let name = clause.id.slice(&template.text);
        if template.clauses[..at].iter().any(|before| before.id.slice(&template.text) == name) {
            push_error(problems, template, clause, format!("duplicate clause `{name}`"));
        }
    }
}

fn find_clause<'t>(template: &'t Template, name: &str) -> Option<&'t Clause> {
    template.clauses.iter().find(|clause| clause.id.slice(&template.text) == name)
}

/// Returns the words of a clause, regardless of line breaks.
fn clause_words(template: &Template, clause: &Clause) -> String {
    let words: Vec<&str> = clause.words.slice(&template.text).split_whitespace().collect();
    words.join(" ")
}

fn push_error(problems: &mut LintProblems, template: &Template, clause: &Clause, message: String) {
    problems.add(&template.id, clause_error(template, clause, message));
}

/// Adds a difference that is fine once it is declared.
fn push_undeclared(problems: &mut LintProblems, template: &Template, clause: &Clause, message: String) {
    let hint = "list intended differences in `differs` of the frontmatter";
    problems.add(&template.id, clause_error(template, clause, message).hint(hint));
}

fn clause_error(template: &Template, clause: &Clause, message: String) -> Diagnostic {
    let range = clause.id.start..clause.id.end;
    Diagnostic::error(Code::TemplateUnit, message).at(&template.id, &template.text, range)
}
