//! `callsheet compose`: build a prompt and print it, without running anything.

use std::io::Write;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::render::{Rendered, render};
use callsheet_core::{Composed, compose};
use clap::ArgMatches;
use serde_json::json;

use crate::app::App;
use crate::args::Ask;
use crate::failure::Outcome;
use crate::inputs::Order;
use crate::print::diag_json;

/// Build a prompt and print it
///
/// Prints exactly the bytes that an agent would get, and adds nothing, not even a newline. Nothing runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Write the prompt to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(app: &App<'_>, args: &Args, given: Option<&ArgMatches>) -> Outcome {
    let Finished { composed, rendered, talk } = finish(app, &args.ask, given)?;
    app.print.talk(&talk);
    if let Some(out) = &args.out {
        write_file(&app.here.join(out), rendered.text.as_bytes())?;
    }
    if app.print.json {
        return app.print.value(&json!({
            "recipe": composed.prompt.recipe,
            "format": composed.prompt.format,
            "text": rendered.text,
            "warnings": talk.iter().map(diag_json).collect::<Vec<_>>(),
        }));
    }
    if args.out.is_none() {
        app.print.data(rendered.text.as_bytes())?;
    }
    Ok(0)
}

/// A prompt as it would be handed over, with everything there is to say about it.
pub(crate) struct Finished {
    pub(crate) composed: Composed,
    pub(crate) rendered: Rendered,
    pub(crate) talk: Vec<Diag>,
}

pub(crate) fn finish(app: &App<'_>, ask: &Ask, given: Option<&ArgMatches>) -> Result<Finished, Failure> {
    let order = Order::new(app, ask, given)?;
    if let Some(project) = &order.project {
        return finish(&app.in_project(project)?, ask, given);
    }
    let composed = compose(&order.request, &app.disk(order.session))?;
    let rendered = render(&composed.prompt, composed.prompt.format, ask.api.map(|api| api.0))?;
    let talk =
        order.talk.into_iter().chain(composed.talk.iter().cloned()).chain(rendered.talk.iter().cloned());
    Ok(Finished { talk: talk.collect(), composed, rendered })
}

/// Writes a file whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    });
    written.map_err(|error| {
        Diag::error(Code::OutputFailed, format!("`{}` could not be written: {error}", path.display())).into()
    })
}
