//! Which ledger, and what is wrong with it in the words of the command line.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_store::{Error, Ledger, Place, RunRow};

use crate::app::App;
use crate::failure::usage;

/// Where a project keeps its ledger unless it is told otherwise.
pub(crate) const FILE: &str = ".callsheet/ledger.db";

impl App<'_> {
    /// The ledger that is asked for. What a cloned repository asks for is not enough: the prompts would go wherever
    /// somebody else likes.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        if let Some(url) = &self.ledger {
            return parse(url, &self.here);
        }
        let setting = &self.config.ledger;
        match &setting.value {
            None => Ok(Place::Sqlite(self.project.join(FILE))),
            Some(_) if setting.from.starts_with("project:") => {
                self.need_trust()?;
                self.trusted_place()
            }
            Some(url) if setting.from == "environment" => parse(url, &self.here),
            Some(_) => self.trusted_place(),
        }
    }

    fn trusted_place(&self) -> Result<Place, Failure> {
        parse(self.config.ledger.value.as_deref().unwrap_or(FILE), &self.project)
    }

    /// A ledger that is there.
    pub(crate) fn open_ledger(&self) -> Result<Ledger, Failure> {
        Ledger::open(&self.place()?).map_err(failure)
    }

    /// A ledger that is there, to read it alone.
    pub(crate) fn read_ledger(&self) -> Result<Ledger, Failure> {
        Ledger::read(&self.place()?).map_err(failure)
    }

    /// A ledger to write to, made where there is none.
    pub(crate) fn create_ledger(&self) -> Result<Ledger, Failure> {
        let place = self.place()?;
        let folder = self.project.join(".callsheet");
        let first = place == Place::Sqlite(self.project.join(FILE)) && !self.project.join(FILE).exists();
        let ledger = Ledger::create(&place).map_err(failure)?;
        if first {
            // From now on there is something in it that is nobody else's business.
            let private = fs::set_permissions(&folder, Permissions::from_mode(0o700));
            private.map_err(|error| {
                Diag::error(Code::LedgerFailed, format!("`{}`: {error}", folder.display()))
            })?;
        }
        Ok(ledger)
    }
}

fn parse(url: &str, base: &Path) -> Result<Place, Failure> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Place::Postgres(url.into()));
    }
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
    if path.is_empty() || path.contains("://") {
        // It may hold a password.
        let scheme = path.split("://").next().unwrap_or_default();
        let error = usage(format!("`{scheme}` is no kind of ledger"));
        return Err(error.hint("a ledger is a file, or postgres://USER@HOST/DATABASE").into());
    }
    Ok(Place::Sqlite(base.join(path)))
}

pub(crate) fn failure(error: Error) -> Failure {
    let message = error.to_string();
    let diag = |code| Diag::error(code, message);
    match error {
        Error::NotThere(_) => {
            diag(Code::LedgerNotThere).hint("`callsheet compose --record` makes one").into()
        }
        Error::Locked => diag(Code::LedgerLocked).into(),
        Error::Damaged(_) => {
            diag(Code::LedgerDamaged).hint("`callsheet verify --all --read-data` finds all damage").into()
        }
        Error::Newer { .. } => diag(Code::LedgerNewer).hint("use the newer callsheet").into(),
        Error::Failed(_) => diag(Code::LedgerFailed).into(),
        Error::NoRun(_) => diag(Code::RunNotFound).hint("`callsheet log` lists the runs").into(),
        Error::ManyRuns(_, ids) => diag(Code::RunAmbiguous).looked(ids).into(),
    }
}

/// The run that was named.
pub(crate) fn find(ledger: &mut Ledger, name: &str) -> Result<RunRow, Failure> {
    ledger.find(name).map_err(failure)
}
