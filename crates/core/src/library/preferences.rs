//! Preferences: sentences that a person approved for a role, as a list in that role's extension file.
//!
//! Converts text to text; `callsheet-run` owns the file and its lock.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diag::{Code, Diagnostic, is_invisible};
use crate::library::layout::Layout;
use crate::text::name::is_name;

/// The heading of the section, alone on its line.
const HEADING: &str = "## Approved Preferences";

/// The characters that can begin a bullet.
const MARKS: [char; 3] = ['-', '*', '+'];

/// The fields of a preference in a submission.
pub(crate) const FIELDS: [&str; 2] = ["target_role", "bullet"];

/// The most characters of a preference: people do not remember a longer sentence.
const MAX_CHARS: usize = 1000;

/// A sentence that a person approved for a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preference {
    /// The role.
    pub role: String,
    /// The sentence.
    pub bullet: String,
}

impl Preference {
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let [role, bullet] = FIELDS.map(|field| value[field].as_str());
        Some(Self { role: role?.trim().into(), bullet: bullet?.into() })
    }

    /// Returns every problem of the preference; `roles` are the existing roles.
    pub fn find_problems(&self, roles: &[String]) -> Vec<Diagnostic> {
        let mut wrong = Vec::new();
        let mut bad = |message: String| wrong.push(Diagnostic::error(Code::PreferenceBad, message));
        if is_blank(&self.bullet) {
            bad("the preference is blank".into());
        }
        if self.bullet.chars().count() > MAX_CHARS {
            bad(format!("the preference has more than {MAX_CHARS} characters"));
        }
        if self.bullet.contains(is_invisible) {
            bad("the preference contains an invisible character".into());
        }
        // A placeholder is the only directive that is live in an extension.
        if self.bullet.contains("[[placeholder:") {
            bad("the preference contains `[[placeholder:`, which would be a slot".into());
        }
        if !is_name(&self.role) || !roles.contains(&self.role) {
            let diag = Diagnostic::error(Code::PreferenceBad, format!("unknown role `{}`", self.role));
            let diag = diag.suggest(&self.role, roles.iter().map(String::as_str));
            wrong.push(diag.hint(format!("known roles: {}", roles.join(", "))));
        }
        wrong
    }
}

/// Returns the path of the extension file of `role`, relative to the project.
pub fn extension_path(layout: &Layout, role: &str) -> String {
    format!("{}/agents/{role}.md", layout.prompts)
}

/// Returns the bullets of the section as they are written.
pub fn list_bullets(text: &str) -> Vec<&str> {
    let section = PreferenceSection::find(text);
    let lines = section.map(|section| &text[section.body..section.end]).unwrap_or_default().lines();
    lines.filter_map(parse_bullet).collect()
}

/// Adds those of `bullets` that no bullet of `text` says yet. Returns the new text, and the added bullets as
/// they are stored.
pub fn add_bullets(text: &str, bullets: &[&str]) -> (String, Vec<String>) {
    let mut known: Vec<String> = text.lines().filter(|line| is_marked(line)).map(comparison_key).collect();
    let mut new = Vec::new();
    for given in bullets.iter().filter(|given| !is_blank(given)) {
        let key = comparison_key(given);
        if !known.contains(&key) {
            known.push(key);
            new.push(normalize_bullet(given));
        }
    }
    if new.is_empty() {
        return (text.to_string(), new);
    }
    let lines: String = new.iter().map(|bullet| format!("- {bullet}\n")).collect();
    let text = match PreferenceSection::find(text) {
        Some(section) => {
            let body = &text[section.body..section.end];
            let said = body.trim_end();
            let at = section.body + said.len();
            let gap =
                if said.is_empty() || said.lines().last().is_none_or(|line| parse_bullet(line).is_none()) {
                    "\n\n"
                } else {
                    "\n"
                };
            let rest = text[at..].trim_start_matches(['\n', '\r']);
            let between = if rest.is_empty() { "" } else { "\n" };
            [text[..at].trim_end(), gap, &lines, between, rest].concat()
        }
        None => {
            let before = text.trim_end();
            let gap = if before.is_empty() { "" } else { "\n\n" };
            [before, gap, HEADING, "\n\n", &lines].concat()
        }
    };
    (text, new)
}

/// Removes the bullet of the section that says the same as `given`, and the heading with the last bullet.
/// Returns the new text and the removed bullet; `None` if there is no such bullet.
pub fn remove_bullet(text: &str, given: &str) -> Option<(String, String)> {
    let section = PreferenceSection::find(text)?;
    let wanted = comparison_key(given);
    let mut at = section.body;
    for line in text[section.body..section.end].split_inclusive('\n') {
        match Some(normalize_bullet(line)).filter(|said| is_marked(line) && comparison_key(said) == wanted) {
            Some(said) => {
                let (before, rest) = (&text[..at], &text[at + line.len()..]);
                let left = [before, rest].concat();
                let is_last =
                    text[section.body..section.end].lines().filter(|line| !line.trim().is_empty()).count()
                        == 1;
                let left = if is_last { remove_section(text, &section) } else { left };
                return Some((left, said));
            }
            None => at += line.len(),
        }
    }
    None
}

fn remove_section(text: &str, section: &PreferenceSection) -> String {
    let before = text[..section.heading].trim_end();
    let rest = text[section.end..].trim_start_matches(['\n', '\r']);
    match (before.is_empty(), rest.is_empty()) {
        (true, _) => rest.to_string(),
        (false, true) => [before, "\n"].concat(),
        (false, false) => [before, "\n\n", rest].concat(),
    }
}

/// The place of the section: from its heading to the next heading of its level or above, outside code fences.
struct PreferenceSection {
    heading: usize,
    body: usize,
    end: usize,
}

impl PreferenceSection {
    fn find(text: &str) -> Option<Self> {
        let mut at = 0;
        let mut fence: Option<&str> = None;
        let mut found: Option<Self> = None;
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let bare = line.trim();
            let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
            match (fence, mark) {
                (None, Some(mark)) => fence = Some(mark),
                (Some(open), Some(mark)) if open == mark => fence = None,
                _ => {}
            }
            if fence.is_some() || mark.is_some() {
                continue;
            }
            match &mut found {
                None if line.trim_end() == HEADING => {
                    found = Some(Self { heading: start, body: at, end: text.len() })
                }
                Some(section) if line.starts_with("# ") || line.starts_with("## ") => {
                    section.end = start;
                    return found;
                }
                _ => {}
            }
        }
        found
    }
}

/// Returns the text of a line that is a bullet: a mark, followed by whitespace unless the mark is
/// unambiguous.
fn parse_bullet(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_prefix(MARKS)?;
    let is_bullet = rest.starts_with([' ', '\t']) || !line.starts_with('*') && !rest.starts_with(MARKS);
    Some(rest.trim()).filter(|rest| is_bullet && !rest.is_empty())
}

fn is_blank(given: &str) -> bool {
    comparison_key(given).is_empty()
}

/// Returns a preference as it is stored: without a mark in front, on one line.
fn normalize_bullet(given: &str) -> String {
    let given = given.trim();
    let bare = match given.strip_prefix(MARKS) {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => rest,
        _ => given,
    };
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks whether a line begins like a bullet, with or without whitespace after the mark.
fn is_marked(line: &str) -> bool {
    line.trim_start().starts_with(MARKS)
}

/// Returns a key that is equal for preferences that say the same: without a mark, and with a conversion to
/// upper case before the one to lower case, because some letters fold only that way.
fn comparison_key(given: &str) -> String {
    let bare = normalize_bullet(given);
    let bare = bare.trim_start_matches(|c: char| MARKS.contains(&c) || c.is_whitespace());
    bare.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}
