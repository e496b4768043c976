//! Tools that a text names: each must be one that callsheet offers.

use alloc::format;
use alloc::vec::Vec;

use crate::catalog::{CatalogFile, CatalogFileKind, SourceCatalog, own_name};
use crate::check::LintProblems;
use callsheet_core::diag::{Code, Diagnostic};

/// Reports words between backticks that begin like our tools (`submit_…`) but are not one of them.
pub(super) fn check(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    let Ok(text) = &file.text else { return };
    let contracts = catalog.files.all().filter(|file| file.kind() == CatalogFileKind::Contract);
    let tools: Vec<&str> = contracts.map(|file| own_name(&file.path).trim_end_matches(".toml")).collect();
    let families: Vec<&str> = tools.iter().filter_map(|name| Some(name.split_once('_')?.0)).collect();
    let mut at = 0;
    for (nth, words) in text.split('`').enumerate() {
        let start = at;
        at += words.len() + 1;
        let is_word = words.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let family = words.split_once('_').map(|(family, _)| family);
        if nth % 2 == 0 || !is_word || !family.is_some_and(|family| families.contains(&family)) {
            continue;
        }
        if !tools.contains(&words) {
            let error = Diagnostic::error(Code::ToolUnknown, format!("unknown tool `{words}`"));
            let error = error.at(&file.id, text, start..start + words.len());
            problems.add(&file.id, error.suggest(words, tools.iter().copied()));
        }
    }
}
