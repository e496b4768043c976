//! System templates: the names of their files, and the four parts that each of them has.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::catalog::{CatalogFile, SourceCatalog, is_agent};
use crate::check::LintProblems;
use crate::markdown::{fence_mark, heading_level};
use callsheet_core::diag::{Code, Diagnostic, find_closest};
use callsheet_core::library::lookup::fragment_path;
use callsheet_core::library::template::{Template, TemplateNode, TemplateNotation};
use callsheet_core::text::name::is_name;

const PARTS: [&str; 4] = ["# Identity", "## Core Principles", "## Context", "## Workflow"];

/// Returns the problem with the name of a file in `system/`.
pub(super) fn check_file_name(catalog: &SourceCatalog, file: &CatalogFile) -> Option<Diagnostic> {
    let name = file.path.strip_prefix("templates/system/")?;
    let error = |why: String| {
        let message = format!("`{}` is not named `[AGENT]-[PHASE].md`: {why}", file.id);
        Some(Diagnostic::error(Code::SystemMisnamed, message))
    };
    if name.contains('/') {
        return error("it is in a folder of its own".into());
    }
    let Some(stem) = name.strip_suffix(".md") else { return error("it does not end in `.md`".into()) };
    if let Some((agent, _)) = catalog.agent_and_phase(stem) {
        if is_agent(&catalog.agents, agent, true) {
            return None;
        }
        let file_name = format!("agents/{}.toml", agent.to_ascii_lowercase());
        let known = catalog.agents.iter().map(String::as_str).chain(["base"]);
        // A template is enough to compose for an agent; it may also be a typo.
        let message = format!("`{}` is for an agent without a definition: no `{file_name}`", file.id);
        let warning = Diagnostic::warning(Code::SystemMisnamed, message).suggest(agent, known);
        return Some(warning.searched(catalog.candidate_places(&file_name)));
    }
    let Some((agent, phase)) = stem.rsplit_once('-') else {
        return error("it has no `-` between an agent and a phase".into());
    };
    if !is_name(stem) || phase.is_empty() {
        return error(
            "agent and phase hold only letters, digits, `_` and `-`, and begin with a letter or digit".into(),
        );
    }
    let wrong = if agent.contains(|c: char| c.is_ascii_lowercase()) {
        format!("the agent `{agent}` is not in upper case")
    } else {
        format!("the phase `{phase}` is not in lower case")
    };
    let right = format!("{}-{}.md", agent.to_ascii_uppercase(), phase.to_ascii_lowercase());
    error(wrong).map(|error| error.hint(format!("rename it to `{right}`")))
}

/// A heading of a text, and whether it has text below it up to the next one.
struct TemplateHeading {
    /// The heading in its canonical form: `## Context`.
    line: String,
    /// Its range in the file, if it is not in a fragment.
    range: Option<Range<usize>>,
    level: usize,
    has_text: bool,
}

/// Reports each of the four parts that is missing or empty.
pub(super) fn check_parts(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    let Some(template) = file.template(TemplateNotation::Braces) else { return };
    let headings = find_headings(&FlattenedTemplate::new(catalog, template));
    for part in PARTS {
        let Some(at) = headings.iter().position(|heading| heading.line == part) else {
            problems.add(&file.id, missing_part_error(template, part, &headings));
            continue;
        };
        let level = headings[at].level;
        // Text below a deeper heading belongs to the part; another part never does.
        let inside = headings[at + 1..]
            .iter()
            .take_while(|next| next.level > level && !PARTS.contains(&next.line.as_str()));
        if !headings[at].has_text && !inside.into_iter().any(|heading| heading.has_text) {
            problems.add(
                &file.id,
                part_error(template, &format!("the part `{part}` is empty"), headings[at].range.clone()),
            );
        }
    }
}

fn missing_part_error(template: &Template, part: &str, headings: &[TemplateHeading]) -> Diagnostic {
    let message = format!("the part `{part}` is missing");
    let words = |line: &str| line.trim_start_matches('#').trim().to_string();
    let others = headings.iter().filter(|heading| !PARTS.contains(&heading.line.as_str()));
    let near = others
        .filter(|heading| find_closest(&words(&heading.line), [words(part).as_str()]).is_some())
        .find_map(|heading| heading.range.clone());
    match near {
        Some(range) => part_error(template, &message, Some(range)).hint(format!("write it as `{part}`")),
        None => part_error(template, &message, None),
    }
}

fn part_error(template: &Template, what: &str, range: Option<Range<usize>>) -> Diagnostic {
    match range {
        Some(range) => Diagnostic::error(Code::SystemPart, what).at(&template.id, &template.text, range),
        None => Diagnostic::error(Code::SystemPart, format!("`{}`: {what}", template.id)),
    }
}

fn find_headings(flat: &FlattenedTemplate) -> Vec<TemplateHeading> {
    let mut headings: Vec<TemplateHeading> = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let mut at = 0;
    for line in flat.text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bare = line.trim_start_matches(' ');
        let indent = line.len() - bare.len();
        let bare = bare.trim_end();
        if let Some(mark) = fence_mark(bare).filter(|_| indent <= 3) {
            let closes = fence.is_some_and(|(c, length)| {
                mark.0 == c && mark.1 >= length && bare.trim_start_matches(c).is_empty()
            });
            fence = match fence {
                None => Some(mark),
                Some(_) if closes => None,
                open => open,
            };
        }
        if let Some(level) = heading_level(bare).filter(|_| indent <= 3 && fence.is_none()) {
            let words = bare[level..].trim_end_matches('#').trim();
            let line = format!("{} {words}", "#".repeat(level));
            let range = flat.file_range(start + indent, bare.len());
            headings.push(TemplateHeading { line, range, level, has_text: false });
        } else if let Some(last) = headings.last_mut() {
            last.has_text |= !bare.is_empty();
        }
    }
    headings
}

/// A template's text with its fragments inserted, so that a part may come from a fragment.
#[derive(Default)]
struct FlattenedTemplate {
    text: String,
    /// The offset in `text` of a piece of the file itself, its length, and its offset in the file.
    own: Vec<(usize, usize, usize)>,
}

impl FlattenedTemplate {
    fn new(catalog: &SourceCatalog, template: &Template) -> Self {
        let mut flat = Self::default();
        flat.add(catalog, template, &mut Vec::new());
        flat
    }

    fn add(&mut self, catalog: &SourceCatalog, template: &Template, open: &mut Vec<String>) {
        for node in &template.nodes {
            match node {
                TemplateNode::Text(span) => {
                    let text = span.slice(&template.text);
                    if open.is_empty() {
                        self.own.push((self.text.len(), text.len(), span.start));
                    }
                    self.text.push_str(text);
                }
                // Any value here counts as text.
                TemplateNode::Slot(name) => self.text.push_str(name.slice(&template.text)),
                TemplateNode::Include(_) => self.text.push('…'),
                TemplateNode::Fragment(name) => {
                    let path = fragment_path(name.slice(&template.text));
                    let fragment =
                        catalog.files.winner(&path).and_then(|file| file.template(TemplateNotation::Braces));
                    if let Some(fragment) = fragment.filter(|_| !open.contains(&path)) {
                        open.push(path);
                        self.add(catalog, fragment, open);
                        open.pop();
                    }
                }
            }
        }
    }

    /// Returns the range in the file itself.
    fn file_range(&self, start: usize, length: usize) -> Option<Range<usize>> {
        let piece = self.own.iter().find(|(at, size, _)| (*at..at + size).contains(&start))?;
        let start = piece.2 + (start - piece.0);
        Some(start..start + length)
    }
}
