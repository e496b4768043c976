//! Reads the reply of an agent that the caller ran by itself.

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::library::contract::Contract;
use callsheet_core::reply::{Reply, ReplyContext, StreamReader, StreamText, read_text};
use callsheet_core::{Library, SharedText, SourceError, find_agent, find_contract};
use callsheet_run::read_file;

use super::spool::TextSpool;
use crate::compose::input_reader::not_found_error;
use crate::error::{Result, unreadable_error, usage_error};
use crate::project::Project;

/// Well above any prompt.
const MOST_PROMPT: u64 = 512 << 20;
/// Well above the output of any agent in one run; endless input is refused here.
const MOST_BYTES: u64 = 4 << 30;

/// What a reply answers.
#[derive(Clone, Debug, Default)]
pub struct ReplyQuestion {
    /// The name of the contract.
    pub contract: String,
    /// The agent that replied; else the configured one.
    pub agent: Option<String>,
    /// The tasks that were asked for.
    pub tasks: Vec<String>,
    /// The file of the prompt.
    pub prompt: Option<String>,
}

/// Reads a reply by its contract.
#[derive(Debug)]
pub struct ReplyReader {
    contract: Contract,
    output: OutputSpec,
    tasks: Vec<String>,
    prompt: Option<SharedText>,
}

impl Project {
    /// Returns the reader of a reply; `None` if the contract requires a submission instead.
    pub fn open_reply(&self, question: &ReplyQuestion) -> Result<Option<ReplyReader>> {
        let (disk, layout) = (self.disk(None), self.config.layout());
        let library = Library::new(&disk);
        let (_, contract) = find_contract(&library, &question.contract, &layout)?;
        self.announce_override("contract", "contracts", &question.contract);
        self.require_evidence_trust()?;
        if contract.submission.is_some() {
            return Ok(None);
        }
        let agent = question.agent.as_ref().or(self.config.agent.value.as_ref());
        let output = match agent.filter(|agent| *agent != "base") {
            Some(agent) => find_agent(&library, agent, &layout)?.1.output,
            None => OutputSpec::default(),
        };
        let tasks: Vec<String> = question.tasks.iter().map(|id| id.trim().to_owned()).collect();
        let is_twice = |id: &String| tasks.iter().filter(|other| *other == id).count() > 1;
        if let Some(id) = tasks.iter().find(|id| id.is_empty() || is_twice(id)) {
            let wrong = if id.is_empty() { "empty id".into() } else { format!("`{id}` is listed twice") };
            let error = usage_error(format!("--tasks: {wrong}"));
            return Err(error.hint("separate ids with commas: `--tasks 1.1,1.2`").into());
        }
        let prompt = question.prompt.as_ref().map(|file| read_prompt(self, file)).transpose()?;
        Ok(Some(ReplyReader { contract, output, tasks, prompt }))
    }
}

impl ReplyReader {
    /// Reads the agent's output to its end.
    pub fn read(&self, input: &mut dyn Read) -> Result<Reply<'static>> {
        let unreadable = |error| unreadable_error("standard input", &error);
        let mut reader = StreamReader::new(&self.output, &mut TextSpool::factory(&std::env::temp_dir()));
        let (mut buffer, mut size) = (vec![0; 64 << 10], 0);
        loop {
            match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    size += read as u64;
                    reader.take(&buffer[..read]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(SourceError::Unreadable(error.to_string()))),
            }
            if size > MOST_BYTES {
                return Err(unreadable(SourceError::TooLarge { size, limit: MOST_BYTES }));
            }
        }
        let StreamText { text, last_message, doubts } = reader.finish();
        let asked =
            ReplyContext { contract: &self.contract, tasks: &self.tasks, prompt: self.prompt.as_deref() };
        Ok(read_text(&asked, StreamText { text: Cow::Owned(text), last_message, doubts }))
    }
}

fn read_prompt(project: &Project, file: &str) -> Result<SharedText> {
    if file == "-" {
        let message = "stdin is already used for the reply; give `--prompt` a file";
        return Err(usage_error(message).into());
    }
    let path = project.here.join(file);
    match read_file(&path, MOST_PROMPT) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(not_found_error(file, &path)),
        Err(error) => Err(unreadable_error(file, &error)),
    }
}
