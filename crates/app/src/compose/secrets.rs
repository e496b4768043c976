//! Secrets on the command line: selects the mode, scans texts, and reads values that are marked as secret.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::RunOptions;
use callsheet_core::secrets::{SecretMode, SecretRules};
use callsheet_core::{SharedText, SlotValues, SourceError, SourceId};

use crate::compose::Purpose;
use crate::compose::input_reader::{open_input, parse_pair};
use crate::error::{Result, unreadable_error, usage_error};
use crate::project::Project;
use crate::project::config_merge::stricter_mode;

/// Returns the mode of the flag, else of the configuration; else warns, or refuses if the prompt is recorded.
pub fn choose_mode(project: &Project, said: Option<SecretMode>, then: Purpose) -> Result<SecretMode> {
    let mode = match (said.or(project.config.secrets.value), then) {
        (Some(SecretMode::Warn), Purpose::Record) if said.is_some() => {
            return Err(usage_error("a secret is never recorded with only a warning")
                .hint("add `--secrets redact` or `--secrets allow`")
                .into());
        }
        (None | Some(SecretMode::Warn), Purpose::Record) => SecretMode::Refuse,
        (mode, _) => mode.unwrap_or_default(),
    };
    Ok(project.config.hard.secrets.map_or(mode, |hard| stricter_mode(mode, hard)))
}

/// Loads the rules of the project and the user, and the shipped ones.
pub(crate) fn load_rules(project: &Project) -> Result<SecretRules> {
    Ok(SecretRules::load(&project.disk(None), &project.config.layout())?)
}

/// Refuses secrets in texts that are recorded unchanged: a command with another argument would be another
/// command. Each text comes with its description.
pub(crate) fn refuse_secrets(
    project: &Project,
    said: Option<SecretMode>,
    texts: &[(String, &str)],
) -> Result<()> {
    if texts.is_empty()
        || said.map_or_else(|| choose_mode(project, None, Purpose::Record), Ok)? == SecretMode::Allow
    {
        return Ok(());
    }
    let rules = load_rules(project)?;
    let mut diags = Vec::new();
    for (place, text) in texts {
        for hit in rules.scan(text) {
            let message = format!("{} ({}) in {place}", rules.describe(hit.rule), hit.rule);
            let hint = "it would be recorded; read it from a file or the environment instead, or set `CALLSHEET_SECRETS=allow`";
            diags.push(Diagnostic::error(Code::SecretFound, message).hint(hint));
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(Diagnostics(diags).into()) }
}

/// Returns the words of the programs to start, each with its description.
pub(crate) fn program_words(options: &RunOptions) -> Vec<(String, &str)> {
    let of_allowed = options.allow.iter().map(|text| ("an allowed command".to_owned(), text.as_str()));
    let of_program =
        options.program.iter().map(|word| ("an argument of the program".to_owned(), word.as_str()));
    let of_checks = options.checks.iter().flat_map(|check| {
        check.argv.iter().map(|word| (format!("an argument of the check `{}`", check.name), word.as_str()))
    });
    of_program.chain(of_allowed).chain(of_checks).collect()
}

/// From this many bytes on, several threads scan faster than one.
const MUCH: usize = 1 << 20;

/// Returns the texts in which the rules find nothing, scanned with as many threads as the machine runs at
/// once. Returns nothing if there is little text.
pub(crate) fn find_clean_texts(
    rules: &SecretRules,
    texts: &BTreeMap<SourceId, SharedText>,
) -> Vec<(SourceId, SharedText)> {
    if texts.values().map(|text| text.len()).sum::<usize>() < MUCH {
        return Vec::new();
    }
    let all: Vec<(&SourceId, &SharedText)> = texts.iter().collect();
    let next = AtomicUsize::new(0);
    let look = |rules: &SecretRules| {
        let mut clean = Vec::new();
        while let Some((id, text)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if rules.scan(text).is_empty() {
                clean.push(((*id).clone(), (*text).clone()));
            }
        }
        clean
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, Into::into);
        let spawn = |_| {
            let (rules, look) = (rules.clone(), &look);
            thread::Builder::new().spawn_scoped(scope, move || look(&rules)).ok()
        };
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut clean = look(rules);
        // If a thread failed, the gate scans its texts.
        clean.extend(others.into_iter().filter_map(|other| other.join().ok()).flatten());
        clean
    })
}

/// Returns the value of an environment variable. Its name may appear on a command line, which other users can
/// see; its value must not.
pub(crate) fn read_variable(name: &str) -> Result<SharedText> {
    match std::env::var(name) {
        Ok(value) => Ok(value.into()),
        Err(std::env::VarError::NotPresent) => Err(Diagnostic::error(
            Code::InputNotFound,
            format!("the environment variable `{name}` is not set"),
        )
        .into()),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(usage_error(format!("the environment variable `{name}` is not UTF-8")).into())
        }
    }
}

/// Reads values that are marked as secret from files and from the environment.
pub fn read_secret_values(project: &Project, files: &[String], variables: &[String]) -> Result<SlotValues> {
    let mut given = SlotValues::default();
    for item in files {
        let (key, path) = parse_pair("set_secret", item)?;
        let limit = project.config.max_file_bytes.value;
        let mut text = String::new();
        open_input(project, path)?
            .take(limit.saturating_add(1))
            .read_to_string(&mut text)
            .map_err(|error| unreadable_error(path, SourceError::Unreadable(error.to_string())))?;
        if text.len() as u64 > limit {
            return Err(unreadable_error(path, &SourceError::TooLarge { size: text.len() as u64, limit }));
        }
        given.insert(key.into(), text.into());
    }
    for item in variables {
        let (key, name) = parse_pair("set_secret_env", item)?;
        given.insert(key.into(), read_variable(name)?);
    }
    Ok(given)
}
