//! A minimal MCP server on stdio with one tool, `submit_review`. It appends each call as a line of JSON to
//! the file `$SUBMISSIONS`, with the arguments of the server itself.

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, Write as _};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        // A message without an id is a notification, which gets no answer.
        if message["id"].is_null() {
            continue;
        }
        let mut answer = json!({ "jsonrpc": "2.0", "id": message["id"] });
        match answer_to(&message)? {
            Some(result) => answer["result"] = result,
            None => answer["error"] = json!({ "code": -32601, "message": "no such method" }),
        }
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer_to(message: &Value) -> io::Result<Option<Value>> {
    let params = &message["params"];
    Ok(Some(match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "review-server", "version": "1" },
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({ "tools": [{
            "name": "submit_review",
            "description": "Hands in a review",
            "inputSchema": {
                "type": "object",
                "properties": { "verdict": { "type": "string" }, "summary": { "type": "string" } },
                "required": ["verdict"],
            },
        }] }),
        Some("tools/call") => {
            let path = env::var("SUBMISSIONS").map_err(io::Error::other)?;
            let mut file = File::options().create(true).append(true).open(path)?;
            let args: Vec<String> = env::args().skip(1).collect();
            let got = json!({ "args": args, "tool": params["name"], "arguments": params["arguments"] });
            writeln!(file, "{got}")?;
            json!({ "content": [{ "type": "text", "text": "received" }] })
        }
        _ => return Ok(None),
    }))
}
