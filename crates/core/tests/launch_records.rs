//! Records of how a run was started.

use callsheet_core::library::agent::DeliveryMethod;
use callsheet_core::record::{LaunchRecord, RunOptions};
use serde_json::{Value, json};

/// A record with every key, as version 1 of the ledger has it.
fn whole_record() -> Value {
    json!({
        "host": "here", "worktree": "/w", "own_worktree": true, "by": "stdin", "program": ["a", "b"],
        "model": "m", "session": "s", "permit": "all", "scope": { "write": ["src/**"], "exclude": [] }, "no_scope": true,
        "checks": [{ "name": "c", "argv": ["true"] }], "env": ["X"], "timeout_ms": 5, "max_cost_usd": 0.5,
        "single_coder": true, "tasks": ["1.1"], "head": "abc", "dirty": true, "share": true,
        "tracking": "cgroup", "flow": { "flow": "f" },
    })
}

#[test]
fn launch_record_keeps_every_key() {
    let record: LaunchRecord = serde_json::from_value(whole_record()).unwrap();
    let RunOptions { by, program, timeout_ms, share, .. } = &record.options;
    assert_eq!((*by, program.len(), *timeout_ms, *share), (Some(DeliveryMethod::Stdin), 2, Some(5), true));
    assert_eq!(serde_json::to_value(&record).unwrap(), whole_record());
    assert_eq!(serde_json::from_value::<LaunchRecord>(json!({})).unwrap(), LaunchRecord::default());
}

#[test]
fn launch_record_refuses_unknown_key() {
    for key in ["unheard", "options", "timeout", "Host"] {
        let mut record = whole_record();
        record[key] = json!(1);
        let error = serde_json::from_value::<LaunchRecord>(record).unwrap_err().to_string();
        assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
    }
}
