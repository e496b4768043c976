//! Locates and opens the ledger; converts store errors into diagnostics.

pub mod adopt;
pub mod known_ledger;
pub mod verify;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Severity, counted};
use callsheet_core::record::Run;
use callsheet_run::{Git, WritableFolder, find_temporary_file_system};
use callsheet_store::{
    DatabaseEngine, Head, Ledger, LedgerError, LedgerTimeouts, LedgerUrl, OpenMode, ProjectFilter, RunFilter,
    RunRow,
};

use crate::error::{Error, Result, usage_error};
use crate::ledger::known_ledger::KnownLedger;
use crate::project::Project;
use crate::project::duration::HumanDuration;
use crate::project::state::{STATE_HINT, create_private_folder, state_dir};

/// Path of a project's ledger in earlier versions.
pub const FILE: &str = ".callsheet/ledger.db";

/// The trust in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerTrust {
    Known,
    /// It has no records yet.
    Empty,
    Foreign(&'static str),
}

/// The head of a ledger, as kept in the state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptHead {
    /// The ledger is not known, and no head was kept.
    Unknown,
    /// A head was kept, and is missing now.
    Gone,
    Head(Head),
}

impl Project {
    /// Checks whether the ledger is the project's own, at its default place.
    pub(crate) fn is_own_ledger(&self) -> bool {
        self.ledger.is_none() && self.config.ledger.value.is_none()
    }

    /// Returns the URL of the selected ledger; `None` if the project has no id yet. A URL from a cloned
    /// repository requires trust: otherwise its author could send the prompts anywhere.
    pub fn ledger_url(&self) -> Result<Option<LedgerUrl>> {
        self.resolve_ledger_url(false)
    }

    fn resolve_ledger_url(&self, create: bool) -> Result<Option<LedgerUrl>> {
        if let Some(url) = &self.ledger {
            return parse_url(url, &self.here).map(Some);
        }
        let setting = &self.config.ledger;
        match &setting.value {
            None => {
                let found = self.find_home(create).and_then(|home| home.ledger_path());
                Ok(found?.map(LedgerUrl::Sqlite))
            }
            Some(url) if setting.from == "environment" => parse_url(url, &self.here).map(Some),
            Some(url) => {
                if setting.from.starts_with("project:") {
                    self.require_trust()?;
                }
                parse_url(url, &self.dir).map(Some)
            }
        }
    }

    /// Returns the URL of the ledger, and creates an id for a project without one.
    pub fn require_ledger_url(&self) -> Result<LedgerUrl> {
        self.resolve_ledger_url(true)?
            .ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "the project has no id").into())
    }

    /// Opens an existing ledger for reading.
    pub fn read_ledger(&self) -> Result<Ledger> {
        self.open_ledger(OpenMode::Read)
    }

    /// Opens an existing ledger, to append to it or to start the programs that it names.
    pub fn write_ledger(&self) -> Result<Ledger> {
        self.open_ledger(OpenMode::Write)
    }

    /// Opens a ledger for appending, and creates it if it does not exist.
    pub fn create_ledger(&self) -> Result<Ledger> {
        self.open_ledger(OpenMode::Create)
    }

    /// Returns the URL of the ledger, after the migration of the project's old ledger.
    pub(crate) fn prepare_ledger_url(&self, wanted: OpenMode) -> Result<Option<LedgerUrl>> {
        let create = wanted == OpenMode::Create;
        let old = self.dir.join(FILE);
        // A folder that is a link leads to the ledger of another project.
        let is_folder = |dir: &Path| dir.symlink_metadata().is_ok_and(|found| found.is_dir());
        let has_old = self.is_own_ledger()
            && old.parent().is_some_and(is_folder)
            && old.symlink_metadata().is_ok_and(|found| found.is_file());
        let place = self.resolve_ledger_url(create)?;
        if !has_old {
            if let Some(LedgerUrl::Sqlite(path)) = &place
                && !self.is_own_ledger()
            {
                refuse_tracked(path)?;
            }
            return Ok(place);
        }
        if let Some(place) = &place {
            let known = KnownLedger::from_url(place)?;
            if known.entry().is_some() || known.inode().is_some() {
                return Ok(Some(place.clone()));
            }
        }
        if let Err(tracked) = refuse_tracked(&old) {
            // A new ledger can be created beside it; the old one is not read.
            return if create { Ok(place) } else { Err(tracked) };
        }
        let taken = self.require_ledger_url().and_then(|place| {
            self.migrate_old_ledger(&old, &place)?;
            Ok(place)
        });
        match taken {
            // Without write access, the old ledger is read in place.
            Err(_) if wanted == OpenMode::Read => Ok(Some(LedgerUrl::Sqlite(old))),
            taken => taken.map(Some),
        }
    }

    /// Checks whether the ledger is a file below one of these directories, within reach of the agent that
    /// works there.
    pub(crate) fn is_ledger_within(&self, dirs: &[&Path]) -> bool {
        let Ok(Some(LedgerUrl::Sqlite(path))) = self.ledger_url() else { return false };
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let is_below = |dir: &&Path| {
            let dir = dir.canonicalize().ok();
            folder.as_ref().zip(dir).is_some_and(|(folder, dir)| folder.starts_with(dir))
        };
        // A ledger whose folder is gone may have been below any of them.
        folder.is_none() || dirs.iter().any(is_below)
    }

    fn open_ledger(&self, wanted: OpenMode) -> Result<Ledger> {
        let create = wanted == OpenMode::Create;
        let Some(place) = self.prepare_ledger_url(wanted)? else {
            let error = Diagnostic::error(Code::LedgerNotThere, "this project has no ledger yet");
            let error = error.hint("`callsheet run` or `callsheet compose --record` creates one");
            let moved = "if the project was moved here, run `callsheet ledger list` and open its ledger with `--ledger FILE`";
            let has_others = KnownLedger::list().is_ok_and(|all| !all.is_empty());
            return Err(if has_others { error.hint(moved) } else { error }.into());
        };
        let patience = read_timeouts()?;
        let known = match KnownLedger::from_url(&place) {
            Ok(known) => known,
            // Without a state directory no ledger is known; an explicitly named ledger can still be used.
            Err(_) if !self.is_own_ledger() && wanted != OpenMode::Write => {
                return Ok(Ledger::connect(&place, wanted, patience)?);
            }
            Err(error) => return Err(error),
        };
        let held = if create { known.lock().ok() } else { None };
        let is_new = known.file().is_some() && known.inode().is_none();
        let entry = known.entry();
        if entry.is_some() {
            check_file_exists(&known)?;
        }
        let is_familiar = entry.as_ref().is_some_and(|entry| entry.inode == known.inode());
        if wanted != OpenMode::Read && !is_new && !is_familiar {
            refuse_foreign(&place, &known, patience)?;
        }
        let mut ledger = Ledger::connect(&place, wanted, patience).map_err(|error| {
            let is_own = self.is_own_ledger() && wanted != OpenMode::Read;
            let hint = |diag: Diagnostic| match diag.code {
                Code::LedgerFailed if is_own => diag.hint(STATE_HINT),
                _ => diag,
            };
            Error::from(error).map_diagnostics(hint)
        })?;
        let standing = judge_ledger(&known, &mut ledger)?;
        if is_new && create {
            self.warn_short_lived(&place);
        }
        match (standing, wanted) {
            (LedgerTrust::Known, OpenMode::Read) => {
                if let Err(error) = check_head(&known, &mut ledger) {
                    let hint = "run `callsheet verify --all` for details";
                    self.observer.diagnostics(&[
                        Diagnostic::warning(Code::LedgerDamaged, error.to_string()).hint(hint)
                    ]);
                }
            }
            (LedgerTrust::Known, _) => check_head(&known, &mut ledger)?,
            (LedgerTrust::Empty, OpenMode::Read) => {}
            (LedgerTrust::Empty, _) => {
                if let Err(error) = known.register(&mut ledger) {
                    let warning = |diag: Diagnostic| Diagnostic { severity: Severity::Warning, ..diag };
                    self.observer.diagnostics(error.map_diagnostics(warning).diagnostics());
                }
            }
            (LedgerTrust::Foreign(why), OpenMode::Read) => {
                self.observer.diagnostics(&[Diagnostic::note(
                    Code::LedgerForeign,
                    format!("{}: {why}", known.shown()),
                )]);
            }
            (LedgerTrust::Foreign(why), _) => return Err(foreign_ledger_error(&known, why)),
        }
        drop(held);
        if wanted != OpenMode::Read {
            if let Some(head) = known.head() {
                ledger.expect_head(head);
            }
            ledger.keep_heads(known.head_keeper());
            if self.is_own_ledger() {
                // The project may have had other names.
                ledger.number_together();
            }
        }
        Ok(ledger)
    }

    /// Returns the kept head of the ledger.
    pub(crate) fn kept_head(&self) -> Result<KeptHead> {
        let Some(place) = self.ledger_url()? else { return Ok(KeptHead::Unknown) };
        let known = KnownLedger::from_url(&place).ok().filter(|known| known.entry().is_some());
        Ok(known.map_or(KeptHead::Unknown, |known| known.head().map_or(KeptHead::Gone, KeptHead::Head)))
    }

    /// Forgets the ledger, which makes it foreign.
    pub fn forget_ledger(&self) -> Result<()> {
        if let Some(place) = self.ledger_url()? {
            KnownLedger::from_url(&place)?.forget();
        }
        Ok(())
    }

    pub(crate) fn warn_short_lived(&self, place: &LedgerUrl) {
        let LedgerUrl::Sqlite(path) = place else { return };
        self.observer.diagnostics(&Vec::from_iter(short_lived_diag(path)));
    }

    /// Copies the ledger that an earlier version kept in the project, and archives the old file.
    fn migrate_old_ledger(&self, old: &Path, place: &LedgerUrl) -> Result<()> {
        let LedgerUrl::Sqlite(new) = place else { return Ok(()) };
        let io = |error: std::io::Error| {
            let message = format!("`{}`: {error}", old.display());
            Error::new(Diagnostic::error(Code::LedgerFailed, message), error)
        };
        let own = state_dir().and_then(|state| {
            create_private_folder(&state)?;
            Ok(state.metadata().map_err(io)?.uid())
        });
        if own? != old.metadata().map_err(io)?.uid() {
            let message = format!("`{}` belongs to another user; ignored", old.display());
            self.observer.diagnostics(&[Diagnostic::warning(Code::LedgerForeign, message)]);
            return Ok(());
        }
        if let Some(folder) = new.parent() {
            create_private_folder(folder)?;
        }
        let known = KnownLedger::from_url(place)?;
        let held = known.lock()?;
        if known.inode().is_some() || old.symlink_metadata().is_err() {
            // Another process has migrated it meanwhile.
            return Ok(());
        }
        let fresh = new.with_extension(format!("{}.copy", std::process::id()));
        // An earlier process with the same process id may have left a copy behind.
        let _ = fs::remove_file(&fresh);
        let copied = copy_verified(old, &fresh).and_then(|()| fs::rename(&fresh, new).map_err(io));
        if copied.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        copied?;
        let aside = archive_old_ledger(&self.dir);
        drop(held);
        let aside = match &aside {
            Some(aside) => format!("the old file is {} now", aside.display()),
            None => "the old file stays where it is".into(),
        };
        self.observer.status(&format!(
            "the ledger was copied from {} to {}; {aside}; run `callsheet ledger adopt` to use it",
            old.display(),
            new.display()
        ));
        Ok(())
    }

    /// Returns the filter for the runs of the command; `None` selects every project.
    pub fn project_filter(&self, ledger: &Ledger) -> Result<Option<ProjectFilter>> {
        if self.all_projects || self.is_own_ledger() {
            return Ok(None);
        }
        Ok(Some(ProjectFilter {
            name: self.project_name()?,
            unnamed: ledger.engine() == DatabaseEngine::Sqlite,
        }))
    }

    /// Returns the filter for the runs of the same project as `run`.
    pub(crate) fn sibling_filter(&self, run: &Run) -> Option<ProjectFilter> {
        let name = run.project.clone().unwrap_or_default();
        (!self.is_own_ledger()).then(|| ProjectFilter { name, unnamed: run.project.is_none() })
    }

    /// Returns the key that locks tasks of this project.
    pub(crate) fn task_key(&self, run: &Run) -> Result<String> {
        let place = self.require_ledger_url()?;
        let shown = KnownLedger::from_url(&place)?.shown().to_owned();
        let project = run.project.as_deref().filter(|_| !self.is_own_ledger()).unwrap_or_default();
        Ok(format!("{shown}\n{project}"))
    }

    /// Finds the named run in any project; `last` is the last run of this project.
    pub fn find_run(&self, ledger: &mut Ledger, name: &str) -> Result<RunRow> {
        let among = RunFilter { project: self.project_filter(ledger)?, own: true, ..RunFilter::default() };
        Ok(ledger.find_among(name, &among)?)
    }

    /// Finds the run for a command that continues it: it must belong to this project and must not be
    /// imported.
    pub fn find_own_run(&self, ledger: &mut Ledger, name: &str) -> Result<RunRow> {
        let row = self.find_run(ledger, name)?;
        if row.imported {
            return Err(imported_error(&format!("run {}", row.run.id)));
        }
        if let Some(project) = self.project_filter(ledger)?.filter(|project| !project.is_match(&row.run)) {
            let id = &row.run.id;
            return Err(other_project_error(&format!("run {id}"), row.run.project.as_deref(), &project.name));
        }
        Ok(row)
    }
}

pub(crate) fn imported_error(what: &str) -> Error {
    let message = format!("{what} was imported from another ledger; it cannot be started");
    Diagnostic::error(Code::LedgerForeign, message)
        .hint("start a run of your own with `callsheet run`")
        .into()
}

pub(crate) fn other_project_error(what: &str, project: Option<&str>, own: &str) -> Error {
    let project = project.map_or_else(|| "no project".into(), |project| format!("the project `{project}`"));
    let message = format!("{what} belongs to {project}, and this one is `{own}`");
    Diagnostic::error(Code::RunRefused, message).hint("add `--all-projects` to continue with it").into()
}

/// Returns a warning if the ledger is on a temporary file system.
pub fn short_lived_diag(path: &Path) -> Option<Diagnostic> {
    let kind = find_temporary_file_system(path.parent().unwrap_or(path))?;
    let message = format!("{} is on {kind}; it is lost on restart or with its container", path.display());
    let hint = "set XDG_STATE_HOME to a directory on disk, or add `--ledger FILE`";
    Some(Diagnostic::warning(Code::LedgerShortLived, message).hint(hint))
}

/// Copies a ledger, and verifies that the copy is identical.
fn copy_verified(old: &Path, fresh: &Path) -> Result<()> {
    let checked = |ledger: &mut Ledger| ledger.verify_all(false);
    let mut source = Ledger::read(&LedgerUrl::Sqlite(old.to_owned()))?;
    let before = checked(&mut source)?;
    source.copy_into(fresh)?;
    let mut copy = Ledger::open(&LedgerUrl::Sqlite(fresh.to_owned()))?;
    if before == checked(&mut copy)? {
        return Ok(());
    }
    let message = format!("cannot copy `{}`: the copy differs", old.display());
    Err(Diagnostic::error(Code::LedgerFailed, message).into())
}

/// Renames the files of the project's old ledger, and returns the new path.
fn archive_old_ledger(project: &Path) -> Option<PathBuf> {
    let folder = WritableFolder::open(project).ok()?;
    let named = |number: u32| {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        format!("{FILE}.moved{number}")
    };
    let aside = (1..1000).map(named).find(|name| project.join(name).symlink_metadata().is_err())?;
    folder.rename(FILE, &aside).ok()?;
    for end in ["-wal", "-shm"] {
        // These files do not exist if every process has closed the ledger.
        let _ = folder.rename(&format!("{FILE}{end}"), &format!("{aside}{end}"));
    }
    Some(project.join(aside))
}

/// Refuses a ledger that git tracks: it came with the repository, no matter who made it.
fn refuse_tracked(path: &Path) -> Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let Ok(Some(found)) = Git::open_with_common(&folder) else { return Ok(()) };
    let Ok(below) = folder.strip_prefix(found.git.top()) else { return Ok(()) };
    let tracked = found.git.is_tracked(&below.join(name))?;
    if !tracked {
        return Ok(());
    }
    let message = format!("git tracks `{}`: a ledger from a repository is not opened", path.display());
    let hint = "`callsheet run` creates your own ledger outside the repository; stop tracking the file with `git rm --cached`";
    Err(Diagnostic::error(Code::LedgerTracked, message).hint(hint).into())
}

/// Reports a known ledger whose file is missing or empty as damaged. No new ledger replaces it.
fn check_file_exists(known: &KnownLedger) -> Result<()> {
    let Some(file) = known.file() else { return Ok(()) };
    let what = match file.symlink_metadata() {
        Ok(found) if found.len() > 0 => return Ok(()),
        Ok(_) => "is empty",
        Err(_) => "is gone",
    };
    let head =
        known.head().map(|head| format!(", and had {}", counted(head.seq, "record"))).unwrap_or_default();
    Err(lost_ledger_error(format!("the ledger at {} {what}{head}", known.shown())))
}

fn lost_ledger_error(message: String) -> Error {
    Diagnostic::error(Code::LedgerDamaged, message)
        .hint("restore it from a backup, or run `callsheet ledger forget` to start a new one")
        .into()
}

/// Problem text for a known ledger whose kept head is missing from the state directory.
pub(crate) const HEAD_GONE: &str = "the state directory lost the ledger's last known head, so missing records cannot be detected; run `callsheet ledger adopt` to keep the present head";

/// Checks that the ledger contains its kept head.
pub(crate) fn check_head(known: &KnownLedger, ledger: &mut Ledger) -> Result<(), LedgerError> {
    // A ledger is registered together with its head, so a missing head is damage.
    let head = known.head().ok_or_else(|| LedgerError::Damaged(HEAD_GONE.into()))?;
    if head.seq == 0 {
        return Ok(());
    }
    if ledger.has_link(&head)? && ledger.head()?.seq >= head.seq {
        return Ok(());
    }
    Err(LedgerError::Damaged(format!("it does not lead to its last known head {}:{}", head.seq, head.chain)))
}

/// Checks whether this user knows the ledger at a place.
pub(crate) fn judge_ledger(known: &KnownLedger, ledger: &mut Ledger) -> Result<LedgerTrust> {
    let id = ledger.id()?;
    Ok(match known.entry() {
        Some(entry) if id.as_ref() != Some(&entry.id) => {
            return Err(lost_ledger_error(format!("the ledger at {} is not the known one", known.shown())));
        }
        Some(entry) if entry.inode != known.inode() => LedgerTrust::Foreign("its file was replaced"),
        Some(_) => LedgerTrust::Known,
        None if ledger.is_empty()? => LedgerTrust::Empty,
        None => LedgerTrust::Foreign("it was created elsewhere"),
    })
}

/// Refuses a foreign ledger before it is opened for writing, which would bring an older one up to date.
fn refuse_foreign(place: &LedgerUrl, known: &KnownLedger, patience: LedgerTimeouts) -> Result<()> {
    // A ledger that cannot be read is reported when it is opened for writing.
    let Ok(mut ledger) = Ledger::connect(place, OpenMode::Read, patience) else { return Ok(()) };
    match judge_ledger(known, &mut ledger) {
        Ok(LedgerTrust::Foreign(why)) => Err(foreign_ledger_error(known, why)),
        _ => Ok(()),
    }
}

fn foreign_ledger_error(known: &KnownLedger, why: &str) -> Error {
    let message = format!("the ledger at {} is foreign: {why}", known.shown());
    let hint = "run `callsheet ledger adopt` to review and accept it; until then it is read-only";
    Diagnostic::error(Code::LedgerForeign, message).hint(hint).into()
}

/// Returns the timeouts for the ledger: the defaults, or CALLSHEET_LEDGER_TIMEOUT if that is shorter.
pub(crate) fn read_timeouts() -> Result<LedgerTimeouts> {
    let Ok(text) = std::env::var("CALLSHEET_LEDGER_TIMEOUT") else { return Ok(LedgerTimeouts::default()) };
    let parsed: Result<HumanDuration, String> = text.parse();
    let bad = |why| Diagnostic::error(Code::ConfigBad, format!("CALLSHEET_LEDGER_TIMEOUT: {why}"));
    Ok(LedgerTimeouts::at_most(parsed.map_err(bad)?.0))
}

fn parse_url(url: &str, base: &Path) -> Result<LedgerUrl> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(LedgerUrl::Postgres(url.into()));
    }
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
    if path.is_empty() || path.contains("://") {
        // Only the scheme is shown: the rest may contain a password.
        let scheme = path.split("://").next().unwrap_or_default();
        let error = usage_error(format!("unsupported ledger URL scheme `{scheme}`"));
        return Err(error.hint("a ledger is a file, or postgres://USER@HOST/DATABASE").into());
    }
    if has_options(path) || path.starts_with("postgres:") || path.starts_with("postgresql:") {
        // The URL is not shown: it may contain a password, in any spelling.
        let error = usage_error("a ledger URL cannot be a list of options such as `host=… password=…`");
        let hint = "a ledger is a file, or postgres://USER:PASSWORD@HOST:PORT/DATABASE; a file of such a name is ./NAME";
        return Err(error.hint(hint).into());
    }
    Ok(LedgerUrl::Sqlite(base.join(path)))
}

/// PostgreSQL options that a libpq connection string can begin with or contain.
const LIBPQ: [&str; 16] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "passfile",
    "options",
    "service",
    "servicefile",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslpassword",
    "application_name",
    "connect_timeout",
];

/// Checks whether a text has libpq options such as `host=… password = '…'`, in any case.
fn has_options(text: &str) -> bool {
    text.match_indices('=').any(|(at, _)| {
        let before = text[..at].trim_end();
        let name = before.rsplit(|c: char| c.is_whitespace() || c == '\'').next().unwrap_or_default();
        LIBPQ.contains(&name.to_ascii_lowercase().as_str())
    })
}
