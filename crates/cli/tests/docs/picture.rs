//! Draws the picture of the README: the middle of `callsheet demo`, as a real terminal shows it.

use std::fmt::Write as _;
use std::process::Command;

use callsheet_testing::{TestProject, mask_page, report_missing, wait_until};

use crate::pages::compare_page;

const COLUMNS: usize = 116;

/// First and last line of the picture.
const PART: (&str, &str) = ("2. ", "7. ");

/// Colours of the codes that callsheet uses, readable on the dark background.
const COLOURS: [(&str, &str); 4] =
    [("31", "#ff7b72"), ("32", "#7ee787"), ("33", "#e3b341"), ("36", "#79c0ff")];

/// Runs the demo in a tmux window and returns the screen with its escape sequences.
fn show_demo() -> String {
    let project = TestProject::new();
    let sockets = project.beside("");
    let command = project.command();
    let tmux = || {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", "picture"]).current_dir(project.path()).env_clear();
        tmux.env("LANG", "C.UTF-8").env("TERM", "xterm").env("TMUX_TMPDIR", &sockets);
        tmux.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        tmux
    };
    let mut start = tmux();
    start.args(["-f", "/dev/null", "new-session", "-d", "-y", "200", "-x", &COLUMNS.to_string()]);
    start.args(["sh", "-c", "\"$@\"; echo \"it exits with $?\"; sleep 600", "sh"]);
    start.arg(command.get_program()).args(command.get_args()).args(["demo", "--color", "always"]);
    assert!(start.status().unwrap().success());
    let capture = || {
        let output = tmux().args(["capture-pane", "-p", "-e", "-S", "-"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    wait_until("the demo ends", || capture().contains("it exits with"));
    let screen = capture();
    drop(tmux().arg("kill-server").status());
    assert!(screen.contains("it exits with 0"), "{screen}");
    screen
}

/// Returns the spans of a line: the style of a text, and the text.
fn split_line(line: &str) -> Vec<(String, &str)> {
    let (mut bold, mut dim, mut colour) = (false, false, None);
    let mut spans = Vec::new();
    for (at, part) in line.split('\u{1b}').enumerate() {
        let text = match part.strip_prefix('[').and_then(|part| part.split_once('m')) {
            Some((codes, text)) if at > 0 => {
                for code in codes.split(';') {
                    match code {
                        "" | "0" => (bold, dim, colour) = (false, false, None),
                        "1" => bold = true,
                        "2" => dim = true,
                        "22" => (bold, dim) = (false, false),
                        "39" => colour = None,
                        "49" => {}
                        code => {
                            colour = Some(
                                COLOURS
                                    .iter()
                                    .find(|(known, _)| *known == code)
                                    .unwrap_or_else(|| panic!("{codes}"))
                                    .1,
                            )
                        }
                    }
                }
                text
            }
            _ => part,
        };
        if !text.is_empty() {
            let weight = if bold { " font-weight=\"bold\"" } else { "" };
            let fill = colour.map(|colour| format!(" fill=\"{colour}\"")).unwrap_or_default();
            let opacity = if dim { " opacity=\"0.6\"" } else { "" };
            spans.push((format!("{weight}{fill}{opacity}"), text));
        }
    }
    spans
}

fn draw(lines: &[String]) -> String {
    let (width, height) = (COLUMNS * 8 + 40, lines.len() * 18 + 36);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-size=\"13\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" fill=\"#e6edf3\">\n\
         <title>A run, its decision and its retry in callsheet demo</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n"
    );
    for (at, line) in lines.iter().enumerate() {
        write!(svg, "<text x=\"20\" y=\"{}\" xml:space=\"preserve\">", at * 18 + 28).unwrap();
        for (style, text) in split_line(line) {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            write!(svg, "<tspan{style}>{text}</tspan>").unwrap();
        }
        svg.push_str("</text>\n");
    }
    svg + "</svg>\n"
}

#[test]
fn picture_shows_demo() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return report_missing("the picture of the demo: tmux is not installed");
    }
    let screen = show_demo();
    let plain = |line: &str| split_line(line).into_iter().map(|(_, text)| text).collect::<String>();
    let lines = screen.lines().skip_while(|line| !plain(line).starts_with(PART.0));
    let lines = lines
        .take_while(|line| !plain(line).starts_with(PART.1))
        .map(|line| mask_page(line.trim_end(), "01a1ec17-ab84-773d-96bd-2066ac8cc8c4", "100 ms"));
    let lines: Vec<String> = lines.collect();
    assert!(lines.len() > 20, "{screen}");
    compare_page("docs/demo.svg", &draw(&lines));
}
