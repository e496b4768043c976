//! The file with the changes that a person wants: one section for each phase that changes were written for.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Flow;

/// Appends a person's words for `phase` to the text. Words that the text already ends with are not added
/// twice.
pub fn add_changes(flow: &Flow, phase: &str, text: &str, words: &str) -> String {
    let words = words.trim();
    let sections = split_sections(flow, text);
    if let Some((Some(last), body)) = sections.last()
        && *last == phase
    {
        return match body.trim_end().ends_with(words) {
            true => text.to_string(),
            false => format!("{}\n\n{words}\n", text.trim_end()),
        };
    }
    let before = if text.trim().is_empty() { String::new() } else { format!("{}\n\n", text.trim_end()) };
    format!("{before}## {phase}\n\n{words}\n")
}

/// Returns the changes for `phase`: its sections, and the text that is in no section.
pub(super) fn changes_for(flow: &Flow, phase: &str, text: &str) -> String {
    let sections = split_sections(flow, text);
    let own = sections.iter().filter(|(name, _)| name.is_none_or(|name| name == phase));
    let own: Vec<&str> = own.map(|(_, body)| body.trim()).filter(|body| !body.is_empty()).collect();
    if own.is_empty() { String::new() } else { own.join("\n\n") + "\n" }
}

/// Splits the text into sections, each with its phase.
fn split_sections<'t>(flow: &Flow, text: &'t str) -> Vec<(Option<&'t str>, &'t str)> {
    let mut sections = Vec::new();
    let (mut name, mut from, mut at) = (None, 0, 0);
    for line in text.split_inclusive('\n') {
        let heading = line.strip_prefix("## ").map(str::trim_end);
        if let Some(phase) = heading.filter(|heading| flow.phase(heading).is_some()) {
            sections.push((name, &text[from..at]));
            (name, from) = (Some(phase), at + line.len());
        }
        at += line.len();
    }
    sections.push((name, &text[from..]));
    sections
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::*;

    #[test]
    fn changes_stay_with_their_phase() {
        let phase = |name: &str| Phase { name: name.into(), ..Phase::default() };
        let flow = Flow { phase: alloc::vec![phase("plan"), phase("implement")], ..Flow::default() };
        let add = |text: &str, phase: &str, words: &str| add_changes(&flow, phase, text, words);
        let one = add("", "plan", " One.\n");
        assert_eq!(one, "## plan\n\nOne.\n");
        assert_eq!(add(&one, "plan", "One."), one);
        let two = add(&one, "plan", "## review\n\nTwo.");
        assert_eq!(two, "## plan\n\nOne.\n\n## review\n\nTwo.\n");
        let three = add(&two, "implement", "One.");
        assert_eq!(three, "## plan\n\nOne.\n\n## review\n\nTwo.\n\n## implement\n\nOne.\n");
        assert_eq!(changes_for(&flow, "plan", &three), "One.\n\n## review\n\nTwo.\n");
        assert_eq!(changes_for(&flow, "implement", &three), "One.\n");
        assert_eq!(changes_for(&flow, "archive", &three), "");
        // Text that a person wrote into the file without a heading is for every phase.
        assert_eq!(changes_for(&flow, "archive", "By hand.\n"), "By hand.\n");
        assert_eq!(changes_for(&flow, "plan", &add("By hand.\n", "plan", "One.")), "By hand.\n\nOne.\n");
    }
}
