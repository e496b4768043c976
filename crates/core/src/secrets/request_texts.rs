//! Walks over every text of a request, with its place. Destructuring the request here names each field, so
//! that a new field cannot be forgotten.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Map, Value};

use crate::library::layout::Layout;
use crate::request::fact::{CheckSummary, RunFacts, Violation};
use crate::request::{ContextBlock, MemoryEntry, Request, RequestDocument, Task};
use crate::text::SharedText;

pub(super) struct RequestText<'f> {
    pub(super) name: &'f dyn Fn() -> String,
    /// The name of the text, if the name says something about it.
    pub(super) key: Option<&'f str>,
    pub(super) text: &'f str,
    /// Whether the text is a name or a path, which means nothing with a placeholder in it.
    pub(super) fixed: bool,
}

/// Passes each text of `request` to `visit` and replaces it by the answer, if there is one.
pub(super) fn walk_request(request: &mut Request, visit: &mut dyn FnMut(RequestText<'_>) -> Option<String>) {
    RequestWalker { visit }.visit_request(request);
}

struct RequestWalker<'w> {
    visit: &'w mut dyn FnMut(RequestText<'_>) -> Option<String>,
}

impl RequestWalker<'_> {
    fn visit_text(&mut self, name: &dyn Fn() -> String, key: Option<&str>, text: &str) -> Option<String> {
        (self.visit)(RequestText { name, key, text, fixed: false })
    }

    fn visit_fixed(&mut self, name: &dyn Fn() -> String, text: &str) {
        (self.visit)(RequestText { name, key: None, text, fixed: true });
    }

    fn visit_shared_text(&mut self, name: &dyn Fn() -> String, text: &mut SharedText) {
        if let Some(other) = self.visit_text(name, None, text) {
            *text = other.into();
        }
    }

    fn visit_string(&mut self, name: &dyn Fn() -> String, text: &mut String) {
        if let Some(other) = self.visit_text(name, None, text) {
            *text = other;
        }
    }

    fn visit_request(&mut self, request: &mut Request) {
        let Request {
            recipe,
            agent,
            agent_version,
            no_git: _,
            phase,
            role,
            command,
            session,
            project,
            instructions,
            values,
            secret,
            context,
            documents,
            read_first,
            memories,
            rules,
            tools,
            mcp: _,
            missing: _,
            format: _,
            task,
            previous,
            human_input,
            steps,
            layout,
        } = request;
        let names = [
            ("recipe", recipe),
            ("agent", agent),
            ("agent_version", agent_version),
            ("phase", phase),
            ("role", role),
            ("command", command),
            ("session", session),
            ("project", project),
        ];
        for (field, text) in names {
            text.iter().for_each(|text| self.visit_fixed(&|| field.to_string(), text));
        }
        instructions.iter_mut().for_each(|text| self.visit_shared_text(&|| "instructions".into(), text));
        let mut changed = BTreeMap::new();
        for (key, text) in values.iter().filter(|(key, _)| !secret.contains(key.as_str())) {
            self.visit_fixed(&|| format!("key {key}"), key);
            if let Some(other) = self.visit_text(&|| format!("values.{key}"), Some(key), text) {
                changed.insert(key.clone(), SharedText::from(other));
            }
        }
        changed.into_iter().for_each(|(key, text)| values.insert(key, text));
        context.iter_mut().enumerate().for_each(|(at, block)| self.visit_context(at, block));
        documents.iter_mut().enumerate().for_each(|(at, document)| self.visit_document(at, document));
        for (at, path) in read_first.iter().enumerate() {
            self.visit_fixed(&|| format!("read_first[{at}]"), path);
        }
        for (at, MemoryEntry { kind, content }) in memories.iter_mut().enumerate() {
            self.visit_string(&|| format!("memories[{at}].type"), kind);
            self.visit_shared_text(&|| format!("memories[{at}].content"), content);
        }
        for (at, rule) in rules.iter_mut().enumerate() {
            self.visit_shared_text(&|| format!("rules[{at}]"), rule);
        }
        for (at, tool) in tools.iter_mut().enumerate() {
            self.visit_value(&|| format!("tools[{at}]"), None, tool);
        }
        task.iter_mut().for_each(|task| self.visit_task(task));
        previous.iter_mut().for_each(|facts| self.visit_facts(facts));
        human_input.iter_mut().for_each(|text| self.visit_shared_text(&|| "human_input".into(), text));
        steps.keys().for_each(|step| self.visit_fixed(&|| "steps".into(), step));
        // The default layout is callsheet's own.
        if *layout == Layout::default() {
            return;
        }
        let Layout { templates, prompts, project_context } = layout;
        for path in templates.iter().chain([&*prompts, &*project_context]) {
            self.visit_fixed(&|| "layout".into(), path);
        }
    }

    fn visit_context(&mut self, at: usize, block: &mut ContextBlock) {
        let ContextBlock { name, text, data } = block;
        self.visit_fixed(&|| format!("context[{at}].name"), name);
        if let Some(text) = text
            && let Some(other) = self.visit_text(&|| format!("context[{at}].text"), Some(name), text)
        {
            *text = other.into();
        }
        data.iter_mut().for_each(|data| self.visit_entries(&|| format!("context[{at}].data"), data));
    }

    fn visit_document(&mut self, at: usize, document: &mut RequestDocument) {
        let RequestDocument { kind: _, name, path, content, detail: _, left_out: _, embed: _, lines: _ } =
            document;
        name.iter_mut().for_each(|name| self.visit_string(&|| format!("documents[{at}].name"), name));
        path.iter().for_each(|path| self.visit_fixed(&|| format!("documents[{at}].path"), path));
        content
            .iter_mut()
            .for_each(|text| self.visit_shared_text(&|| format!("documents[{at}].content"), text));
    }

    fn visit_task(&mut self, task: &mut Task) {
        let Task { id, title, description, criteria, write, exclude, depth: _, max_depth: _, max_steps: _ } =
            task;
        for (field, text) in [("id", id), ("title", title), ("description", description)] {
            text.iter_mut().for_each(|text| self.visit_shared_text(&|| format!("task.{field}"), text));
        }
        for (at, text) in criteria.iter_mut().enumerate() {
            self.visit_shared_text(&|| format!("task.criteria[{at}]"), text);
        }
        for (field, globs) in [("write", write), ("exclude", exclude)] {
            for (at, glob) in globs.iter().enumerate() {
                self.visit_fixed(&|| format!("task.{field}[{at}]"), glob);
            }
        }
    }

    fn visit_facts(&mut self, facts: &mut RunFacts) {
        let RunFacts { run, ended: _, exit_code: _, attempts: _, checks, changed, violations, unseen, reply } =
            facts;
        reply.iter_mut().for_each(|reply| self.visit_value(&|| "previous.reply".into(), None, reply));
        run.iter().for_each(|run| self.visit_fixed(&|| "previous.run".into(), run));
        for (at, CheckSummary { name, result: _, output }) in checks.iter_mut().enumerate() {
            self.visit_fixed(&|| format!("previous.checks[{at}].name"), name);
            if let Some(output) = output
                && let Some(other) =
                    self.visit_text(&|| format!("previous.checks[{at}].output"), None, output)
            {
                *output = other;
            }
        }
        for (at, path) in changed.iter().enumerate() {
            self.visit_fixed(&|| format!("previous.changed[{at}]"), path);
        }
        for (at, Violation { path, reason: _, decision: _ }) in violations.iter().enumerate() {
            self.visit_fixed(&|| format!("previous.violations[{at}].path"), path);
        }
        for (at, path) in unseen.iter().enumerate() {
            self.visit_fixed(&|| format!("previous.unseen[{at}]"), path);
        }
    }

    fn visit_value(&mut self, name: &dyn Fn() -> String, key: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(other) = self.visit_text(name, key, text) {
                    *text = other;
                }
            }
            Value::Array(entries) => {
                for (at, entry) in entries.iter_mut().enumerate() {
                    self.visit_value(&|| format!("{}[{at}]", name()), key, entry);
                }
            }
            Value::Object(entries) => self.visit_entries(name, entries),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn visit_entries(&mut self, name: &dyn Fn() -> String, entries: &mut Map<String, Value>) {
        for (key, value) in entries {
            self.visit_fixed(&|| format!("key of {}", name()), key);
            self.visit_value(&|| format!("{}.{key}", name()), Some(key), value);
        }
    }
}
