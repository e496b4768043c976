//! Calls a person back when a run ends or a flow waits: by the bell of the terminal, and by a program of the user.

use std::collections::BTreeMap;
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::RunSummary;
use callsheet_core::split_words;
use callsheet_run::{OutputStream, ProcessEvent, ProcessJob, ProcessLimits, run_process};

use crate::error::{Result, usage_error};
use crate::flow::RecordedFlow;
use crate::project::Project;
use crate::text_width::visible_line;

/// The end of a run, or of the work on a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndNotice {
    /// The run.
    pub run: Option<String>,
    /// The flow.
    pub flow: Option<String>,
    /// The outcome of the run, or the condition of the flow.
    pub outcome: String,
    /// The task of the run, or the name of the flow.
    pub name: String,
}

/// The shortest run after which the bell rings: a person does not leave for a shorter one.
const LEAST_RING: Duration = Duration::from_secs(5);

/// How long the program may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

impl EndNotice {
    /// Describes the end of a run.
    pub fn from_run(summary: &RunSummary) -> Self {
        Self {
            run: Some(summary.run.id.to_string()),
            flow: None,
            outcome: summary.outcome().name().to_owned(),
            name: summary.run.task.clone().unwrap_or_default(),
        }
    }

    /// Describes a flow that waits or has ended.
    pub fn from_flow(flow: &RecordedFlow) -> Self {
        Self {
            run: None,
            flow: Some(flow.id.to_string()),
            outcome: flow.state.condition().name().to_owned(),
            name: flow.plan.name.clone(),
        }
    }
}

/// Splits the command of a notification into words.
pub fn parse_notify(command: &str) -> Result<Vec<String>> {
    let words = split_words(command).map_err(|diag| Diagnostics(vec![diag]))?;
    if words.is_empty() {
        return Err(usage_error("`--notify` has no command").into());
    }
    Ok(words)
}

impl Project {
    /// Returns the project with another command for notifications.
    #[must_use]
    pub fn with_notify(&self, command: Vec<String>) -> Self {
        let mut project = self.clone();
        project.config.notify.value = self.resolve_typed_program(&command);
        project.config.notify.from = "command line".into();
        project
    }

    /// Rings the bell after long work, and runs the program for notifications. Its failure is only a warning.
    pub(crate) fn notify(&self, notice: &EndNotice, took: Duration) {
        if self.config.bell.value && (took >= LEAST_RING || notice.flow.is_some()) {
            self.observer.ring_bell();
        }
        if let Some(problem) = self.run_notify(notice) {
            let shown = visible_line(&self.config.notify.value.join(" "));
            let message = format!("the notification `{shown}` failed: {problem}");
            self.observer.diagnostics(&[Diagnostic::warning(Code::NotifyFailed, message)]);
        }
    }

    /// Runs the program for notifications; returns its failure.
    fn run_notify(&self, notice: &EndNotice) -> Option<String> {
        let argv = self.config.notify.value.clone();
        if argv.is_empty() {
            return None;
        }
        let own = [
            ("CALLSHEET_RUN", notice.run.as_deref()),
            ("CALLSHEET_FLOW", notice.flow.as_deref()),
            ("CALLSHEET_OUTCOME", Some(notice.outcome.as_str())),
            ("CALLSHEET_NAME", Some(notice.name.as_str())),
        ];
        // An unset value must not be inherited from the surrounding environment.
        let env: BTreeMap<String, String> =
            own.into_iter().map(|(name, value)| (name.into(), value.unwrap_or_default().into())).collect();
        let limits = ProcessLimits {
            deadline: Some(TIME_LIMIT),
            head_bytes: 4096,
            tail_bytes: 4096,
            ..ProcessLimits::default()
        };
        let job = ProcessJob { env, limits, ..ProcessJob::new(argv, self.dir.clone()) };
        let mut said = String::new();
        let ran = run_process(&job, &mut |event| {
            if let ProcessEvent::Output { stream: OutputStream::Stderr, text, .. } = event {
                said = visible_line(&text);
            }
        });
        match ran {
            Ok(exit) if exit.code == Some(0) => None,
            Ok(exit) => {
                let code = exit
                    .code
                    .map_or_else(|| exit.ended.name().to_owned(), |code| format!("exit code {code}"));
                Some(if said.is_empty() { code } else { format!("{code}: {said}") })
            }
            Err(error) => Some(error.to_string()),
        }
    }
}
