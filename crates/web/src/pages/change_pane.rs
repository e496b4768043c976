//! The changes of a run as a diff by file, with the violations of its scope.

use callsheet::run::changes::{FileDiff, PatchBody};
use callsheet_core::record::RunSummary;
use callsheet_core::request::fact::{ViolationDecision, ViolationReason};

use super::words::encode_query;
use crate::shown_text::ShownText;

/// The most lines of all diffs on one page. The files behind it are named, with the command that shows them.
const MOST_LINES: usize = 8000;

/// The change pane of a run.
#[derive(Debug, Default)]
pub(crate) struct ChangePane {
    /// The files in order of their paths.
    pub(crate) files: Vec<ChangedFileView>,
    /// The number of added lines.
    pub(crate) added: usize,
    /// The number of removed lines.
    pub(crate) removed: usize,
    /// The number of violations without a decision.
    pub(crate) pending: usize,
    /// Why there is nothing to show.
    pub(crate) reason: &'static str,
    /// More facts about the changes: places that were not seen, moved references, changes elsewhere.
    pub(crate) notes: Vec<(&'static str, ShownText)>,
}

/// A changed file.
#[derive(Debug)]
pub(crate) struct ChangedFileView {
    /// The place of the file on the page.
    pub(crate) anchor: String,
    /// The path.
    pub(crate) path: ShownText,
    /// The path before the change.
    pub(crate) from: ShownText,
    /// The kind of the change.
    pub(crate) kind: &'static str,
    /// The number of added lines.
    pub(crate) added: usize,
    /// The number of removed lines.
    pub(crate) removed: usize,
    /// Whether the scope does not allow it.
    pub(crate) violation: Option<ViolationView>,
    /// The changed lines.
    pub(crate) rows: Vec<DiffRow>,
    /// Why no lines are shown.
    pub(crate) note: ShownText,
}

/// A change that the scope does not allow.
#[derive(Debug)]
pub(crate) struct ViolationView {
    /// The reason in words.
    pub(crate) reason: &'static str,
    /// The decision in words.
    pub(crate) decision: &'static str,
    /// Whether it waits for a decision.
    pub(crate) is_pending: bool,
    /// The class of the decision.
    pub(crate) class: &'static str,
    /// The sign of the decision.
    pub(crate) sign: &'static str,
    /// The path as it is recorded.
    pub(crate) path: String,
    /// The path in a form: a browser changes line ends.
    pub(crate) path_code: String,
}

/// A line of a diff.
#[derive(Debug)]
pub(crate) struct DiffRow {
    /// The class: `hunk`, `add`, `del`, `ctx` or `note`.
    pub(crate) class: &'static str,
    /// The sign in front.
    pub(crate) sign: &'static str,
    /// The number of the line before the change; 0 for none.
    pub(crate) old: usize,
    /// The number of the line after the change; 0 for none.
    pub(crate) new: usize,
    /// The text.
    pub(crate) text: ShownText,
}

impl DiffRow {
    /// Checks whether it is a line of a file.
    pub(crate) const fn has_line(&self) -> bool {
        self.old > 0 || self.new > 0
    }

    /// Returns its place in the file: `L7` after the change, `O7` before it.
    pub(crate) fn place(&self) -> String {
        if self.new > 0 { format!("L{}", self.new) } else { format!("O{}", self.old) }
    }
}

impl ChangePane {
    /// Describes the changes of a run.
    pub(crate) fn new(summary: &RunSummary, diffs: &[FileDiff]) -> Self {
        let mut pane = Self { reason: missing_reason(summary), ..Self::default() };
        let mut left = MOST_LINES;
        let run = summary.name();
        for diff in diffs {
            let file = ChangedFileView::new(diff, summary, &mut left, run);
            pane.added += file.added;
            pane.removed += file.removed;
            pane.files.push(file);
        }
        // Files whose contents are not kept are changes too.
        let seen = summary.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
        for changed in seen.into_iter().flat_map(|seen| &seen.changed) {
            if !diffs
                .iter()
                .any(|diff| diff.path == changed.path || diff.from.as_ref() == Some(&changed.path))
            {
                pane.files.push(ChangedFileView {
                    anchor: String::new(),
                    path: ShownText::new(&changed.path),
                    from: changed.from.as_ref().map(ShownText::from).unwrap_or_default(),
                    kind: changed.change.name(),
                    added: 0,
                    removed: 0,
                    violation: ViolationView::find(summary, &changed.path),
                    rows: Vec::new(),
                    note: "its contents are not kept".into(),
                });
            }
        }
        pane.pending =
            summary.violations().iter().filter(|it| it.decision == ViolationDecision::Pending).count();
        pane.notes = list_notes(summary);
        for (file, number) in pane.files.iter_mut().zip(1..) {
            file.anchor = format!("change-F{number}");
        }
        pane
    }
}

fn missing_reason(summary: &RunSummary) -> &'static str {
    match (&summary.launch, &summary.observed) {
        (None, _) => "The prompt was only composed.",
        (Some(_), None) => "The run has not ended.",
        (Some(_), Some(observed)) if observed.worktree.is_none() => "The changes were not observed.",
        _ => "No file changed.",
    }
}

fn list_notes(summary: &RunSummary) -> Vec<(&'static str, ShownText)> {
    let Some(observed) = &summary.observed else { return Vec::new() };
    let mut notes: Vec<(&'static str, ShownText)> = Vec::new();
    if let Some(seen) = &observed.worktree {
        let unseen = seen.unseen.iter().map(|it| ("unseen", format!("{} ({})", it.path, it.why)));
        let moved = seen.commits.iter().map(|it| {
            let to = it.to.as_deref().map_or("gone", |to| to.get(..12).unwrap_or(to));
            ("commits", format!("{} {to} ({} new)", it.name, it.new))
        });
        let elsewhere =
            seen.elsewhere.iter().map(|it| ("elsewhere", format!("{} ({})", it.path, it.change.name())));
        notes.extend(unseen.chain(moved).chain(elsewhere).map(|(kind, text)| (kind, text.into())));
    }
    let uncertain = observed.uncertain.iter().map(|path| {
        ("uncertain", format!("{path}: run {} may write it", observed.shared_with.join(" or ")).into())
    });
    notes.extend(uncertain);
    notes
}

impl ViolationView {
    fn find(summary: &RunSummary, path: &str) -> Option<Self> {
        let violation = summary.violations().into_iter().find(|violation| violation.path == path)?;
        let reason = match violation.reason {
            ViolationReason::OutsideWrite => "no glob of writable files matches it",
            ViolationReason::Excluded => "a glob of excluded files matches it",
            ViolationReason::LeadsOutside => "it leads outside of the worktree",
            _ => "the scope does not allow it",
        };
        let (class, sign) = match violation.decision {
            ViolationDecision::Pending => ("warn", "!"),
            ViolationDecision::Rejected => ("bad", "✕"),
            ViolationDecision::Approved | ViolationDecision::Mine => ("good", "✓"),
        };
        Some(Self {
            reason,
            decision: violation.decision.name(),
            is_pending: violation.decision == ViolationDecision::Pending,
            class,
            sign,
            path_code: encode_query(&violation.path),
            path: violation.path,
        })
    }
}

impl ChangedFileView {
    fn new(diff: &FileDiff, summary: &RunSummary, left: &mut usize, run: &str) -> Self {
        let kind = match (&diff.from, diff.mode_before, diff.mode_after) {
            (Some(_), ..) => "renamed",
            (_, None, _) => "added",
            (_, _, None) => "deleted",
            _ => "modified",
        };
        let (added, removed) = diff.line_counts().unwrap_or_default();
        let (rows, note) = match &diff.body {
            PatchBody::Omitted(why) => (Vec::new(), ShownText::new(why.reason())),
            PatchBody::Lines { hunks, .. } if hunks.lines().count() > *left => {
                *left = 0;
                let command = format!("callsheet show {run} --diff {}", diff.path);
                (Vec::new(), format!("too many lines for this page: `{command}` shows them").into())
            }
            PatchBody::Lines { hunks, .. } => {
                let rows = parse_hunks(hunks);
                *left -= rows.len().min(*left);
                let note = if rows.is_empty() { "its contents did not change" } else { "" };
                (rows, note.into())
            }
        };
        Self {
            anchor: String::new(),
            path: ShownText::new(&diff.path),
            from: diff.from.as_ref().map(ShownText::from).unwrap_or_default(),
            kind,
            added,
            removed,
            violation: ViolationView::find(summary, &diff.path),
            rows,
            note,
        }
    }
}

/// Reads the lines of a unified diff.
pub(crate) fn parse_hunks(hunks: &str) -> Vec<DiffRow> {
    let (mut old, mut new) = (0, 0);
    let mut rows = Vec::new();
    for line in hunks.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let row = |class, sign, old, new, text: &str| DiffRow {
            class,
            sign,
            old,
            new,
            text: ShownText::from_line(text),
        };
        let mut chars = line.chars();
        rows.push(match chars.next() {
            Some('@') => {
                (old, new) = parse_ranges(line);
                row("hunk", "", 0, 0, line)
            }
            Some('+') => {
                new += 1;
                row("add", "+", 0, new - 1, chars.as_str())
            }
            Some('-') => {
                old += 1;
                row("del", "−", old - 1, 0, chars.as_str())
            }
            Some('\\') => row("note", "", 0, 0, chars.as_str().trim_start()),
            _ => {
                (old, new) = (old + 1, new + 1);
                row("ctx", "", old - 1, new - 1, chars.as_str())
            }
        });
    }
    rows
}

/// Returns the first lines of a hunk, before and after the change: 3 and 4 of `@@ -3,7 +4,8 @@`.
fn parse_ranges(head: &str) -> (usize, usize) {
    let side = |sign: char| {
        let part = head.split(' ').find_map(|part| part.strip_prefix(sign));
        part.and_then(|part| part.split(',').next()).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    (side('-'), side('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_become_numbered_rows() {
        let hunks = "@@ -3,2 +4,3 @@\n a\n-b\n+c\n+d\n\\ No newline at end of file\n@@ -9 +11 @@\n-x\n+y\n";
        let rows: Vec<(&str, usize, usize, String)> = parse_hunks(hunks)
            .iter()
            .map(|row| (row.class, row.old, row.new, row.text.to_string()))
            .collect();
        let row = |class, old, new, text: &str| (class, old, new, text.to_owned());
        assert_eq!(
            rows,
            [
                row("hunk", 0, 0, "@@ -3,2 +4,3 @@"),
                row("ctx", 3, 4, "a"),
                row("del", 4, 0, "b"),
                row("add", 0, 5, "c"),
                row("add", 0, 6, "d"),
                row("note", 0, 0, "No newline at end of file"),
                row("hunk", 0, 0, "@@ -9 +11 @@"),
                row("del", 9, 0, "x"),
                row("add", 0, 11, "y"),
            ]
        );
    }
}
