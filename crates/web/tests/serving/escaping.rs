//! Text of others is text on every page, never markup.

use callsheet_testing::TestProject;

use crate::client::TestServer;

/// Texts that would break out of HTML, of an attribute, of a style or of a line.
const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</textarea></title></style></script><b>",
    "javascript:alert(1)",
    "{{ layout.project }}{% raw %}",
    "<!--<svg/onload=alert(1)>-->",
    "\u{202e}evil\u{2066}",
    "\u{1b}[31mred\u{1b}]8;;http://evil.example\u{7}",
];

/// Asserts that a page has only the markup of its template: no tag or attribute of a hostile text.
fn assert_inert(page: &str, path: &str) {
    for broken in
        ["<script>", "<img src=x", "<b>", "<svg/onload", "onerror=alert(1)>", " onmouseover='", "<!--<"]
    {
        assert!(!page.contains(broken), "{path}: {broken}\n{page}");
    }
    for invisible in ['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}'] {
        assert!(!page.contains(invisible), "{path}: {invisible:?}");
    }
    // No inline script or style: the policy would refuse it.
    for inline in [" style=\"", " onclick=", "href=\"javascript:"] {
        assert!(!page.contains(inline), "{path}: {inline}");
    }
}

#[test]
fn hostile_text_stays_text() {
    let project = TestProject::with_repository();
    let all = HOSTILE.join("\n");
    project.write_program(
        "agent",
        "#!/bin/sh\ncat\nprintf '%s\\n' \"$CALLSHEET_RUN\" >&2\ncp text '<script>alert(1)<script>.txt'\n",
    );
    project.write("text", &all);
    project.commit();
    let run = project.run([
        "run",
        "--task-id",
        "T-1",
        "--title",
        HOSTILE[0],
        "--check",
        "x=cat text missing",
        "-f",
        "text",
        "--context",
        &format!("note={all}"),
        &all,
        "--",
        "agent",
    ]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let server = TestServer::start(project);
    let cookie = server.log_in();
    let host = server.host();
    let mut seen = String::new();
    for path in ["/", "/runs/r1", "/runs/r1/source?origin=0", "/runs/r1/log", "/runs/r1/log?stream=stderr"] {
        let answer = server.get(path, &cookie);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_inert(&answer.body, path);
        seen += &answer.body;
    }
    assert!(seen.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "{seen}");
    assert!(seen.contains("\\u{202e}evil"), "{seen}");
    // Addresses are text of others, too.
    for text in HOSTILE {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in
            [format!("/?grep={encoded}&agent={encoded}"), format!("/runs/{encoded}"), format!("/{encoded}")]
        {
            let answer = server.send("GET", &path, &[("Host", &host), ("Cookie", &cookie)], "");
            assert!(matches!(answer.status, 200 | 400 | 404), "{path}: {}", answer.status);
            assert_inert(&answer.body, &path);
        }
    }
}

#[test]
fn long_line_is_truncated() {
    let project = TestProject::new();
    assert_eq!(
        project.run_with(&["compose", "--record", "-"], "x".repeat(1_000_000).as_bytes()).code,
        Some(0)
    );
    let server = TestServer::start(project);
    let page = server.get("/runs/r1", &server.log_in());
    assert_eq!(page.status, 200);
    assert!(page.body.len() < 100_000, "{}", page.body.len());
    assert!(page.body.contains("more characters"), "{}", page.body);
}
