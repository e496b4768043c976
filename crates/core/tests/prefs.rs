//! Tests how preferences are added to, removed from and listed in a text.

use callsheet_core::library::preferences::{Preference, add_bullets, list_bullets, remove_bullet};

fn text_with(text: &str, bullets: &[&str]) -> String {
    add_bullets(text, bullets).0
}

#[test]
fn m6_preferences_are_in_their_section() {
    let new = "## Approved Preferences\n\n- Small commits\n";
    assert_eq!(text_with("", &["- Small commits"]), new);
    assert_eq!(text_with("Be kind.", &["Small commits"]), format!("Be kind.\n\n{new}"));
    assert_eq!(text_with(new, &["No mocks"]), format!("{new}- No mocks\n"));
    assert_eq!(
        text_with("# Ours\n\n## Approved Preferences\n\n- A\n\n\n## Other\n\n- B\n", &["C"]),
        "# Ours\n\n## Approved Preferences\n\n- A\n- C\n\n## Other\n\n- B\n"
    );
    assert_eq!(
        text_with("## Approved Preferences\n## Other\n", &["A"]),
        "## Approved Preferences\n\n- A\n\n## Other\n"
    );
    assert_eq!(
        text_with("## Approved Preferences\n\nThese hold:\n", &["A"]),
        "## Approved Preferences\n\nThese hold:\n\n- A\n"
    );
}

#[test]
fn fenced_or_inline_heading_is_ignored() {
    let fenced = "```md\n## Approved Preferences\n```\n";
    assert_eq!(text_with(fenced, &["A"]), format!("{fenced}\n## Approved Preferences\n\n- A\n"));
    let spoken = "Write below ## Approved Preferences.\n";
    assert_eq!(text_with(spoken, &["A"]), format!("{spoken}\n## Approved Preferences\n\n- A\n"));
    let inside = "## Approved Preferences\n\n- A\n\n```\n## Other\n```\n";
    assert_eq!(text_with(inside, &["B"]), "## Approved Preferences\n\n- A\n\n```\n## Other\n```\n\n- B\n");
}

#[test]
fn m6_equal_preferences_are_stored_once() {
    let text = "- small commits\n\n## Approved Preferences\n\n- **Bold** stays\n";
    let (same, new) = add_bullets(
        text,
        &[
            "* Small  commits",
            "+ SMALL\ncommits",
            "**bold** stays",
            "Straße",
            "STRASSE",
            "- - x",
            "- x",
            "-x",
            " ",
            "- ",
        ],
    );
    assert_eq!(new, ["Straße", "- x"]);
    assert_eq!(same, format!("{text}- Straße\n- - x\n"));
    assert_eq!(add_bullets(&same, &["-x", "straße", "* X"]), (same.clone(), Vec::new()));
}

#[test]
fn added_preference_can_be_removed() {
    for before in ["", "Be kind.\n", "Be kind.\n\n## Approved Preferences\n\n- A\n", "x\n\n## Other\n\n- B\n"]
    {
        let (text, _) = add_bullets(before, &["One thing"]);
        assert_eq!(remove_bullet(&text, "*  ONE thing"), Some((before.to_owned(), "One thing".to_owned())));
    }
    // Only bullets of the section can be removed.
    assert_eq!(remove_bullet("- B\n\n## Approved Preferences\n\n- A\n", "B"), None);
    assert_eq!(
        remove_bullet("a\n\n## Approved Preferences\n\n- A\n\n## Other\n", "A"),
        Some(("a\n\n## Other\n".to_owned(), "A".to_owned()))
    );
}

#[test]
fn list_returns_bullets_of_section() {
    let text = "- no\n\n## Approved Preferences\n\n- A\n* **B**\nnot this\n- - C\n\n## Other\n\n- no\n";
    assert_eq!(list_bullets(text), ["A", "**B**", "- C"]);
    assert_eq!(list_bullets("nothing"), Vec::<&str>::new());
}

/// A bullet mark is valid with or without a space after it; an emphasis mark is not a bullet.
#[test]
fn m6_bullet_mark_needs_no_space() {
    let by_hand = "## Approved Preferences\n\n-foo\n+ bar\n*em* phasis\n---\n";
    assert_eq!(list_bullets(by_hand), ["foo", "bar"]);
    assert_eq!(add_bullets(by_hand, &["foo", "- FOO", "-bar", "*em* phasis", "---"]).1, Vec::<String>::new());
    let without = by_hand.replace("-foo\n", "");
    assert_eq!(remove_bullet(by_hand, "foo"), Some((without, "-foo".to_owned())));
    assert_eq!(add_bullets("", &["**bold** words"]).0, "## Approved Preferences\n\n- **bold** words\n");
}

#[test]
fn invalid_role_or_bullet_is_refused() {
    let roles = ["coder".to_owned(), "reviewer".to_owned()];
    let said = |role: &str, bullet: &str| {
        let problems = Preference { role: role.into(), bullet: bullet.into() }.find_problems(&roles);
        problems.iter().map(|diag| format!("{diag}\n")).collect::<String>()
    };
    assert_eq!(said("coder", "- **Always** use {{braces}}"), "");
    assert_eq!(
        said("../../evil", "x"),
        "error[PreferenceBad]: unknown role `../../evil`\n  = hint: known roles: coder, reviewer\n"
    );
    assert_eq!(
        said("codr", "- "),
        "error[PreferenceBad]: the preference is blank\nerror[PreferenceBad]: unknown role `codr`\n  \
         = hint: did you mean `coder`?\n  = hint: known roles: coder, reviewer\n"
    );
    assert_eq!(
        said("coder", "a [[placeholder:x]] \u{1b}[2J"),
        "error[PreferenceBad]: the preference contains an invisible character\n\
         error[PreferenceBad]: the preference contains `[[placeholder:`, which would be a slot\n"
    );
}
