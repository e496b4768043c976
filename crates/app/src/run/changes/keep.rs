//! Records the contents of the files that a run changed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use callsheet_core::SharedText;
use callsheet_core::record::{ChangedContents, Digest, Event, FileChange, FileVersion, Id, OmittedContents};
use callsheet_core::request::fact::ChangedFile;
use callsheet_core::secrets::SecretRedactor;
use callsheet_run::{FileContents, VersionContents, WorktreeSnapshot};
use callsheet_store::Ledger;

use crate::error::Result;
use crate::project::state::RunDir;

/// The most bytes of all contents of a run that are kept.
const MOST_RUN: usize = 20 << 20;

/// Returns the folder of the copies that are made before a run.
pub(crate) fn copies_dir(run_dir: &RunDir) -> PathBuf {
    run_dir.dir().join("before")
}

/// Records the contents of the changed files before and after a run. A file with a secret is recorded by its digest alone.
pub(crate) fn record_contents(
    ledger: &mut Ledger,
    run: &Id,
    before: &WorktreeSnapshot,
    changed: &[ChangedFile],
    redactor: &mut SecretRedactor<'_>,
) -> Result<()> {
    let found = before.read_contents(changed, &copies_dir(&RunDir::from_run(run)?));
    if found.is_empty() {
        return Ok(());
    }
    let (changed, texts) = keep_contents(found, redactor);
    ledger.record_with_texts(run, &Event::ChangedContents(changed), &texts)?;
    Ok(())
}

/// Returns the record of the contents, and the texts that are kept.
pub(super) fn keep_contents(
    found: Vec<FileContents>,
    redactor: &mut SecretRedactor<'_>,
) -> (ChangedContents, BTreeMap<Digest, SharedText>) {
    let mut kept = KeptTexts { texts: BTreeMap::new(), left: MOST_RUN };
    let files = found.into_iter().map(|file| kept.keep(file, redactor)).collect();
    (ChangedContents { files }, kept.texts)
}

struct KeptTexts {
    texts: BTreeMap<Digest, SharedText>,
    /// The bytes that still fit.
    left: usize,
}

impl KeptTexts {
    fn keep(&mut self, file: FileContents, redactor: &mut SecretRedactor<'_>) -> FileChange {
        let FileContents { path, before, after } = file;
        let [mut before, mut after] = [before, after].map(|version| version.map(KeptVersion::new));
        let mut both: Vec<&mut KeptVersion> = [&mut before, &mut after].into_iter().flatten().collect();
        let has_secret = both
            .iter()
            .any(|it| it.text.as_ref().is_ok_and(|text| redactor.redact_text(text) != text.as_str()));
        if has_secret {
            both.iter_mut().for_each(|it| it.text = Err(OmittedContents::Secret));
        }
        let [before, after] = [before, after].map(|version| version.map(|version| self.add(version)));
        FileChange { path, before, after }
    }

    fn add(&mut self, version: KeptVersion) -> FileVersion {
        let KeptVersion { mode, sha256, text } = version;
        let omitted = match (text, sha256) {
            (Err(why), _) => Some(why),
            (Ok(_), None) => Some(OmittedContents::Unknown),
            (Ok(_), Some(digest)) if self.texts.contains_key(&digest) => None,
            (Ok(text), Some(_)) if text.len() > self.left => Some(OmittedContents::Full),
            (Ok(text), Some(digest)) => {
                self.left -= text.len();
                self.texts.insert(digest, text.into());
                None
            }
        };
        FileVersion { mode, sha256, omitted }
    }
}

struct KeptVersion {
    mode: callsheet_core::record::FileMode,
    sha256: Option<Digest>,
    text: std::result::Result<String, OmittedContents>,
}

impl KeptVersion {
    fn new(version: VersionContents) -> Self {
        let VersionContents { mode, sha256, bytes } = version;
        let is_text = |text: &String| !text.contains('\0');
        let text = bytes
            .and_then(|bytes| String::from_utf8(bytes).ok().filter(is_text).ok_or(OmittedContents::Binary));
        Self { mode, sha256, text }
    }
}
