//! Finds flows in the ledger.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::preferences::Preference;
use callsheet_store::{Ledger, ProjectFilter};

use super::RecordedFlow;
use crate::error::{Error, Result};
use crate::ledger::{imported_error, other_project_error};
use crate::paths::shell_word;
use crate::project::Project;
use crate::session::new_preferences;

pub(super) fn already_driven_error(name: &str) -> Error {
    let error = Diagnostic::error(Code::RunRefused, format!("another process is driving the flow `{name}`"));
    error.hint(format!("stop it with `callsheet flow stop {}`", shell_word(name))).into()
}

pub(super) fn not_found_error(name: Option<&str>) -> Error {
    let (message, hint) = match name {
        Some(name) => (format!("no flow named `{name}`"), "run `callsheet flow list` to list flows"),
        None => ("this project has no flow".to_owned(), "start one with `callsheet flow start`"),
    };
    Diagnostic::error(Code::TaskNotFound, message).hint(hint).into()
}

/// Returns the preferences that agents of this project's flows proposed and that are not stored yet.
pub(crate) fn find_proposed(project: &Project, ledger: &mut Ledger) -> Result<Vec<Preference>> {
    let filter = project.project_filter(ledger)?;
    let flows = read_all(project, ledger)?
        .into_iter()
        .filter(|known| !known.imported && is_in_project(known, filter.as_ref()));
    let mut proposed: Vec<Preference> = Vec::new();
    for preference in flows.flat_map(|known| known.state.proposed) {
        if !proposed.contains(&preference) {
            proposed.push(preference);
        }
    }
    Ok(new_preferences(project, &proposed))
}

/// Returns every flow of the ledger, oldest first.
pub fn read_all(project: &Project, ledger: &mut Ledger) -> Result<Vec<RecordedFlow>> {
    let ids = ledger.flows()?;
    let mut all = Vec::new();
    for id in ids {
        match RecordedFlow::read(ledger, &id) {
            Ok(known) => all.extend(known),
            // An unreadable flow must not hide the others.
            Err(error) => project.observer.diagnostics(error.diagnostics()),
        }
    }
    Ok(all)
}

/// Checks whether a flow belongs to the selected project.
pub fn is_in_project(known: &RecordedFlow, project: Option<&ProjectFilter>) -> bool {
    let own = known.plan.project.as_ref();
    project.is_none_or(|project| own.map_or(project.unnamed, |own| *own == project.name))
}

/// Finds the flow for a command that continues it: it must belong to this project and must not be imported.
pub(crate) fn find_own(project: &Project, ledger: &mut Ledger, name: Option<&str>) -> Result<RecordedFlow> {
    let known = find_recorded(project, ledger, name)?;
    let what = format!("the flow `{}`", known.plan.name);
    if known.imported {
        return Err(imported_error(&what));
    }
    match project.project_filter(ledger)? {
        Some(project) if !is_in_project(&known, Some(&project)) => {
            Err(other_project_error(&what, known.plan.project.as_deref(), &project.name))
        }
        _ => Ok(known),
    }
}

/// Finds the named flow, by its folder within this project or by its id among all flows. Without a name,
/// finds the newest open flow, or else the newest.
pub fn find_recorded(project: &Project, ledger: &mut Ledger, name: Option<&str>) -> Result<RecordedFlow> {
    let filter = project.project_filter(ledger)?;
    let mut flows = read_all(project, ledger)?;
    let Some(name) = name else {
        flows.retain(|known| !known.imported && is_in_project(known, filter.as_ref()));
        let open = flows.iter().rposition(|known| !known.state.has_ended());
        let newest = open.or_else(|| flows.len().checked_sub(1));
        return newest.map(|at| flows.swap_remove(at)).ok_or_else(|| not_found_error(None));
    };
    let mut fits: Vec<RecordedFlow> = flows
        .into_iter()
        .filter(|known| {
            let named = known.plan.name == name && is_in_project(known, filter.as_ref());
            named || known.id.as_str().starts_with(name)
        })
        .collect();
    match fits.len() {
        0 => Err(not_found_error(Some(name))),
        1 => Ok(fits.remove(0)),
        _ => {
            let ids = fits.iter().map(|known| known.id.to_string());
            Err(Diagnostic::error(Code::RunAmbiguous, format!("several flows are named `{name}`"))
                .searched(ids)
                .into())
        }
    }
}
