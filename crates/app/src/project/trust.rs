//! Trust: a project's files execute or leak something only after the user has agreed to exactly that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use callsheet_core::diag::{Code, Diagnostic, escape_invisible};
use callsheet_core::flow::find_flow;
use callsheet_core::record::sha256;
use callsheet_core::{
    Builtin, FILES, Library, SourceId, SourceRoot, Sources as _, candidates, find_contract, list_names,
};
use callsheet_run::read_own_text;

use crate::error::{Error, Result, unreadable_error};
use crate::project::Project;
use crate::project::person::refuse_below_guard;
use crate::project::profiles::{ProjectProfile, project_profiles};
use crate::project::state::{create_private_folder, directory_key, state_dir, write_private};

/// Request of a project's file: its description, and the whole text that the consent covers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustRequest {
    /// The description for the user.
    pub shown: String,
    /// The whole text that the consent covers.
    pub whole: String,
    /// Nothing starts before the user has agreed. Otherwise, the user's own, stricter value applies until
    /// then.
    pub blocks: bool,
}

impl TrustRequest {
    /// Creates a request that blocks.
    pub fn new(shown: impl Into<String>) -> Self {
        let shown = shown.into();
        Self { whole: shown.clone(), shown, blocks: true }
    }

    /// Requests a value that is looser than the user's own.
    pub(crate) fn new_looser(shown: String) -> Self {
        Self { blocks: false, ..Self::new(shown) }
    }
}

/// Returns the digest of the requests to which the user agreed. Any other request changes it.
pub fn fingerprint(wishes: &[TrustRequest]) -> String {
    let parts: Vec<String> =
        wishes.iter().map(|wish| format!("{} {}\n", wish.whole.len(), wish.whole)).collect();
    sha256(&[parts.concat().as_bytes()]).to_string()
}

fn trust_file(project: &Path) -> Result<PathBuf> {
    Ok(state_dir()?.join("trust").join(directory_key(project)))
}

/// Checks whether the user has agreed to exactly these requests.
pub fn is_trusted(project: &Path, wishes: &[TrustRequest]) -> bool {
    let kept = trust_file(project).ok().and_then(|place| read_own_text(&place));
    kept.is_some_and(|kept| kept.trim_end() == fingerprint(wishes))
}

impl Project {
    /// Returns all requests of the project's files that only the user can allow.
    pub fn trust_requests(&self) -> Result<Vec<TrustRequest>> {
        let mut wishes = self.config.trust_requests.clone();
        wishes.extend(agent_requests(self)?);
        wishes.extend(evidence_requests(self)?);
        wishes.extend(price_requests(self)?);
        wishes.extend(profile_requests(self)?);
        Ok(wishes)
    }

    /// Returns whether the user has agreed to all requests of the project's files.
    pub fn is_trusted(&self) -> bool {
        let kept = trust_file(&self.dir).is_ok_and(|place| place.exists());
        kept && self.trust_requests().is_ok_and(|wishes| is_trusted(&self.dir, &wishes))
    }

    /// Reports the project's settings that are not applied, and the command that applies them.
    pub(crate) fn warn_unapplied(&self) {
        let keys: Vec<String> = self.config.unapplied.iter().map(|it| format!("`{}`", it.key)).collect();
        if !keys.is_empty() {
            self.observer.status(&format!(
                "note: this project's {} would loosen your configuration and is not applied; run `callsheet config show` for details, `callsheet trust` to apply it",
                keys.join(", ")
            ));
        }
    }

    /// Reports once that the project replaces a shipped file with its own.
    pub(crate) fn announce_override(&self, kind: &str, folder: &str, name: &str) {
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let file = format!("{folder}/{name}.toml");
        let shipped = SourceId::new(SourceRoot::Builtin, &file)
            .is_ok_and(|id| Builtin.text(&id).is_ok_and(|text| text.is_some()));
        let places = candidates(&file, &self.config.layout());
        let is_there = |id: &&SourceId| {
            id.root() == SourceRoot::Project && self.dir.join(id.path()).symlink_metadata().is_ok()
        };
        if let Some(id) = places.iter().find(is_there).filter(|_| shipped)
            && TOLD.lock().is_ok_and(|mut told| told.insert(id.to_string()))
        {
            self.observer
                .status(&escape_invisible(&format!("note: the {kind} `{name}` is this project's own, {id}")));
        }
    }

    /// In verbose mode, reports the shipped templates that the project replaces.
    pub(crate) fn announce_templates(&self) {
        if !self.observer.wants_notes() {
            return;
        }
        let layout = self.config.layout();
        let is_there = |id: &&SourceId| {
            id.root() == SourceRoot::Project && self.dir.join(id.path()).symlink_metadata().is_ok()
        };
        for (file, _) in FILES.iter().filter(|(file, _)| file.starts_with("templates/")) {
            if let Some(id) = candidates(file, &layout).iter().find(is_there) {
                self.observer.note(&escape_invisible(&format!("note: `{file}` is this project's own, {id}")));
            }
        }
    }

    /// Requires the user's consent to the project's requests. Asks a person at a terminal; passes if there is
    /// no blocking request or the user has agreed.
    pub(crate) fn require_trust(&self) -> Result<()> {
        let wishes = self.trust_requests()?;
        if !wishes.iter().any(|wish| wish.blocks) || is_trusted(&self.dir, &wishes) {
            return Ok(());
        }
        match self.observer.ask_consent(&wishes)? {
            Some(true) => refuse_below_guard().and_then(|()| self.trust(&wishes)),
            Some(false) | None => Err(trust_required_error(&wishes)),
        }
    }

    /// Requires trust only if the project's contracts or flows need less evidence than the shipped ones.
    pub fn require_evidence_trust(&self) -> Result<()> {
        if evidence_requests(self)?.is_empty() { Ok(()) } else { self.require_trust() }
    }

    /// Records the user's consent to these requests.
    pub fn trust(&self, wishes: &[TrustRequest]) -> Result<()> {
        let place = trust_file(&self.dir)?;
        if let Some(folder) = place.parent() {
            create_private_folder(folder)?;
        }
        write_private(&place, &fingerprint(wishes))
    }

    /// Revokes trust. Returns whether there was any.
    pub fn distrust(&self) -> Result<bool> {
        Ok(fs::remove_file(trust_file(&self.dir)?).is_ok())
    }
}

/// Returns the error for requests without consent.
pub fn trust_required_error(wishes: &[TrustRequest]) -> Error {
    let shown: Vec<&str> = wishes.iter().map(|wish| wish.shown.as_str()).collect();
    let message = format!("this project's files need your trust to: {}", shown.join("; "));
    Diagnostic::error(Code::TrustRequired, message).hint("review them, then run `callsheet trust`").into()
}

/// Returns requests for the project's own agents, each of which starts a program.
fn agent_requests(project: &Project) -> Result<Vec<TrustRequest>> {
    let (disk, layout) = (project.disk_for_trust(), project.config.layout());
    let mut wishes = Vec::new();
    for name in list_names(&disk, "agents", &layout) {
        let places = candidates(&format!("agents/{name}.toml"), &layout);
        for id in places.iter().filter(|id: &&SourceId| id.root() == SourceRoot::Project) {
            let text = disk.text(id).map_err(|error| unreadable_error(id, error))?;
            wishes.extend(text.map(|text| TrustRequest {
                shown: format!("start the agent `{name}` with the command in `{id}`"),
                whole: format!("agent {name} {id}\n{text}"),
                blocks: true,
            }));
        }
    }
    Ok(wishes)
}

/// Returns requests for the project's own prices, which can make a cost limit loose. They do not count until the user agrees.
fn price_requests(project: &Project) -> Result<Vec<TrustRequest>> {
    let (disk, layout) = (project.disk_for_trust(), project.config.layout());
    let mut wishes = Vec::new();
    for name in list_names(&disk, "prices", &layout) {
        let places = candidates(&format!("prices/{name}.toml"), &layout);
        for id in places.iter().filter(|id: &&SourceId| id.root() == SourceRoot::Project) {
            let text = disk.text(id).map_err(|error| unreadable_error(id, error))?;
            wishes.extend(text.map(|text| TrustRequest {
                shown: format!("estimate costs by the prices in `{id}`"),
                whole: format!("prices {name} {id}\n{text}"),
                blocks: false,
            }));
        }
    }
    Ok(wishes)
}

/// Returns requests for the project's own profiles that allow commands to agents.
fn profile_requests(project: &Project) -> Result<Vec<TrustRequest>> {
    let profiles = project_profiles(project)?.into_iter();
    let request = |ProjectProfile { name, id, allow }| {
        let what = format!("let agents with the role `{name}` run what `{id}` allows: {}", allow.join(", "));
        TrustRequest::new_looser(what)
    };
    Ok(profiles.map(request).collect())
}

/// Returns requests for the project's own flows and contracts that need less evidence than the shipped ones
/// of the same name.
fn evidence_requests(project: &Project) -> Result<Vec<TrustRequest>> {
    let layout = project.config.layout();
    let disk = project.disk_for_trust();
    let (own, shipped) = (Library::new(&disk), Library::new(&Builtin));
    let mut wishes = Vec::new();
    let mut wish = |kind: &str, name: &str, id: &SourceId, less: Vec<String>| -> Result<()> {
        if less.is_empty() {
            return Ok(());
        }
        let text = disk.text(id).map_err(|error| unreadable_error(id, error))?;
        wishes.push(TrustRequest {
            shown: format!("use the {kind} of `{id}`, which needs less evidence: {}", less.join("; ")),
            whole: format!("{kind} {name} {id}\n{}", text.unwrap_or_default()),
            blocks: true,
        });
        Ok(())
    };
    for name in list_names(&disk, "flows", &layout) {
        // An unreadable one cannot be used, and its use reports the error.
        if let (Ok((id, flow)), Ok((_, usual))) =
            (find_flow(&own, &name, &layout), find_flow(&shipped, &name, &layout))
            && id.root() == SourceRoot::Project
        {
            wish("flow", &name, &id, flow.list_weaknesses(&usual))?;
        }
    }
    for name in list_names(&disk, "contracts", &layout) {
        if let (Ok((id, contract)), Ok((_, usual))) =
            (find_contract(&own, &name, &layout), find_contract(&shipped, &name, &layout))
            && id.root() == SourceRoot::Project
        {
            wish("contract", &name, &id, contract.find_weakenings(&usual))?;
        }
    }
    Ok(wishes)
}
