//! The holes of template paths, such as `templates/system/{AGENT}-{phase}.md`.

use alloc::borrow::Cow;

use super::RequestField;

/// A hole of a template path, filled by a field of the request.
#[derive(Clone, Copy, Debug)]
pub struct PathHole {
    /// The hole as it is written.
    pub word: &'static str,
    /// The field that fills it.
    pub field: RequestField,
    /// Whether the value is written in upper case.
    pub upper: bool,
}

impl PathHole {
    /// Every hole.
    pub const ALL: [Self; 5] = [
        Self { word: "{agent}", field: RequestField::Agent, upper: false },
        Self { word: "{AGENT}", field: RequestField::Agent, upper: true },
        Self { word: "{phase}", field: RequestField::Phase, upper: false },
        Self { word: "{role}", field: RequestField::Role, upper: false },
        Self { word: "{command}", field: RequestField::Command, upper: false },
    ];

    /// Returns the name of the field that fills the hole.
    pub(crate) fn name(&self) -> &'static str {
        if self.field == RequestField::Agent { "agent" } else { self.word.trim_matches(['{', '}']) }
    }

    /// Returns a value as the hole contains it.
    pub fn write<'v>(&self, value: &'v str) -> Cow<'v, str> {
        if self.upper { value.to_ascii_uppercase().into() } else { value.into() }
    }
}
