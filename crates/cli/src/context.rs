//! The context of a command: the project and the printer.

use callsheet::error::Result;
use std::io::{BufRead as _, IsTerminal as _};
use std::ops::Deref;
use std::sync::Arc;

use callsheet::compose::inputs::{ComposeInput, RequestFile};
use callsheet::events::EventOutput;
use callsheet::notify::parse_notify;
use callsheet::observer::Observer;
use callsheet::project::person::refuse_below_guard;
use callsheet::project::trust::TrustRequest;
use callsheet::project::{Project, ProjectOptions};
use callsheet_core::diag::{Code, Diagnostic, escape_invisible};

use crate::args::GlobalArgs;
use crate::live::{LiveLines, RenderLines};
use crate::print::OutputPrinter;

/// A project, and the printer for the results of its use cases.
#[derive(Clone, Debug)]
pub(crate) struct CommandContext {
    project: Project,
    pub(crate) print: Arc<OutputPrinter>,
}

impl CommandContext {
    /// Opens the project of a command. Unreadable settings of the project are only reported if `config_optional` is set.
    pub(crate) fn new(
        global: &GlobalArgs,
        print: &Arc<OutputPrinter>,
        config_optional: bool,
    ) -> Result<Self> {
        let project = Project::open_with(ProjectOptions {
            dir: global.project.clone(),
            ledger: global.ledger.clone(),
            all_projects: global.all_projects,
            config_optional,
            observer: Arc::clone(print) as Arc<dyn Observer>,
            ..ProjectOptions::default()
        })?;
        Ok(Self { project, print: Arc::clone(print) })
    }

    /// Returns the context with the sources of a JSON file instead of the project's own.
    pub(crate) fn with_sources(self, path: &str) -> Result<Self> {
        Ok(Self { project: self.project.with_sources(path)?, print: self.print })
    }

    /// Returns the context with the command for notifications that was given.
    pub(crate) fn with_notify(&self, command: Option<&str>) -> Result<Self> {
        let project = match command {
            Some(command) => self.project.with_notify(parse_notify(command)?),
            None => self.project.clone(),
        };
        Ok(Self { project, print: Arc::clone(&self.print) })
    }

    /// Reads the request file, and returns it with the context for the project that it names, else this one.
    pub(crate) fn read_request(&self, input: &ComposeInput) -> Result<(Self, RequestFile)> {
        let file = RequestFile::read(self, input)?;
        let project = file.open_project(&self.project)?.unwrap_or_else(|| self.project.clone());
        Ok((Self { project, print: Arc::clone(&self.print) }, file))
    }
}

impl Deref for CommandContext {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.project
    }
}

impl Observer for OutputPrinter {
    fn diagnostics(&self, diagnostics: &[Diagnostic]) {
        self.print_diagnostics(diagnostics);
    }

    fn status(&self, line: &str) {
        self.print_status(line);
    }

    fn note(&self, line: &str) {
        self.print_note(line);
    }

    fn wants_notes(&self) -> bool {
        self.is_verbose()
    }

    fn wants_events(&self) -> bool {
        self.json
    }

    fn event(&self, event: &EventOutput) -> Result<()> {
        self.print_stream_line(event).map(drop)
    }

    fn hide_address(&self, address: &str) {
        self.add_hidden_address(address);
    }

    fn ask_consent(&self, requests: &[TrustRequest]) -> Result<Option<bool>> {
        if !self.can_ask() {
            return Ok(None);
        }
        refuse_below_guard()?;
        ask_consent(self, requests).map(Some)
    }

    fn show_progress(&self, line: Box<dyn Fn() -> String + Send>) -> Option<Box<dyn std::any::Any>> {
        self.show_lines(Box::new(move |_| vec![line()]))
    }

    fn show_lines(&self, lines: RenderLines) -> Option<Box<dyn std::any::Any>> {
        let live = self.can_show_lines().then(|| LiveLines::start(&self.live, lines)).flatten()?;
        Some(Box::new(live))
    }

    fn shows_lines(&self) -> bool {
        self.can_show_lines()
    }

    fn ring_bell(&self) {
        self.ring_terminal_bell();
    }
}

impl OutputPrinter {
    /// Returns whether a person at a terminal can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.watched && std::io::stdin().is_terminal()
    }
}

/// Asks the person at the terminal to trust the files of the project.
pub(crate) fn ask_consent(print: &OutputPrinter, requests: &[TrustRequest]) -> Result<bool> {
    print.print_status("This project's files ask to:");
    for request in requests {
        print.print_status(&format!("  {}", escape_invisible(&request.shown)));
    }
    read_yes(print, "Trust this project?")
}

/// Asks the person at the terminal a question. Only `y` and `yes` agree.
pub(crate) fn read_yes(print: &OutputPrinter, question: &str) -> Result<bool> {
    print.print_status(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Diagnostic::error(Code::InputUnreadable, format!("standard input: {error}")))?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
