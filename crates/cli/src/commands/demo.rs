//! `callsheet demo`: shows the work of callsheet in a throw-away repository, with a scripted agent.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use callsheet::Result;
use callsheet::error::{CommandResult, INTERRUPTED};
use callsheet::output::{DemoReportOutput, DemoStepOutput};
use callsheet_core::diag::{Code, Diagnostic};

use crate::demo::{DemoFolder, DemoOutput, DemoScript, DemoStep, quote_word};
use crate::print::{OutputPrinter, TextStyle};

/// Run callsheet in a temporary repository, with a scripted agent instead of a model
///
/// The scripted agent reads its prompts and acts on them. The commands and their outputs are real. The demo
/// neither reads nor changes your configuration, your state or your projects. It needs git.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Create the demo in DIR, which must be empty or new, and keep it afterwards
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    let script = DemoScript::parse()?;
    let interrupted = callsheet_run::take_interrupts()
        .map_err(|error| Diagnostic::error(Code::OutputFailed, format!("signals: {error}")))?;
    let folder = DemoFolder::create(args.keep.as_deref())?;
    print_text(print, &script.intro)?;
    let (mut steps, mut title, mut number) = (Vec::new(), "", 0);
    for step in &script.steps {
        if let Some(new) = &step.title {
            (title, number) = (new, number + 1);
            print_text(
                print,
                &format!("\n{}\n", print.paint(TextStyle::Bold, &format!("{number}. {title}"))),
            )?;
        }
        let command = step.command_line();
        print_text(print, &format!("$ {}\n", print.paint(TextStyle::Cyan, &command)))?;
        let output = folder.run(&step.command)?;
        if interrupted.load(Ordering::SeqCst) {
            return Ok(INTERRUPTED);
        }
        if output.exit_code != Some(step.exit_code) {
            return Err(report_failure(step, &output, folder));
        }
        print_text(print, &step.shorten(output.result()))?;
        if step.exit_code != 0 {
            print_text(print, &format!("  (exit code {})\n", step.exit_code))?;
        }
        steps.push(DemoStepOutput {
            title: title.to_owned(),
            command,
            exit_code: output.exit_code,
            output: output.result().to_owned(),
        });
    }
    print_text(print, &format!("\n{}", script.outro))?;
    let kept = args.keep.is_some().then(|| (way_back(&folder), folder.keep()));
    let (way_back, directory) = kept.unzip();
    print.print_output(|| DemoReportOutput::new(steps, directory.as_deref()), || way_back.unwrap_or_default())
}

/// Prints text for people, as soon as it exists.
fn print_text(print: &OutputPrinter, text: &str) -> Result<()> {
    if print.json { Ok(()) } else { print.write_data(text.as_bytes()) }
}

/// Returns the commands that lead to the kept project.
fn way_back(folder: &DemoFolder) -> String {
    let quote = |path: &Path| quote_word(&path.display().to_string());
    let variables = folder.variables().map(|(name, path)| format!("{name}={}", quote(&path)));
    format!(
        "\nThe demo is kept. Its configuration and its records are beside the project, not in your home:\n  \
         cd {}\n  export {}\n  callsheet log\n",
        quote(&folder.project()),
        variables.join(" "),
    )
}

/// Reports an unexpected exit code. Keeps the folder, so that the cause can be found.
fn report_failure(step: &DemoStep, output: &DemoOutput, folder: DemoFolder) -> callsheet::Error {
    let code = output.exit_code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
    let message = format!(
        "the demo failed at `{}`: {code} instead of exit code {}\n{}{}",
        step.command_line(),
        step.exit_code,
        output.out,
        output.err,
    );
    let hint = format!("its files are kept in {}", folder.keep().display());
    Diagnostic::error(Code::OutputFailed, message.trim_end()).hint(hint).into()
}
