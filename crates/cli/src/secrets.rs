//! Secrets at the edge: which mode holds, and from where values come that are marked as secret.

use callsheet_core::Text;
use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::secrets::{Mode, Rules};

use crate::app::App;
use crate::args::Ask;
use crate::failure::usage;

/// What the flag says, else the configuration, else a warning.
pub(crate) fn mode(app: &App<'_>, ask: &Ask) -> Mode {
    ask.secrets.map(|mode| mode.0).or(app.config.secrets.value).unwrap_or_default()
}

/// The rules of the project, the user and the shipped ones.
pub(crate) fn rules(app: &App<'_>) -> Result<Rules, Failure> {
    Rules::load(&app.disk(None), &app.config.layout())
}

/// The value of an environment variable. Its name may stand on a command line, which others can see; its value may not.
pub(crate) fn variable(name: &str) -> Result<Text, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(value.into()),
        Err(std::env::VarError::NotPresent) => {
            Err(Diag::error(Code::InputNotFound, format!("the environment variable `{name}` is not set"))
                .into())
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(usage(format!("the environment variable `{name}` is not UTF-8")).into())
        }
    }
}
