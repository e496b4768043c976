//! Inputs that a prompt omits, each with the reason.

use alloc::string::String;

use crate::text::word_enum::word_enum;

/// An input that a prompt omits, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OmittedInput {
    /// The input: a section, a file or a value.
    pub what: String,
    /// The reason.
    pub why: OmissionReason,
    /// More about the reason, such as the file that won; may be empty.
    pub detail: String,
}

impl OmittedInput {
    pub(crate) fn new(what: impl Into<String>, why: OmissionReason, detail: impl Into<String>) -> Self {
        Self { what: what.into(), why, detail: detail.into() }
    }
}

word_enum! {
    /// The reason why an input is omitted.
    #[non_exhaustive]
    OmissionReason {
        /// Nothing was given for it.
        Empty "empty",
        /// The optional file does not exist.
        NotThere "not_there",
        /// An override won.
        Shadowed "shadowed",
        /// The agent loads it by itself.
        LoadedByAgent "loaded_by_agent",
        /// A cap or a limit removed it.
        Cut "cut",
        /// Only its outline was requested.
        Outlined "outlined",
        /// Only its path was requested, or it has no text to show.
        PathOnly "path_only",
        /// It did not fit into the budget, or not all of it.
        Budget "budget",
        /// This recipe or format does not show such inputs.
        NotShown "not_shown",
    }
}

impl OmissionReason {
    /// Returns the reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Empty => "not given",
            Self::NotThere => "the optional file does not exist",
            Self::Shadowed => "an override won",
            Self::LoadedByAgent => "the agent loads it by itself",
            Self::Cut => "over a limit",
            Self::Outlined => "only its outline is shown",
            Self::PathOnly => "only its path is shown",
            Self::Budget => "over the budget",
            Self::NotShown => "this recipe or format does not use it",
        }
    }
}
