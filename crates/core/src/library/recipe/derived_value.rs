//! The table of derived values: pure functions of request and sources.

use serde::{Deserialize, Serialize};

/// A kind of row and its fields.
pub type RowKind = (&'static str, &'static [&'static str]);

/// The fields of a sub-plan.
const PLAN: &[&str] = &["number", "title", "plan_file", "plan_text", "tasks_file", "tasks_text"];

macro_rules! fields {
    (PLAN) => { PLAN };
    ([$($field:literal),*]) => { &[$($field),*] };
}

macro_rules! derived_values {
    ($(
        $(#[$doc:meta])*
        $value:ident { inputs: [$($input:literal),*], shows: [$($shown:literal),*], rows: [$(($kind:literal, $fields:tt)),*] }
    )*) => {
        /// The derived values: pure functions of request and sources.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum DerivedValue { $($(#[$doc])* $value,)* }

        impl DerivedValue {
            /// Returns the keys of the request's values that it uses.
            pub const fn inputs(self) -> &'static [&'static str] {
                match self { $(Self::$value => &[$($input),*],)* }
            }

            /// Returns the parts of the request that it shows.
            pub(crate) const fn shown_fields(self) -> &'static [&'static str] {
                match self { $(Self::$value => &[$($shown),*],)* }
            }

            /// Returns the kinds of rows that it can have.
            pub const fn row_kinds(self) -> &'static [RowKind] {
                match self { $(Self::$value => &[$(($kind, fields!($fields))),*],)* }
            }
        }
    };
}

derived_values! {
    /// The project's profile, and the file that describes it.
    ProjectContext { inputs: [], shows: [], rows: [("file", ["content"])] }
    /// The memories of the project, or else its profile and documents.
    ProjectDocuments { inputs: [], shows: ["memories"], rows: [
        ("file", ["content"]),
        ("memory", ["content"])
    ] }
    /// A directory tree of the project.
    ProjectStructure { inputs: [], shows: [], rows: [
        ("dir", ["indent", "name"]),
        ("file", ["indent", "name"]),
        ("rest", ["count"]),
        ("deeper", ["count"]),
        ("empty", [])
    ] }
    /// The rules of the request.
    Rules { inputs: [], shows: ["rules"], rows: [("rule", ["text"])] }
    /// The names of the artifacts that the prompt includes.
    Artifacts { inputs: [], shows: [], rows: [("artifact", ["name"])] }
    /// The skeletons of the documents that the phase writes.
    Skeleton { inputs: [], shows: [], rows: [("skeleton", ["content"])] }
    /// The tasks of the session's `tasks.md`: the selection in the value `tasks`, or all.
    Tasks { inputs: ["tasks"], shows: [], rows: [("file", ["content"]), ("task", ["content"])] }
    /// The topics of finished research in the session.
    Research { inputs: [], shows: [], rows: [("summary", ["path"]), ("detail", ["path"])] }
    /// The sub-plan that the value `plan` names, with its checklist; or all sub-plans, in the order of the
    /// execution plan.
    Plans { inputs: ["plan"], shows: [], rows: [
        ("one", PLAN),
        ("all", ["count"]),
        ("serial", ["group"]),
        ("parallel", ["group"]),
        ("plan", PLAN),
        ("beside", []),
        ("delegate", ["tool"]),
        ("alone", [])
    ] }
    /// All sub-plans with their checklists, for an examination of their results.
    SubPlans { inputs: [], shows: [], rows: [("plan", PLAN)] }
    /// The way to report that the work is finished: by the tool of a contract, or by the file that it writes.
    Completion { inputs: ["plan"], shows: [], rows: [
        ("tool", ["number", "tool", "arguments", "path"]),
        ("file", ["number", "path"])
    ] }
    /// The findings of the last review that must be fixed.
    Findings { inputs: ["fix_request_file"], shows: [], rows: [("file", ["path", "content"])] }
    /// The number of the next review round.
    ReviewRound { inputs: [], shows: [], rows: [("round", ["round"])] }
    /// The execution rules that fit the task's depth.
    Depth { inputs: [], shows: ["task.depth", "task.max_steps"], rows: [
        ("execution-focus", []),
        ("plan-structure-guide", ["max_steps"]),
        ("controlled-splitting", ["current_depth", "max_depth"])
    ] }
    /// A context block that is data.
    ContextData { inputs: [], shows: [], rows: [("entry", ["key", "value"])] }
    /// The project's own text for this role or command.
    Extension { inputs: [], shows: [], rows: [] }
    /// The preferences that a person approved for this role.
    Preferences { inputs: [], shows: [], rows: [("preference", ["text"])] }
    /// The session directory, relative to the project.
    FeatureDir { inputs: [], shows: [], rows: [("path", ["path"])] }
    /// The project directory, relative to the worktree.
    ProjectDir { inputs: [], shows: [], rows: [("path", ["path"])] }
    /// The agent's name for its tool for asking the person.
    AskUserTool { inputs: [], shows: [], rows: [("tool", ["name"])] }
    /// The required contents of a reply: the contracts that the value names, or else the contract of the phase.
    Contract { inputs: ["review_role"], shows: [], rows: [
        ("verdicts", []),
        ("verdict", ["name", "when"]),
        ("tasks", []),
        ("task", ["task"]),
        ("task_status", ["name", "when"]),
        ("parts", []),
        ("part", ["name", "when"]),
        ("question", []),
        ("thought", []),
        ("submission", ["tool", "description", "file", "example"]),
        ("submission_as", ["tool", "description", "file", "example", "author"])
    ] }
    /// The directory that the agent works in.
    Workspace { inputs: [], shows: [], rows: [("git", []), ("folder", [])] }
    /// The task's id and title.
    Task { inputs: [], shows: ["task.id", "task.title"], rows: [
        ("both", ["id", "title"]),
        ("id", ["id"]),
        ("title", ["title"])
    ] }
    /// The task's completion criteria.
    Criteria { inputs: [], shows: ["task.criteria"], rows: [("criterion", ["text"])] }
    /// Paths to read first.
    ReadFirst { inputs: [], shows: ["read_first", "documents"], rows: [
        ("path", ["path"]),
        ("dir", ["path", "count"]),
        ("rest", ["count"])
    ] }
    /// The memories of earlier work.
    Memories { inputs: [], shows: ["memories"], rows: [("memory", ["type", "content"])] }
    /// The commands that the agent may run without asking.
    AllowedCommands { inputs: [], shows: ["allow"], rows: [("exact", ["command"]), ("more", ["command"])] }
    /// The globs of files that may be written.
    Write { inputs: [], shows: ["task.write"], rows: [("glob", ["glob"]), ("open", ["glob"])] }
    /// The globs of files that must not be touched.
    Exclude { inputs: [], shows: ["task.exclude"], rows: [("glob", ["glob"])] }
    /// The end of the previous run.
    RunResult { inputs: [], shows: ["previous"], rows: [
        ("run", ["run"]),
        ("unstarted", []),
        ("exited", []),
        ("signaled", []),
        ("timeout", []),
        ("cost", []),
        ("stopped", []),
        ("lost", []),
        ("exit_code", ["exit_code"]),
        ("attempts", ["attempts"])
    ] }
    /// The checks of the previous run.
    Checks { inputs: [], shows: ["previous"], rows: [
        ("check", ["name", "result"]),
        ("output", ["name", "result", "output"])
    ] }
    /// The scope violations of the previous run.
    Violations { inputs: [], shows: ["previous"], rows: [
        ("count", ["count"]),
        ("outside_write", ["path", "decision"]),
        ("excluded", ["path", "decision"]),
        ("leads_outside", ["path", "decision"]),
        ("rest", ["count"])
    ] }
    /// The files that the previous run changed.
    Changed { inputs: [], shows: ["previous"], rows: [("path", ["path"]), ("rest", ["count"])] }
}
