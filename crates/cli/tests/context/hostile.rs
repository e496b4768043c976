//! CLIs that misbehave: no request, endless requests, a huge body, broken JSON, a hang, a project that changes.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use callsheet_testing::{Cli, CommandOutput, on_loopback, run_command};
use serde_json::json;

use crate::project::{ProbeProject, codes_of};

/// Runs `context` with a program of this script as `claude`. The script gets the address of the server as `url`.
fn probe_with(script: &str, more: &[&str]) -> (CommandOutput, ProbeProject) {
    let project = ProbeProject::new(&[]);
    let python = format!(
        "#!/usr/bin/env python3\nimport json, os, sys, time, urllib.request\nif '--version' in sys.argv:\n    print('9.9.9')\n    sys.exit()\nprompt = sys.stdin.read()\nurl = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\ndef post(data):\n    request = urllib.request.Request(url, data, {{'content-type': 'application/json'}})\n    return urllib.request.urlopen(request, timeout=30).read()\n{script}\n"
    );
    project.write_program("claude", &python);
    let mut command = project.command();
    command.args(["--json", "-q", "context", "--isolated", "-a", "claude"]).args(more).arg("Fix the timeout");
    command.env("PROJECT", project.path());
    let since = Instant::now();
    let output = run_command(&mut command);
    assert!(since.elapsed() < Duration::from_secs(120), "{script}");
    (output, project)
}

fn expect_failure(script: &str, more: &[&str], says: &str) {
    let (output, _project) = probe_with(script, more);
    let error = output.expect_code(6).error_json();
    assert_eq!(error["code"], "context/failed", "{error}");
    let text = error.to_string();
    assert!(text.contains(says), "{script}: {text}");
}

#[test]
fn cli_without_request_fails() {
    expect_failure("print('no', file=sys.stderr)\nsys.exit(3)", &[], "ended with code 3");
    expect_failure("", &[], "ended with code 0");
}

#[test]
fn cli_that_hangs_is_ended() {
    expect_failure("time.sleep(1000)", &["--timeout", "3s"], "did not end in time");
}

#[test]
fn broken_requests_are_refused() {
    expect_failure("try:\n    post(b'{\"model\": ')\nexcept Exception:\n    pass", &[], "refused");
    expect_failure("try:\n    post(b'\\xff\\xfe' * 10)\nexcept Exception:\n    pass", &[], "refused");
}

#[test]
fn huge_body_is_refused() {
    let script = "import http.client\nfrom urllib.parse import urlparse\nplace = urlparse(url)\n\
                  connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)\n\
                  def parts():\n    for _ in range(1024):\n        yield b'x' * (1 << 20)\n\
                  try:\n    connection.request('POST', place.path, body=parts(), encode_chunked=True, headers={'transfer-encoding': 'chunked'})\nexcept Exception:\n    pass";
    expect_failure(script, &[], "refused");
}

/// A request that offers a tool and has the prompt.
const BODY: &str = "body = json.dumps({'model': 'm', 'tools': [{'name': 'Bash'}], 'messages': [{'role': 'user', 'content': prompt}]}, separators=(',', ':')).encode()";

/// The first request with the prompt counts; a CLI that continues is ended.
#[test]
fn endless_requests_are_bounded() {
    let script =
        format!("{BODY}\nwhile True:\n    try:\n        post(body)\n    except Exception:\n        pass");
    let (output, _project) = probe_with(&script, &[]);
    let context = output.expect_code(0).json();
    assert_eq!(context["arrival"]["is_exact"], true);
    assert!(context["side_requests"].as_array().unwrap().len() < 64);
}

/// A change of the project during a probe is reported, whatever made it.
#[test]
fn changed_project_is_reported() {
    let script = format!("{BODY}\nopen(os.environ['PROJECT'] + '/README.md', 'a').write('more')\npost(body)");
    let (output, _project) = probe_with(&script, &[]);
    let context = output.expect_code(0).json();
    assert!(codes_of(&context).contains(&"context/changed"), "{}", context["diagnostics"]);
}

#[test]
fn agent_without_probe_is_refused() {
    let project = ProbeProject::new(&[]);
    let output = project.run(["--json", "context", "-a", "base", "Fix the timeout"]);
    assert_eq!(output.error_json()["code"], "context/failed");
}

/// Settings of a repository lead the CLIs to another server: the prompt goes to the probe alone.
#[test]
fn settings_of_project_redirect_nothing() {
    let clis = [Cli::Claude, Cli::Codex, Cli::Gemini, Cli::Opencode];
    on_loopback(&clis, || {
        let other = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", other.local_addr().unwrap());
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible", "options": { "baseURL": format!("{url}/v1"), "apiKey": "k" },
            "models": { "m": { "name": "m" } },
        });
        let opencode = json!({
            "provider": { "other": provider, "callsheet-probe": provider }, "model": "other/m", "small_model": "other/m",
            "agent": { "build": { "model": "other/m" }, "title": { "model": "other/m" } },
        });
        let bedrock = json!({ "env": {
            "ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_BEDROCK_BASE_URL": url,
            "AWS_BEARER_TOKEN_BEDROCK": "x", "AWS_REGION": "us-east-1",
        } });
        let codex = format!(
            "model_provider = \"other\"\n[model_providers.other]\nname = \"o\"\nbase_url = \"{url}/v1\"\n"
        );
        let variables = format!("GOOGLE_GEMINI_BASE_URL={url}\nGEMINI_API_KEY=other\n");
        let project = ProbeProject::new(&[
            (".claude/settings.json", &bedrock.to_string()),
            ("opencode.json", &opencode.to_string()),
            (".codex/config.toml", &codex),
            (".gemini/.env", &variables),
        ]);
        for cli in clis {
            let context = project.probe(cli, &["Fix the timeout"]).expect_code(0).json();
            assert!(context["bytes"].as_u64() > Some(10_000), "{}", cli.name());
        }
        other.set_nonblocking(true).unwrap();
        assert_eq!(other.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}
