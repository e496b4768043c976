//! The tasks of `tasks.md`: all of them, or those picked by their ids.
//!
//! It reads two forms: list items with a check box, and YAML in code fences. A task is a range of the file,
//! so its words stay unchanged.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use super::{file_row, use_value};
use crate::compose::fill::DerivedRow;
use crate::compose::{Composer, supplied_block};
use crate::diag::{Code, Diagnostic};
use crate::library::lookup;
use crate::prompt::Piece;
use crate::source::{SourceId, SourceRoot};

pub(super) fn task_list_rows(c: &mut Composer<'_>, name: &str) -> Option<Vec<DerivedRow>> {
    let id = SourceId::new(SourceRoot::Session, "tasks.md").ok()?;
    let picked = use_value(c, "tasks");
    let whole = file_row(c, name, &id);
    let Some(picked) = picked else { return Some(alloc::vec![whole?]) };
    let text = match lookup::read_source(&c.library.sources, &id) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => return None,
    };
    let tasks = parse_tasks(&text);
    let mut rows = Vec::new();
    let mut unknown = Vec::new();
    let mut seen = BTreeSet::new();
    let wanted = picked.split(',').map(str::trim).filter(|id| !id.is_empty() && seen.insert(*id));
    for wanted in wanted {
        let found: Vec<&TaskEntry> = tasks.iter().filter(|task| &text[task.id.clone()] == wanted).collect();
        if found.is_empty() {
            unknown.push(wanted);
        }
        for task in found {
            let origin = c.source_origin(&id, &text);
            let piece = Piece { origin, start: task.words.start, end: task.words.end };
            rows.push(DerivedRow {
                kind: "task",
                fields: alloc::vec![("content", supplied_block(name, piece))],
            });
        }
    }
    if !unknown.is_empty() || seen.is_empty() {
        let message = match unknown.is_empty() {
            true => "the value `tasks` selects no task".into(),
            false => format!("`tasks.md` has no task {}", quote_ids(&unknown)),
        };
        let known: Vec<&str> = tasks.iter().map(|task| &text[task.id.clone()]).collect();
        let hint = match known.is_empty() {
            true => "a task begins `- [ ] 1.1 …`, or is YAML in a code fence with `id: 1.1`".into(),
            false => format!("its tasks: {}", quote_ids(&known)),
        };
        c.errors.push(Diagnostic::error(Code::RequestBad, message).searched([&id]).hint(hint));
    }
    Some(rows)
}

/// Returns the ids of the tasks in a `tasks.md`, in their order.
pub(crate) fn task_ids(text: &str) -> Vec<String> {
    parse_tasks(text).into_iter().map(|task| text[task.id].to_string()).collect()
}

fn quote_ids(ids: &[&str]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| format!("`{id}`")).collect();
    ids.join(", ")
}

#[derive(Debug, PartialEq)]
struct TaskEntry {
    id: Range<usize>,
    words: Range<usize>,
}

/// A line without its line end, and the offset of its start.
#[derive(Clone, Copy)]
struct TaskLine<'t> {
    start: usize,
    text: &'t str,
}

impl TaskLine<'_> {
    fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start_matches([' ', '\t']).len()
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    fn end(&self) -> usize {
        self.start + self.text.trim_end().len()
    }
}

fn parse_tasks(text: &str) -> Vec<TaskEntry> {
    let mut at = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        at += line.len();
        TaskLine { start: at - line.len(), text: line.trim_end_matches(['\n', '\r']) }
    });
    let lines: Vec<TaskLine<'_>> = lines.collect();
    let mut tasks = Vec::new();
    let mut next = 0;
    while next < lines.len() {
        if let Some(mark) = opening_fence(&lines[next]) {
            let inside = next + 1;
            let rest = &lines[inside..];
            let length = rest.iter().position(|line| line.text.trim() == mark).unwrap_or(rest.len());
            let yaml =
                ["yaml", "yml"].contains(&lines[next].text.trim().trim_start_matches(['`', '~']).trim());
            if yaml {
                parse_yaml_tasks(&lines, inside..inside + length, &mut tasks);
            }
            next = inside + length + 1;
            continue;
        }
        tasks.extend(parse_check_box(&lines, next));
        next += 1;
    }
    tasks
}

/// Returns the fence that a line opens. The same fence closes it.
fn opening_fence<'t>(line: &TaskLine<'t>) -> Option<&'t str> {
    let text = line.text.trim_start();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.len() - text.trim_start_matches(mark).len();
    (length >= 3).then(|| &text[..length])
}

/// Parses `- [ ] 1.1 words`, with the lines below it that are indented deeper.
fn parse_check_box(lines: &[TaskLine<'_>], at: usize) -> Option<TaskEntry> {
    let line = lines[at];
    let item = line.text.trim_start().strip_prefix(['-', '*', '+'])?.trim_start();
    let words = ["[ ]", "[x]", "[X]"].into_iter().find_map(|mark| item.strip_prefix(mark))?.trim_start();
    let words = words.trim_start_matches(['*', '`', '_']);
    let words = words.strip_prefix("Task ").or_else(|| words.strip_prefix("task ")).unwrap_or(words);
    let id = words.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_')).next()?;
    let id = id.trim_end_matches(['.', '-', '_']);
    if !id.starts_with(|c: char| c.is_ascii_digit()) && !id.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let start = line.start + (line.text.len() - words.len());
    let below = lines[at + 1..].iter().take_while(|below| below.is_blank() || below.indent() > line.indent());
    let end = below.filter(|line| !line.is_blank()).last().unwrap_or(&line).end();
    Some(TaskEntry { id: start..start + id.len(), words: line.start..end })
}

/// Adds a task for every `id:` in the YAML between fences: a list item, or the whole block.
fn parse_yaml_tasks(lines: &[TaskLine<'_>], inside: Range<usize>, tasks: &mut Vec<TaskEntry>) {
    for at in inside.clone() {
        let Some((id, column)) = parse_yaml_id(&lines[at]) else { continue };
        let begins = |line: &TaskLine<'_>| {
            let bare = line.text.trim_start();
            bare.starts_with("- ") && line.indent() + (bare.len() - bare[1..].trim_start().len()) == column
        };
        let first = (inside.start..=at).rev().find(|line| begins(&lines[*line]));
        let words = match first {
            Some(first) => {
                let indent = lines[first].indent();
                let below = &lines[first + 1..inside.end];
                let more = below.iter().take_while(|line| line.is_blank() || line.indent() > indent);
                let last = more.filter(|line| !line.is_blank()).last().unwrap_or(&lines[first]);
                lines[first].start..last.end()
            }
            // A block that is a single task is shown with its fences and the heading above them.
            None if column == 0 => {
                let mut first = inside.start - 1;
                let above = lines[..first].iter().rposition(|line| !line.is_blank());
                if let Some(above) = above.filter(|above| lines[*above].text.starts_with('#')) {
                    first = above;
                }
                let last = lines.get(inside.end).unwrap_or(&lines[inside.end - 1]);
                lines[first].start..last.end()
            }
            None => continue,
        };
        tasks.push(TaskEntry { id, words });
    }
}

/// Returns the range of the value of `id:` in a line, and the column of the key.
fn parse_yaml_id(line: &TaskLine<'_>) -> Option<(Range<usize>, usize)> {
    let bare = line.text.trim_start_matches(' ');
    let bare = bare.strip_prefix("- ").map_or(bare, str::trim_start);
    let column = line.text.len() - bare.len();
    let value = bare.strip_prefix("id:")?;
    let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
    let key = column + "id:".len();
    let start = line.start + key + line.text[key..].find(value)?;
    (!value.is_empty()).then(|| (start..start + value.len(), column))
}
