//! Templates, recipes and other sources from one JSON document instead of the disk.

use std::collections::BTreeMap;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::{FileFormat, ReadErrorCodes, SharedText, SourceId, read_data};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::compose::input_reader::read_input;
use crate::error::Result;
use crate::project::Project;

/// Sources as one document.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourcesFile {
    /// The name of the schema: `callsheet/sources/1`.
    #[serde(default)]
    pub schema: Option<SourcesSchema>,
    /// The text of each source, by its name, such as `project:.callsheet/templates/system/BASE-plan.md`.
    pub sources: BTreeMap<String, String>,
}

/// The name of the schema of [`SourcesFile`].
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub enum SourcesSchema {
    /// The first version.
    #[serde(rename = "callsheet/sources/1")]
    V1,
}

impl Project {
    /// Returns the project with the sources of a JSON file instead of its own files and the user's. The built-in ones stay.
    pub fn with_sources(&self, path: &str) -> Result<Self> {
        let text = read_input(self, path)?;
        let codes = ReadErrorCodes { bad: Code::RequestBad, unknown: Code::RequestBad };
        let file: SourcesFile = read_data(path, &text, FileFormat::Json, codes)?;
        let mut diagnostics = Diagnostics(Vec::new());
        let mut texts = BTreeMap::new();
        for (name, text) in file.sources {
            match name.parse::<SourceId>() {
                Ok(id) => drop(texts.insert(id, SharedText::from(text))),
                Err(error) => diagnostics
                    .0
                    .push(Diagnostic::error(Code::RequestBad, format!("`{path}`: `{name}`: {error}"))),
            }
        }
        if diagnostics.0.is_empty() { Ok(self.with_texts_only(texts)) } else { Err(diagnostics.into()) }
    }
}
