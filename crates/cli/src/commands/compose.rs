//! `callsheet compose`: build a prompt and print it, without running anything.

use std::path::{Path, PathBuf};

use callsheet_core::diag::{Diag, Failure};
use callsheet_core::render::{Rendered, render, render_parts};
use callsheet_core::request::Request;
use callsheet_core::{Composed, Step, compose, fit};
use callsheet_run::{Disk, Prefetched};
use clap::ArgMatches;
use serde_json::json;

use crate::app::App;
use crate::args::Ask;
use crate::failure::Outcome;
use crate::inputs::{Order, RequestFile};
use crate::print::diag_json;
use crate::tokens::{Counter, Summary};
use crate::write::write_out;

const EXAMPLES: &str = "Examples:
  callsheet compose -p plan \"Add login\"
  callsheet compose -r run --role coder -f src/login.rs --write 'src/**' \"Fix the timeout\"";

/// Build a prompt and print it
///
/// Prints exactly the bytes that an agent would get, and adds nothing, not even a newline. Nothing runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Write the prompt to a file instead of standard output, which is -
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print how many tokens the prompt has, by section and in all, instead of the prompt
    #[arg(long, conflicts_with = "out")]
    count: bool,
}

/// From so many bytes of packed files on, a prompt is written part by part.
const LONG: usize = 1 << 20;

pub(crate) fn run(app: &App<'_>, args: &Args, given: Option<&ArgMatches>) -> Outcome {
    let out = args.out.as_deref().filter(|out| !is_standard_output(out));
    let ordered = Ordered::new(app, &args.ask, given)?;
    let whole = out.is_some() || args.count || app.print.json || args.ask.budget.is_some();
    if !whole && ordered.is_long() {
        return stream(app, &args.ask, ordered);
    }
    let finished = finish(&args.ask, ordered)?;
    if args.count {
        return count(app, finished);
    }
    let Finished { composed, rendered, talk, .. } = finished;
    app.print.talk(&talk);
    if let Some(out) = out {
        write_out(&app.here.join(out), rendered.text.as_bytes())?;
    }
    if app.print.json {
        return app.print.value(&json!({
            "recipe": composed.prompt.recipe,
            "format": composed.prompt.format,
            "text": rendered.text,
            "warnings": talk.iter().map(diag_json).collect::<Vec<_>>(),
        }));
    }
    if out.is_none() {
        app.print.data(rendered.text.as_bytes())?;
    }
    leave(composed);
    Ok(0)
}

/// Composes a prompt and writes it to standard output part by part: it is never held as a whole, and what there is
/// to say about it comes after it.
fn stream(app: &App<'_>, ask: &Ask, ordered: Ordered) -> Outcome {
    let Ordered { request, sources, mut talk } = ordered;
    let composed = compose(&request, &sources)?;
    let (mut bytes, mut chars) = (0, 0);
    let rendered = app.print.parts(|write| {
        render_parts(&composed.prompt, composed.prompt.format, ask.api.map(|api| api.0), &mut |part| {
            bytes += part.len();
            chars += composed.agent.max_chars.map_or(0, |_| part.chars().count());
            write(part.as_bytes());
        })
    });
    talk.extend(composed.talk.iter().chain(&rendered?).cloned());
    talk.extend(composed.agent.over_limits(bytes, || chars));
    app.print.talk(&talk);
    leave((request, sources, composed));
    Ok(0)
}

/// The process is about to end, and then all memory goes at once: to take ten thousand files apart before takes
/// a tenth of the time in which they are packed.
fn leave<T>(value: T) {
    std::mem::forget(value);
}

/// Its other names may stand for a file that others are writing to as well: it must not be replaced.
fn is_standard_output(out: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| out == Path::new(name))
}

fn count(app: &App<'_>, mut finished: Finished) -> Outcome {
    let summary = finished.summary();
    app.print.talk(&finished.talk);
    if app.print.json {
        let mut object = summary.json();
        object["warnings"] = finished.talk.iter().map(diag_json).collect();
        return app.print.value(&object);
    }
    app.print.data(summary.table().as_bytes())?;
    Ok(0)
}

/// A prompt as it would be handed over, with everything there is to say about it.
pub(crate) struct Finished {
    pub(crate) composed: Composed,
    pub(crate) rendered: Rendered,
    pub(crate) talk: Vec<Diag>,
    /// What a budget made of it, step by step.
    pub(crate) steps: Vec<Step>,
    /// How many tokens it has, where that was counted to fit a budget.
    tokens: Option<usize>,
}

impl Finished {
    /// The tokens of the prompt by section, and a warning more if they are too many.
    pub(crate) fn summary(&mut self) -> Summary {
        let summary = Summary::new(&self.composed, &self.rendered);
        if self.tokens.is_none() {
            self.talk.extend(summary.over_window());
        }
        summary
    }
}

/// What is to be composed, with its sources.
pub(crate) struct Ordered {
    request: Request,
    sources: Prefetched<Disk>,
    talk: Vec<Diag>,
}

impl Ordered {
    pub(crate) fn new(app: &App<'_>, ask: &Ask, given: Option<&ArgMatches>) -> Result<Self, Failure> {
        let file = RequestFile::read(app, ask)?;
        let elsewhere = file.project(app).map(|dir| app.in_project(dir)).transpose()?;
        let app = elsewhere.as_ref().unwrap_or(app);
        let Order { request, session, texts, listings, talk } = Order::new(app, ask, given, file)?;
        Ok(Self { request, sources: Prefetched { inner: app.disk(session), texts, listings }, talk })
    }

    /// Whether it holds more files than anybody reads on a terminal.
    fn is_long(&self) -> bool {
        self.sources.texts.values().map(|text| text.len()).sum::<usize>() > LONG
    }
}

pub(crate) fn finish(ask: &Ask, ordered: Ordered) -> Result<Finished, Failure> {
    let Ordered { request, sources, mut talk } = ordered;
    let api = ask.api.map(|api| api.0);
    let (composed, rendered, steps, tokens) = match ask.budget {
        None => {
            let composed = compose(&request, &sources)?;
            let rendered = render(&composed.prompt, composed.prompt.format, api)?;
            (composed, rendered, Vec::new(), None)
        }
        Some(budget) => {
            let mut counter = None;
            let mut count = |composed: &Composed, text: &str| {
                counter.get_or_insert_with(|| Counter::of(composed)).count(text)
            };
            let fitted = fit(&request, &sources, api, budget, &mut count)?;
            (fitted.composed, fitted.rendered, fitted.steps, Some(fitted.tokens))
        }
    };
    talk.extend(composed.talk.iter().chain(&rendered.talk).cloned());
    talk.extend(composed.agent.over_limits(rendered.text.len(), || rendered.text.chars().count()));
    talk.extend(tokens.and_then(|tokens| Counter::of(&composed).over_window(tokens)));
    leave((request, sources));
    Ok(Finished { composed, rendered, talk, steps, tokens })
}
