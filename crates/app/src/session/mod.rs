//! Session to which agents submit: the core judges a submission, and this module writes its files.

pub mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, escape_invisible};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::preferences::{self, Preference};
use callsheet_core::library::yaml::read_yaml;
use callsheet_core::secrets::mask_addresses;
use callsheet_core::submission::{self, AcceptedSubmission, find_waiting_files};
use callsheet_core::{SourceId, SourceRoot, Sources as _};
use callsheet_run::{Disk, Roots, WritableFolder, find_shared_names};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::diagnostics::{join_lines, mask_diagnostic};
use crate::error::{Result, unreadable_error};
use crate::project::{Project, resolve_directory};
use crate::session::write::check_stays_inside;

/// The directory of a session, to which agents submit.
#[derive(Debug)]
pub struct SessionDir {
    /// The layout of the project.
    pub layout: Layout,
    /// The sources of the session.
    pub disk: Disk,
    /// The directory of the project.
    pub project: PathBuf,
    /// The directory of the session.
    pub dir: PathBuf,
    max_file_bytes: u64,
    /// Preferences are only proposed, because no person is there to approve them.
    pub proposes: bool,
}

/// Effects of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SubmissionResult {
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that were removed.
    pub removed: Vec<String>,
    /// New preferences by role.
    pub preferences: BTreeMap<String, Vec<String>>,
    /// Preferences that a person must still approve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<Preference>,
    /// Questions that only the person can answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
}

/// Results of the files that waited for a contract.
#[derive(Debug, Default)]
pub(crate) struct FileSubmissions {
    /// Accepted submissions, each with its verdict if it has one.
    pub accepted: Vec<(Option<String>, SubmissionResult)>,
    /// Reasons why other files were refused.
    pub refused: Vec<String>,
}

impl SessionDir {
    /// Opens the session at `dir`, or the project as a session.
    pub fn open(project: &Project, dir: Option<&Path>) -> Result<Self> {
        let dir = match dir {
            Some(dir) => {
                let path = project.session_path(dir);
                let real = resolve_directory(&path, dir)?;
                check_stays_inside(&project.dir, &path, &real)?;
                real
            }
            None => project.dir.clone(),
        };
        let roots = Roots {
            user: project.user.clone(),
            project: Some(project.dir.clone()),
            session: Some(dir.clone()),
        };
        let max_file_bytes = project.config.max_file_bytes.value;
        Ok(Self {
            layout: project.config.layout(),
            disk: Disk::new(&roots, max_file_bytes),
            project: project.dir.clone(),
            dir,
            max_file_bytes,
            proposes: false,
        })
    }

    /// Submits `data` under the contract `tool`: writes its files and remembers its preferences.
    pub fn submit(&self, tool: &str, data: &Value) -> Result<SubmissionResult> {
        self.carry_out(self.judge(tool, data)?)
    }

    /// Submits the files that agents wrote for the contract `tool`. Writes nothing unless all of them are
    /// valid.
    pub fn submit_files(&self, tool: &str) -> Result<Vec<SubmissionResult>> {
        let files = find_waiting_files(&self.disk, &self.layout, tool)?;
        if files.is_empty() {
            let message = format!("the session has no file for `{tool}`");
            return Err(Diagnostic::error(Code::InputNotFound, message)
                .searched([self.dir.display()])
                .into());
        }
        let mut all = Vec::new();
        let mut wrong = Vec::new();
        for (path, named) in files {
            match self.judge_file(tool, &path, &named) {
                Ok((submitted, _)) => all.push(submitted),
                Err(error) => wrong.extend(error.into_diagnostics().0.into_iter().map(|mut diag| {
                    diag.looked.insert(0, format!("session:{path}"));
                    diag
                })),
            }
        }
        if !wrong.is_empty() {
            return Err(Diagnostics(wrong).into());
        }
        all.into_iter().map(|submitted| self.carry_out(submitted)).collect()
    }

    /// Submits the waiting files for the contract `tool` that `wanted` selects, each if it is valid.
    pub(crate) fn submit_waiting_files(
        &self,
        tool: &str,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<FileSubmissions> {
        let mut handed_in = FileSubmissions::default();
        for (path, named) in
            find_waiting_files(&self.disk, &self.layout, tool)?.into_iter().filter(|(path, _)| wanted(path))
        {
            match self.judge_file(tool, &path, &named) {
                Ok((submitted, data)) => {
                    let verdict = data["verdict"].as_str().map(str::to_owned);
                    handed_in.accepted.push((verdict, self.carry_out(submitted)?));
                }
                Err(failure) => handed_in.refused.extend(refusal_reasons(failure.diagnostics(), Some(&path))),
            }
        }
        Ok(handed_in)
    }

    /// Judges a file. A number or role in its name applies to its data too.
    fn judge_file(
        &self,
        tool: &str,
        path: &str,
        named: &serde_json::Map<String, Value>,
    ) -> Result<(AcceptedSubmission, Value)> {
        let id = SourceId::new(SourceRoot::Session, path).map_err(|error| unreadable_error(path, error))?;
        let text = self.disk.text(&id).map_err(|error| unreadable_error(path, error))?;
        // An empty file has no data, which is enough if no field is required.
        let mut data = match read_yaml(path, &text.unwrap_or_default())? {
            Value::Null => json!({}),
            data => data,
        };
        for (field, value) in named {
            match data.get(field) {
                None => {
                    if let Value::Object(data) = &mut data {
                        data.insert(field.clone(), value.clone());
                    }
                }
                Some(given) if given == value => {}
                Some(given) => {
                    let message = format!("`{field}` is {given}, but the file name says {value}");
                    return Err(Diagnostic::error(Code::SubmissionBad, message).into());
                }
            }
        }
        Ok((self.judge(tool, &data)?, data))
    }

    fn judge(&self, tool: &str, data: &Value) -> Result<AcceptedSubmission> {
        let shared_names = || find_shared_names(&self.project);
        Ok(submission::submit_with_shared_names(&self.disk, &self.layout, tool, data, &shared_names)?)
    }

    fn carry_out(&self, submitted: AcceptedSubmission) -> Result<SubmissionResult> {
        let AcceptedSubmission { changes, preferences, questions } = submitted;
        let folder = open_folder(&self.dir)?;
        folder.apply(&changes)?;
        let (approved, proposed) =
            if self.proposes { (Vec::new(), preferences) } else { (preferences, Vec::new()) };
        let preferences = add_preferences(&self.project, &self.layout, self.max_file_bytes, &approved)?;
        let written = changes.write.into_keys().collect();
        Ok(SubmissionResult { written, removed: changes.remove, preferences, proposed, questions })
    }
}

/// Renders the reasons of a refusal, each with its place. They are recorded, so they must not contain
/// secrets.
pub fn refusal_reasons(diags: &[Diagnostic], file: Option<&str>) -> Vec<String> {
    let reason = |diag: &Diagnostic| {
        let diag = mask_diagnostic(diag);
        let place = diag.place.as_ref().map(|place| {
            let (line, column) = place.line_column();
            format!("{}:{line}:{column}: ", place.name)
        });
        // A message that names a file of the same folder has its place already.
        let is_unnamed = |file: &&str| {
            let folder = file.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
            !folder.is_some_and(|folder| diag.message.contains(&folder))
        };
        let place = place.or_else(|| Some(format!("{}: ", file.filter(is_unnamed)?))).unwrap_or_default();
        let hints: String = diag.hints.iter().map(|hint| format!("; {hint}")).collect();
        let more =
            if diag.more > 0 { format!("; and {} more of this kind", diag.more) } else { String::new() };
        let message = join_lines(&diag.message);
        let reason = format!("{place}{message}{hints}{more}");
        mask_addresses(&escape_invisible(&reason))
    };
    diags.iter().map(reason).collect()
}

/// Adds preferences to the extension files of their roles. Returns the new ones by role.
pub(crate) fn add_preferences(
    project: &Path,
    layout: &Layout,
    limit: u64,
    preferences: &[Preference],
) -> Result<BTreeMap<String, Vec<String>>> {
    let mut by_role: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Preference { role, bullet } in preferences {
        by_role.entry(role).or_default().push(bullet);
    }
    let mut added = BTreeMap::new();
    for (role, bullets) in by_role {
        let update = |text: &str| preferences::add_bullets(text, &bullets);
        let new = open_folder(project)?.update(&preferences::extension_path(layout, role), limit, update);
        added.insert(role.to_owned(), new?);
    }
    Ok(added)
}

/// Returns the preferences that their roles do not have yet.
pub fn new_preferences(project: &Project, preferences: &[Preference]) -> Vec<Preference> {
    let (disk, layout) = (project.disk(None), project.config.layout());
    let is_new = |preference: &&Preference| {
        let id =
            SourceId::new(SourceRoot::Project, &preferences::extension_path(&layout, &preference.role)).ok();
        let text = id.and_then(|id| disk.text(&id).ok().flatten()).unwrap_or_default();
        !preferences::add_bullets(&text, &[&preference.bullet]).1.is_empty()
    };
    preferences.iter().filter(is_new).cloned().collect()
}

/// Opens a directory for writing below it.
pub fn open_folder(dir: &Path) -> Result<WritableFolder> {
    WritableFolder::open(dir).map_err(|error| {
        Diagnostic::error(Code::InputNotFound, format!("cannot open `{}`: {error}", dir.display())).into()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    struct SessionFixture(TempDir);

    impl SessionFixture {
        fn new() -> Self {
            let fixture = Self(TempDir::new().unwrap());
            fs::create_dir(fixture.0.path().join("session")).unwrap();
            fixture
        }

        fn session(&self) -> SessionDir {
            let (project, dir) = (self.0.path().to_path_buf(), self.0.path().join("session"));
            let roots = Roots { user: None, project: Some(project.clone()), session: Some(dir.clone()) };
            let max_file_bytes = 1 << 20;
            let disk = Disk::new(&roots, max_file_bytes);
            SessionDir { layout: Layout::default(), disk, project, dir, max_file_bytes, proposes: false }
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join("session").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Returns every file with its text.
        fn files(&self) -> BTreeMap<String, String> {
            let mut files = BTreeMap::new();
            let mut open = vec![self.0.path().to_path_buf()];
            while let Some(folder) = open.pop() {
                for entry in fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        open.push(path);
                    } else {
                        let name = path.strip_prefix(self.0.path()).unwrap().display().to_string();
                        files.insert(name, fs::read_to_string(path).unwrap());
                    }
                }
            }
            files
        }
    }

    const SUBPLAN: &str = "title: 'Export: as CSV'\nscope: >\n  The exporter\n  and its route.\n\
                           owned_files: [src/export/**, ./docs/export.md]\ndependencies: |\n\n  None.\n\n\
                           implementation_approach: Tests first.\nacceptance_criteria: \"It\\tworks.\"\n\
                           tasks:\n- Write the tests\n- 'Implement: it'\n";

    fn subplan(index: u64) -> Value {
        json!({
            "index": index,
            "title": "Export: as CSV",
            "scope": "The exporter and its route.\n",
            "owned_files": ["src/export/**", "docs/export.md"],
            "dependencies": "None.",
            "implementation_approach": "Tests first.",
            "acceptance_criteria": "It\tworks.",
            "tasks": ["Write the tests", "Implement: it"],
            "isolation_rationale": "",
        })
    }

    fn order() -> Value {
        json!({
            "plan_overview": "One step.\n\nNo more.",
            "phase_1": "None.",
            "phase_2": "None.",
            "phase_3": "The export.",
            "conflict_map": [],
            "groups": [{ "group_id": "g1", "mode": "serial", "plans": [{ "file": "plan_1.md", "name": "Export" }] }],
            "needs_design": false,
            "needs_docs": true,
            "doc_files": ["docs/export.md"],
            "review_strategy": { "severity": "high", "focus": ["memory"] },
        })
    }

    /// As a person would write it by hand.
    const ORDER: &str = "# the plan\nversion: 1\nplan_overview: |\n  One step.\n\n  No more.\n\
                         phase_1: None.\nphase_2: None.\nphase_3: The export.\nconflict_map: []\n\
                         groups:\n  - {group_id: g1, mode: serial, plans: [{file: plan_1.md, name: Export}]}\n\
                         needs_design: false\nneeds_docs: true\ndoc_files: [docs/export.md]\n\
                         review_strategy: {severity: high, focus: [memory]}\n";

    #[test]
    fn tool_and_file_submissions_write_same() {
        let plan = {
            let mut plan = order();
            plan["groups"][0]["plans"][0] = json!({ "index": 1, "name": "Export" });
            plan["subplans"] = json!([subplan(1)]);
            plan
        };
        let indented: String = SUBPLAN.lines().map(|line| format!("    {line}\n")).collect();
        let plan_yaml = ORDER.replace("version: 1", "version: 2").replace("file: plan_1.md", "index: 1")
            + "subplans:\n  - index: 1\n"
            + &indented;
        let subplan_yaml = format!("index: 1\n{SUBPLAN}");
        let review = json!({
            "verdict": "fail",
            "summary": "One error.",
            "findings": [{ "issue": "It ends.", "severity": "low", "recommendation": "Return it.", "location": " " }],
            "role": "logic",
            "preferences": [{ "target_role": "coder", "bullet": "- Return errors" }],
        });
        let review_yaml = "verdict: fail\nsummary: One error.\nfindings:\n- issue: It ends.\n  severity: low\n  recommendation: Return it.\n\
                           preferences:\n- {target_role: coder, bullet: '- Return errors'}\n";
        let texts = [
            "solution_overview",
            "interfaces_and_contracts",
            "data_models",
            "cross_cutting_concerns",
            "technology_choices",
            "risks_and_mitigations",
        ];
        let mut architecture = json!({ "components": [{ "name": "Exporter", "responsibility": "Writes.", "interfaces": ["export()"] }] });
        let mut architecture_yaml = String::from(
            "components:\n- {name: Exporter, responsibility: Writes., interfaces: ['export()']}\n",
        );
        for text in texts {
            architecture[text] = format!("About {text}.").into();
            architecture_yaml += &format!("{text}: About {text}.\n");
        }
        type Step<'a> = (&'a str, Value, &'a str, &'a str);
        let sessions: [&[Step<'_>]; 4] = [
            &[("submit_architecture", architecture, "02_architecting/architecture.yaml", &architecture_yaml)],
            &[("submit_plan", plan, "04_planning/plan.yaml", &plan_yaml)],
            &[
                ("submit_subplan", subplan(1), "04_planning/plan_1.yaml", &subplan_yaml),
                ("submit_execution_plan", order(), "04_planning/execution_plan.yaml", ORDER),
            ],
            &[("submit_review", review, "07_review/review_logic.yaml", review_yaml)],
        ];
        for steps in sessions {
            let (by_tool, by_file) = (SessionFixture::new(), SessionFixture::new());
            for (tool, data, file, yaml) in steps {
                let done = by_tool.session().submit(tool, data).unwrap();
                by_file.write(file, yaml);
                assert_eq!(by_file.session().submit_files(tool).unwrap(), [done]);
            }
            assert_eq!(by_tool.files(), by_file.files());
        }
    }

    #[test]
    fn one_bad_file_prevents_all_writes() {
        let fixture = SessionFixture::new();
        fixture.write("04_planning/plan_1.yaml", &format!("index: 1\n{SUBPLAN}"));
        fixture.write("04_planning/plan_2.yaml", &format!("index: 3\n{SUBPLAN}"));
        fixture.write("04_planning/plan_3.yaml", "index: 3\n");
        fixture.write("04_planning/plan_03.yaml", "nobody's");
        let before = fixture.files();
        let failure = fixture.session().submit_files("submit_subplan").unwrap_err().to_string();
        let missing = [
            "title",
            "scope",
            "owned_files",
            "dependencies",
            "implementation_approach",
            "acceptance_criteria",
            "tasks",
        ]
        .map(|field| {
            format!(
                "error[SubmissionBad]: `{field}` is missing\n  = looked in session:04_planning/plan_3.yaml"
            )
        });
        assert_eq!(
            failure,
            format!(
                "error[SubmissionBad]: `index` is 3, but the file name says 2\n  = looked in session:04_planning/plan_2.yaml\n{}",
                missing.join("\n")
            )
        );
        assert_eq!(fixture.files(), before);
    }

    #[test]
    fn session_without_file_is_refused() {
        let fixture = SessionFixture::new();
        let failure = fixture.session().submit_files("submit_review").unwrap_err();
        assert_eq!(failure.diagnostics()[0].message, "the session has no file for `submit_review`");
    }
}
