//! What fills slots without anybody's doing: the request's fields, and the fields of derived rows.

use crate::recipe::Derived;

/// The slots that the request's own fields fill.
pub(crate) const REQUEST_FIELDS: [&str; 9] = [
    "agent",
    "phase",
    "role",
    "command",
    "instructions",
    "human_input",
    "task_id",
    "task_title",
    "task_description",
];

/// A kind of row and the fields that it has.
pub(crate) type RowKind = (&'static str, &'static [&'static str]);

/// The fields of a sub-plan.
const PLAN: &[&str] = &["number", "title", "plan_file", "plan_text", "tasks_file", "tasks_text"];

/// The kinds of rows that a derived value can have.
pub(crate) const fn rows(derived: Derived) -> &'static [RowKind] {
    match derived {
        Derived::ProjectContext => &[("file", &["content"])],
        Derived::Tasks => &[("file", &["content"]), ("task", &["content"])],
        Derived::Research => &[("summary", &["path"]), ("detail", &["path"])],
        Derived::Plans => &[
            ("one", PLAN),
            ("all", &["count"]),
            ("serial", &["group"]),
            ("parallel", &["group"]),
            ("plan", PLAN),
            ("delegate", &["tool"]),
            ("alone", &[]),
        ],
        Derived::SubPlans => &[("plan", PLAN)],
        Derived::Completion => {
            &[("tool", &["number", "tool", "arguments", "path"]), ("file", &["number", "path"])]
        }
        Derived::Findings => &[("file", &["path", "content"])],
        Derived::ReviewRound => &[("round", &["round"])],
        Derived::ProjectDocuments => &[("file", &["content"]), ("memory", &["content"])],
        Derived::ProjectStructure => &[
            ("dir", &["indent", "name"]),
            ("file", &["indent", "name"]),
            ("rest", &["count"]),
            ("deeper", &["count"]),
            ("empty", &[]),
        ],
        Derived::Rules => &[("rule", &["text"])],
        Derived::Artifacts => &[("artifact", &["name"])],
        Derived::Skeleton => &[("skeleton", &["content"])],
        Derived::Depth => &[
            ("execution-focus", &[]),
            ("plan-structure-guide", &["max_steps"]),
            ("controlled-splitting", &["current_depth", "max_depth"]),
        ],
        Derived::ContextData => &[("entry", &["key", "value"])],
        Derived::Extension => &[],
        Derived::Preferences => &[("preference", &["text"])],
        Derived::FeatureDir | Derived::ProjectDir => &[("path", &["path"])],
        Derived::AskUserTool => &[("tool", &["name"])],
        Derived::Contract => &[
            ("verdicts", &[]),
            ("verdict", &["name", "when"]),
            ("tasks", &[]),
            ("task", &["task"]),
            ("task_status", &["name", "when"]),
            ("parts", &[]),
            ("part", &["name", "when"]),
            ("question", &[]),
            ("thought", &[]),
            ("submission", &["tool", "description", "file", "example"]),
            ("submission_as", &["tool", "description", "file", "example", "author"]),
        ],
        Derived::Workspace => &[("git", &[]), ("folder", &[])],
        Derived::Task => &[("both", &["id", "title"]), ("id", &["id"]), ("title", &["title"])],
        Derived::Criteria => &[("criterion", &["text"])],
        Derived::ReadFirst => &[("path", &["path"]), ("dir", &["path", "count"]), ("rest", &["count"])],
        Derived::Memories => &[("memory", &["type", "content"])],
        Derived::Write => &[("glob", &["glob"]), ("open", &["glob"])],
        Derived::Exclude => &[("glob", &["glob"])],
        Derived::RunResult => &[
            ("run", &["run"]),
            ("unstarted", &[]),
            ("exited", &[]),
            ("signaled", &[]),
            ("timeout", &[]),
            ("cost", &[]),
            ("stopped", &[]),
            ("lost", &[]),
            ("exit_code", &["exit_code"]),
            ("attempts", &["attempts"]),
        ],
        Derived::Checks => &[("check", &["name", "result"]), ("output", &["name", "result", "output"])],
        Derived::Violations => &[
            ("count", &["count"]),
            ("outside_write", &["path", "decision"]),
            ("excluded", &["path", "decision"]),
            ("leads_outside", &["path", "decision"]),
            ("rest", &["count"]),
        ],
        Derived::Changed => &[("path", &["path"]), ("rest", &["count"])],
    }
}

/// What the wording around all rows can name.
pub(crate) const fn around(derived: Derived) -> &'static [&'static str] {
    match derived {
        Derived::ContextData => &["rows", "title"],
        _ => &["rows"],
    }
}
