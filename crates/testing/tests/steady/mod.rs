//! Removes from the output of a CLI what differs from run to run.

use std::path::PathBuf;

use callsheet_testing::{Cli, Room};
use serde_json::{Value, json};

/// Replaces exactly the values that differ from run to run and from machine to machine.
pub(crate) struct Steady {
    paths: Vec<(String, &'static str)>,
    ids: Vec<String>,
}

impl Steady {
    pub(crate) fn new(room: &Room, cli: Cli) -> Self {
        let dashed = |path: PathBuf| path.display().to_string().replace(['/', '.', '_'], "-");
        let paths = vec![
            (room.path().display().to_string(), "/room"),
            (dashed(room.path().to_owned()), "-room"),
            (cli.home().unwrap().display().to_string(), "/cli"),
            // Copilot names the folder of its own files after the platform.
            ("linux-arm64".to_owned(), "linux-x64"),
        ];
        Self { paths, ids: Vec::new() }
    }

    pub(crate) fn normalize_stream(&mut self, stream: &str) -> String {
        let mut out = String::new();
        for line in stream.lines() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            // Ensures that the stored file has the CLI's own JSON formatting.
            assert_eq!(event.to_string(), line);
            self.normalize_value(&mut event);
            out += &format!("{event}\n");
        }
        out
    }

    fn normalize_value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.normalize_text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.normalize_value(value)),
            Value::Object(map) => {
                for (key, value) in map {
                    let measured = ["_ms", "Ms", "Bytes"].iter().any(|unit| key.ends_with(unit));
                    if value.is_number() && measured {
                        *value = json!(0);
                    } else if key == "metrics" {
                        // Lengths and token counts, which depend on the paths.
                        *value = json!({});
                    } else if key == "messaging_socket_path" {
                        // Named after the process.
                        *value = json!("/room/tmp/socket");
                    } else {
                        self.normalize_value(value);
                    }
                }
            }
            _ => {}
        }
    }

    pub(crate) fn normalize_text(&mut self, text: &str) -> String {
        let mut rest = text.to_owned();
        for (path, name) in &self.paths {
            rest = rest.replace(path, name);
        }
        if let Some((_shell, command)) = rest.split_once(" -lc ").filter(|(shell, _)| shell.starts_with('/'))
        {
            rest = format!("/bin/bash -lc {command}");
        }
        let mut out = String::new();
        while let Some(first) = rest.chars().next() {
            let len = if has_shape(&rest, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") {
                let id = &rest[..36];
                let known = self.ids.iter().position(|seen| seen == id);
                let number = known.unwrap_or_else(|| {
                    self.ids.push(id.to_owned());
                    self.ids.len() - 1
                });
                out += &format!("00000000-0000-4000-8000-{number:012}");
                36
            } else if has_shape(&rest, "dddd-dd-ddTdd:dd:dd.ddd") {
                out += "2000-01-01T00:00:00.000";
                23
            } else if has_shape(&rest, "127.0.0.1:ddddd") {
                out += "127.0.0.1:1";
                15
            } else if has_shape(&rest, "127.0.0.1:dddd") {
                out += "127.0.0.1:1";
                14
            } else if has_shape(&rest, "_ddddddddddddd_d") {
                out += "_0000000000000";
                14
            } else {
                out.push(first);
                first.len_utf8()
            };
            rest.drain(..len);
        }
        out
    }
}

/// Checks whether a text begins like the pattern, in which `h` is any hexadecimal digit and `d` any decimal
/// one.
fn has_shape(text: &str, pattern: &str) -> bool {
    text.len() >= pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'h' => byte.is_ascii_hexdigit(),
            b'd' => byte.is_ascii_digit(),
            _ => byte == wanted,
        })
}
