//! Names that callsheet itself provides to slots: the request's fields, and the fields of derived rows.

use callsheet_core::library::recipe::DerivedValue;

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

/// A kind of row and its fields.
pub(crate) type RowKind = (&'static str, &'static [&'static str]);

/// The fields of a sub-plan.
const PLAN: &[&str] = &["number", "title", "plan_file", "plan_text", "tasks_file", "tasks_text"];

/// Returns the kinds of rows that a derived value can have.
pub(crate) const fn row_kinds(derived: DerivedValue) -> &'static [RowKind] {
    match derived {
        DerivedValue::ProjectContext => &[("file", &["content"])],
        DerivedValue::Tasks => &[("file", &["content"]), ("task", &["content"])],
        DerivedValue::Research => &[("summary", &["path"]), ("detail", &["path"])],
        DerivedValue::Plans => &[
            ("one", PLAN),
            ("all", &["count"]),
            ("serial", &["group"]),
            ("parallel", &["group"]),
            ("plan", PLAN),
            ("beside", &[]),
            ("delegate", &["tool"]),
            ("alone", &[]),
        ],
        DerivedValue::SubPlans => &[("plan", PLAN)],
        DerivedValue::Completion => {
            &[("tool", &["number", "tool", "arguments", "path"]), ("file", &["number", "path"])]
        }
        DerivedValue::Findings => &[("file", &["path", "content"])],
        DerivedValue::ReviewRound => &[("round", &["round"])],
        DerivedValue::ProjectDocuments => &[("file", &["content"]), ("memory", &["content"])],
        DerivedValue::ProjectStructure => &[
            ("dir", &["indent", "name"]),
            ("file", &["indent", "name"]),
            ("rest", &["count"]),
            ("deeper", &["count"]),
            ("empty", &[]),
        ],
        DerivedValue::Rules => &[("rule", &["text"])],
        DerivedValue::Artifacts => &[("artifact", &["name"])],
        DerivedValue::Skeleton => &[("skeleton", &["content"])],
        DerivedValue::Depth => &[
            ("execution-focus", &[]),
            ("plan-structure-guide", &["max_steps"]),
            ("controlled-splitting", &["current_depth", "max_depth"]),
        ],
        DerivedValue::ContextData => &[("entry", &["key", "value"])],
        DerivedValue::Extension => &[],
        DerivedValue::Preferences => &[("preference", &["text"])],
        DerivedValue::FeatureDir | DerivedValue::ProjectDir => &[("path", &["path"])],
        DerivedValue::AskUserTool => &[("tool", &["name"])],
        DerivedValue::Contract => &[
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
        DerivedValue::Workspace => &[("git", &[]), ("folder", &[])],
        DerivedValue::Task => &[("both", &["id", "title"]), ("id", &["id"]), ("title", &["title"])],
        DerivedValue::Criteria => &[("criterion", &["text"])],
        DerivedValue::ReadFirst => &[("path", &["path"]), ("dir", &["path", "count"]), ("rest", &["count"])],
        DerivedValue::Memories => &[("memory", &["type", "content"])],
        DerivedValue::Write => &[("glob", &["glob"]), ("open", &["glob"])],
        DerivedValue::Exclude => &[("glob", &["glob"])],
        DerivedValue::RunResult => &[
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
        DerivedValue::Checks => &[("check", &["name", "result"]), ("output", &["name", "result", "output"])],
        DerivedValue::Violations => &[
            ("count", &["count"]),
            ("outside_write", &["path", "decision"]),
            ("excluded", &["path", "decision"]),
            ("leads_outside", &["path", "decision"]),
            ("rest", &["count"]),
        ],
        DerivedValue::Changed => &[("path", &["path"]), ("rest", &["count"])],
    }
}

/// Returns the slots that the wording around all rows can use.
pub(crate) const fn wrap_fields(derived: DerivedValue) -> &'static [&'static str] {
    match derived {
        DerivedValue::ContextData => &["rows", "title"],
        _ => &["rows"],
    }
}
