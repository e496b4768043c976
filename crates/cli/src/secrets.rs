//! Secrets at the edge: which mode holds, and from where values come that are marked as secret.

use callsheet_core::Text;
use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::secrets::{Mode, Rules};

use crate::app::App;
use crate::args::Ask;
use crate::commands::compose::Then;
use crate::failure::usage;

/// What the flag says, else the configuration; else a warning, or a refusal where the prompt is kept.
pub(crate) fn mode(app: &App<'_>, ask: &Ask, then: Then) -> Result<Mode, Failure> {
    let said = ask.secrets.map(|mode| mode.0);
    match (said.or(app.config.secrets.value), then) {
        (Some(Mode::Warn), Then::Record) if said.is_some() => {
            Err(usage("a secret is not recorded with a warning").hint("`--secrets redact`, or `allow`").into())
        }
        (None | Some(Mode::Warn), Then::Record) => Ok(Mode::Refuse),
        (mode, _) => Ok(mode.unwrap_or_default()),
    }
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
