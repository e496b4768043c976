//! Who may act on a page: a person, once, and no agent.

use callsheet_testing::TestProject;

use crate::client::{Answer, TestServer};

/// An agent that knows the address with the token, and tries to approve its own change.
const AGENT: &str = r#"
import http.client, re, sys, urllib.parse
host, token, run, out = sys.argv[1:]
def ask(method, path, cookie, body=None):
    connection = http.client.HTTPConnection(host, timeout=30)
    headers = {"Cookie": cookie, "Origin": "http://" + host}
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(method, path, body, headers)
    return connection.getresponse()
cookie = ask("GET", "/?token=" + token, "").getheader("set-cookie").split(";")[0]
page = ask("GET", "/runs/" + run, cookie).read().decode()
field = lambda name: re.search('name="%s" value="([^"]*)"' % name, page).group(1)
form = {"form_token": field("form_token"), "action_id": field("action_id"), "run": run, "path": "leaked.txt", "decision": "approve"}
answer = ask("POST", "/actions/decide", cookie, urllib.parse.urlencode(form))
open(out, "w").write("%d %s" % (answer.status, answer.read().decode()))
"#;

/// Starts the server of a project with a run that left its scope.
fn serve_violation() -> TestServer {
    let project = TestProject::with_repository();
    let script = "cat > /dev/null; echo bad > leaked.txt";
    let run = ["run", "-q", "--task-id", "T-1", "--write", "src/**", "Write.", "--", "sh", "-c", script];
    assert_eq!(project.run(run).code, Some(5));
    TestServer::start(project)
}

/// Returns the value of a hidden field of a page.
fn read_field(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.split_once(&start).unwrap().1;
    rest.split_once('"').unwrap().0.to_owned()
}

fn post(server: &TestServer, cookie: &str, path: &str, form: &[(&str, &str)]) -> Answer {
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs: Vec<String> =
        form.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    let (host, origin) = (server.host(), format!("http://{}", server.host()));
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let headers = [("Host", host.as_str()), ("Cookie", cookie), ("Origin", &origin), kind];
    server.send("POST", path, &headers, &pairs.join("&"))
}

/// Returns the decision about the change.
fn read_decision(server: &TestServer) -> String {
    let shown = server.project.run(["--json", "show", "r1"]).json();
    shown["result"]["violations"][0]["decision"].as_str().unwrap().to_owned()
}

#[test]
fn agent_cannot_act_on_page() {
    let server = serve_violation();
    let script = server.project.write_beside("act.py", AGENT);
    let out = server.project.beside("answer");
    let command = format!(
        "cat > /dev/null; python3 {} {} {} r1 {}",
        script.display(),
        server.host(),
        server.token,
        out.display()
    );
    let run = ["run", "-q", "--write", "src/**", "Approve it.", "--", "sh", "-c", &command];
    server.project.run(run);
    let answer = std::fs::read_to_string(out).unwrap();
    assert!(answer.starts_with("403 ") && answer.contains("person/below-guard"), "{answer}");
    assert_eq!(read_decision(&server), "pending");
}

#[test]
fn form_is_accepted_once_and_whole() {
    let server = serve_violation();
    let cookie = server.log_in();
    let page = server.get("/runs/r1", &cookie).body;
    let (token, id) = (read_field(&page, "form_token"), read_field(&page, "action_id"));
    let form = |token: &str, id: &str, decision: &str| {
        let fields = [
            ("form_token", token),
            ("action_id", id),
            ("run", "r1"),
            ("path", "leaked.txt"),
            ("decision", decision),
        ];
        post(&server, &cookie, "/actions/decide", &fields).status
    };
    assert_eq!(form("x", &id, "approve"), 403);
    assert_eq!(form(&token, "x", "approve"), 403);
    assert_eq!(form(&token, &id, "maybe"), 400);
    assert_eq!(read_decision(&server), "pending");
    assert_eq!(form(&token, &id, "approve"), 303);
    assert_eq!(read_decision(&server), "approved");
    assert_eq!(form(&token, &id, "approve"), 409);
    // Fields are missing, or a text is.
    let next = |page: &str| read_field(page, "action_id");
    let id = next(&server.get("/runs/r1", &cookie).body);
    let fields = [("form_token", token.as_str()), ("action_id", &id), ("run", "r1")];
    assert!(matches!(post(&server, &cookie, "/actions/decide", &fields).status, 400 | 422));
    assert_eq!(post(&server, &cookie, "/actions/continue", &fields).status, 400);
    let wrong = [fields[0], fields[1], fields[2], ("comments", "{\"line\":1}")];
    assert_eq!(post(&server, &cookie, "/actions/continue/preview", &wrong).status, 400);
    // A GET never acts.
    assert_eq!(server.get("/actions/retry?run=r1", &cookie).status, 405);
}
