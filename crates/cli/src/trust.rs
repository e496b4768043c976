//! Trust: what a project's own files would execute or leak happens only after its user has agreed to exactly that.

use std::fs;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diag, Failure, visible};
use callsheet_core::record::sha256;
use callsheet_core::{Root, SourceId, Sources as _, candidates, names_in};

use crate::app::App;
use crate::state::{name_of, private_folder, state_dir, write_private};

/// Something that a project's file asks for, in words, and all that counts of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) shown: String,
    pub(crate) whole: String,
}

impl Wish {
    pub(crate) fn new(shown: impl Into<String>) -> Self {
        let shown = shown.into();
        Self { whole: shown.clone(), shown }
    }
}

/// What the user agreed to, as one number: another wish, and it is another one.
pub(crate) fn print_of(wishes: &[Wish]) -> String {
    let parts: Vec<String> =
        wishes.iter().map(|wish| format!("{} {}\n", wish.whole.len(), wish.whole)).collect();
    sha256(&[parts.concat().as_bytes()]).to_string()
}

fn place(project: &Path) -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("trust").join(name_of(project)))
}

pub(crate) fn is_trusted(project: &Path, wishes: &[Wish]) -> bool {
    let kept = place(project).ok().and_then(|place| fs::read_to_string(place).ok());
    kept.is_some_and(|kept| kept.trim_end() == print_of(wishes))
}

impl App<'_> {
    /// Everything that the project's files ask for and that nobody but its user can allow.
    pub(crate) fn wishes(&self) -> Result<Vec<Wish>, Failure> {
        let mut wishes = self.config.wishes.clone();
        wishes.extend(agents(self)?);
        Ok(wishes)
    }

    /// Nothing happens where the project asks for nothing, or its user has agreed. A person at a terminal is asked.
    pub(crate) fn need_trust(&self) -> Result<(), Failure> {
        let wishes = self.wishes()?;
        if wishes.is_empty() || is_trusted(&self.project, &wishes) {
            return Ok(());
        }
        if !self.print.watched || !std::io::stdin().is_terminal() {
            return Err(required(&wishes));
        }
        self.above_guard()?;
        if self.asks(&wishes)? { self.trust(&wishes) } else { Err(required(&wishes)) }
    }

    /// Asks the person at the terminal.
    pub(crate) fn asks(&self, wishes: &[Wish]) -> Result<bool, Failure> {
        self.print.say("The files of this project ask for this:");
        for wish in wishes {
            self.print.say(&format!("  {}", visible(&wish.shown)));
        }
        self.print.say("Do you trust them? Type yes:");
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Diag::error(Code::InputUnreadable, format!("standard input: {error}")))?;
        Ok(answer.trim() == "yes")
    }

    pub(crate) fn trust(&self, wishes: &[Wish]) -> Result<(), Failure> {
        let place = place(&self.project)?;
        if let Some(folder) = place.parent() {
            private_folder(folder)?;
        }
        write_private(&place, &print_of(wishes))
    }

    /// Takes trust back; whether there was any.
    pub(crate) fn distrust(&self) -> Result<bool, Failure> {
        Ok(fs::remove_file(place(&self.project)?).is_ok())
    }
}

pub(crate) fn required(wishes: &[Wish]) -> Failure {
    let shown: Vec<&str> = wishes.iter().map(|wish| wish.shown.as_str()).collect();
    let message = format!("this project's files ask for what only you can allow: {}", shown.join("; "));
    Diag::error(Code::TrustRequired, message).hint("look at them, then say `callsheet trust`").into()
}

/// The project's own agents: each of them starts a program.
fn agents(app: &App<'_>) -> Result<Vec<Wish>, Failure> {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let mut wishes = Vec::new();
    for name in names_in(&disk, "agents", &layout) {
        let places = candidates(&format!("agents/{name}.toml"), &layout);
        for id in places.iter().filter(|id: &&SourceId| id.root() == Root::Project) {
            let text = disk.text(id).map_err(|error| {
                Diag::error(Code::InputUnreadable, format!("`{id}` cannot be used: {error}"))
            })?;
            wishes.extend(text.map(|text| Wish {
                shown: format!("start the agent `{name}` as `{id}` says"),
                whole: format!("agent {name} {id}\n{text}"),
            }));
        }
    }
    Ok(wishes)
}
