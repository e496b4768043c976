//! Errors of git and of writing as diagnostics.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};

use crate::{GitError, WriteError};

impl From<GitError> for Diagnostics {
    fn from(error: GitError) -> Self {
        Diagnostic::error(Code::GitFailed, error.to_string()).into()
    }
}

impl From<WriteError> for Diagnostics {
    fn from(error: WriteError) -> Self {
        Diagnostic::error(Code::OutputFailed, error.to_string()).into()
    }
}
