//! A run as one file: complete, read-only, and without the server.

use callsheet_core::record::sha256;
use callsheet_testing::TestProject;

/// Returns the text between two marks.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).peekable();
    let mut text = String::new();
    while bits.peek().is_some() {
        let digit = (0..6).fold(0, |digit, _| digit << 1 | bits.next().unwrap_or(0));
        text.push(char::from(DIGITS[usize::from(digit)]));
    }
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Runs an agent that prints many lines, and returns the page of the run.
fn make_page(lines: usize) -> String {
    let project = TestProject::with_repository();
    project
        .write_program("agent", &format!("#!/bin/sh\ncat >/dev/null\nseq 1 {lines}\necho end >>src/a.txt\n"));
    let run = project.run(["run", "Count.", "--", "agent"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let written = project.run(["show", "last", "--html", "page.html"]);
    assert_eq!((written.code, written.out().as_str()), (Some(0), "written page.html\n"), "{written:?}");
    project.read("page.html")
}

#[test]
fn file_allows_own_script_by_hash() {
    let page = make_page(3);
    let policy = between(&page, "<meta http-equiv=\"Content-Security-Policy\" content=\"", "\">")
        .replace("&#39;", "'");
    let hash = |text: &str| to_base64(&sha256(&[text.as_bytes()]).0);
    let (style, script) = (between(&page, "<style>", "</style>"), between(&page, "<script>", "</script>"));
    let wanted = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    );
    assert_eq!(policy, wanted);
    assert_eq!((page.matches("<style").count(), page.matches("<script").count()), (1, 1));
}

#[test]
fn file_has_no_way_to_server() {
    let page = make_page(3);
    let body = page.split_once("</style>").unwrap().1.split_once("<script>").unwrap().0;
    for link in ["href=\"/", "src=", "action=", "method=\"post\"", "http://", "data-head", "token"] {
        assert!(!body.contains(link), "{link}: {body}");
    }
    for pane in
        ["id=\"prompt\"", "id=\"change\"", "id=\"checks\"", "id=\"log\"", "id=\"reply\"", "id=\"timeline\""]
    {
        assert!(body.contains(pane), "{pane}");
    }
}

#[test]
fn middle_of_long_log_is_omitted() {
    let page = make_page(200_000);
    assert!(page.len() < 2_000_000, "{}", page.len());
    let has_line = |line: u64| page.contains(&format!("id=\"log-L{line}\""));
    assert!(has_line(1) && has_line(200_000) && !has_line(100_000));
    let shown = page.matches(" data-line=\"").count();
    assert!(page.contains(&format!("{} lines are left out here", 200_000 - shown)), "{shown}");
}
