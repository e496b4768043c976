//! Walks over every text of a request, with its place. Destructuring the request here names each field, so
//! that a new field cannot be forgotten.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Deref;

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
    /// Replaces a text by the answer, if there is one.
    fn visit_text<T>(&mut self, name: &dyn Fn() -> String, key: Option<&str>, text: &mut T)
    where
        T: Deref<Target = str> + From<String>,
    {
        if let Some(other) = (self.visit)(RequestText { name, key, text, fixed: false }) {
            *text = other.into();
        }
    }

    fn visit_fixed(&mut self, name: &dyn Fn() -> String, text: &str) {
        (self.visit)(RequestText { name, key: None, text, fixed: true });
    }

    fn visit_fixed_list<'t>(&mut self, field: &str, texts: impl IntoIterator<Item = &'t String>) {
        for (at, text) in texts.into_iter().enumerate() {
            self.visit_fixed(&|| format!("{field}[{at}]"), text);
        }
    }

    fn visit_shared_texts(&mut self, field: &str, texts: &mut [SharedText]) {
        for (at, text) in texts.iter_mut().enumerate() {
            self.visit_text(&|| format!("{field}[{at}]"), None, text);
        }
    }

    fn visit_request(&mut self, request: &mut Request) {
        let Request {
            schema: _,
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
            allow,
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
        instructions.iter_mut().for_each(|text| self.visit_text(&|| "instructions".into(), None, text));
        let mut changed = BTreeMap::new();
        for (key, text) in values.iter().filter(|(key, _)| !secret.contains(key.as_str())) {
            self.visit_fixed(&|| format!("key {key}"), key);
            let name = &|| format!("values.{key}");
            if let Some(other) = (self.visit)(RequestText { name, key: Some(key), text, fixed: false }) {
                changed.insert(key.clone(), SharedText::from(other));
            }
        }
        changed.into_iter().for_each(|(key, text)| values.insert(key, text));
        context.iter_mut().enumerate().for_each(|(at, block)| self.visit_context(at, block));
        documents.iter_mut().enumerate().for_each(|(at, document)| self.visit_document(at, document));
        self.visit_fixed_list("allow", &*allow);
        self.visit_fixed_list("read_first", &*read_first);
        for (at, MemoryEntry { kind, content }) in memories.iter_mut().enumerate() {
            self.visit_text(&|| format!("memories[{at}].type"), None, kind);
            self.visit_text(&|| format!("memories[{at}].content"), None, content);
        }
        self.visit_shared_texts("rules", rules);
        for (at, tool) in tools.iter_mut().enumerate() {
            self.visit_value(&|| format!("tools[{at}]"), None, tool);
        }
        task.iter_mut().for_each(|task| self.visit_task(task));
        previous.iter_mut().for_each(|facts| self.visit_facts(facts));
        human_input.iter_mut().for_each(|text| self.visit_text(&|| "human_input".into(), None, text));
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
        text.iter_mut().for_each(|text| self.visit_text(&|| format!("context[{at}].text"), Some(name), text));
        data.iter_mut().for_each(|data| self.visit_entries(&|| format!("context[{at}].data"), data));
    }

    fn visit_document(&mut self, at: usize, document: &mut RequestDocument) {
        let RequestDocument { kind: _, name, path, content, detail: _, left_out: _, embed: _, lines: _ } =
            document;
        name.iter_mut().for_each(|name| self.visit_text(&|| format!("documents[{at}].name"), None, name));
        path.iter().for_each(|path| self.visit_fixed(&|| format!("documents[{at}].path"), path));
        content
            .iter_mut()
            .for_each(|text| self.visit_text(&|| format!("documents[{at}].content"), None, text));
    }

    fn visit_task(&mut self, task: &mut Task) {
        let Task { id, title, description, criteria, write, exclude, depth: _, max_depth: _, max_steps: _ } =
            task;
        for (field, text) in [("id", id), ("title", title), ("description", description)] {
            text.iter_mut().for_each(|text| self.visit_text(&|| format!("task.{field}"), None, text));
        }
        self.visit_shared_texts("task.criteria", criteria);
        self.visit_fixed_list("task.write", &*write);
        self.visit_fixed_list("task.exclude", &*exclude);
    }

    fn visit_facts(&mut self, facts: &mut RunFacts) {
        let RunFacts { run, ended: _, exit_code: _, attempts: _, checks, changed, violations, unseen, reply } =
            facts;
        reply.iter_mut().for_each(|reply| self.visit_value(&|| "previous.reply".into(), None, reply));
        run.iter().for_each(|run| self.visit_fixed(&|| "previous.run".into(), run));
        for (at, CheckSummary { name, result: _, output }) in checks.iter_mut().enumerate() {
            self.visit_fixed(&|| format!("previous.checks[{at}].name"), name);
            let name = &|| format!("previous.checks[{at}].output");
            output.iter_mut().for_each(|output| self.visit_text(name, None, output));
        }
        self.visit_fixed_list("previous.changed", &*changed);
        for (at, Violation { path, reason: _, decision: _ }) in violations.iter().enumerate() {
            self.visit_fixed(&|| format!("previous.violations[{at}].path"), path);
        }
        self.visit_fixed_list("previous.unseen", &*unseen);
    }

    fn visit_value(&mut self, name: &dyn Fn() -> String, key: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => self.visit_text(name, key, text),
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
