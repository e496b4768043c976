//! The `callsheet` binary: parses the command line and dispatches to the command.

mod args;
mod commands;
mod complete;
mod context;
mod demo;
mod html_file;
mod live;
mod mcp_install;
mod pager;
mod pages;
mod print;
mod run_args;
mod usage;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};

use crate::args::{CliArgs, CliCommand};
use crate::context::CommandContext;

fn main() -> ExitCode {
    // callsheet runs itself as the guard between it and every agent.
    callsheet::guard_if_asked();
    // The agent of the demo is this program, too.
    if let Some(code) = demo::act_if_asked() {
        return code;
    }
    // The scripts for shells call this program for every word.
    if let Some(code) = complete::act_if_asked() {
        return code;
    }
    let mut command = CliArgs::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    // Leak the clap `Command`: dropping it takes longer than parsing.
    std::mem::forget(command);
    let parsed = parsed.and_then(|matches| Ok((CliArgs::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::report_usage_error(&error),
    };
    let print = Arc::new(print::OutputPrinter::new(&cli.global));
    usage::hint_at_program_flag(&print);
    let result = dispatch(&cli, &matches, &print);
    ExitCode::from(result.unwrap_or_else(|failure| print.print_failure(&failure)))
}

fn dispatch(
    cli: &CliArgs,
    matches: &clap::ArgMatches,
    print: &Arc<print::OutputPrinter>,
) -> callsheet::error::CommandResult {
    match &cli.command {
        CliCommand::Demo(args) => return commands::demo::run(print, args),
        CliCommand::Completions(args) => return commands::completions::run(print, args),
        CliCommand::Man(args) => return commands::man::run(print, args),
        CliCommand::Schema(args) => return commands::schema::run(print, args),
        _ => {}
    }
    let only_ends = matches!(&cli.command, CliCommand::Flow(args) if args.is_config_optional());
    let app = CommandContext::new(&cli.global, print, only_ends)?;
    let given = matches.subcommand().map(|(_, given)| given);
    match &cli.command {
        CliCommand::Init => commands::init::run(&app),
        CliCommand::Compose(args) => commands::compose::run(&app, args, given),
        CliCommand::Explain(args) => commands::explain::run(&app, args, given),
        CliCommand::Context(args) => commands::context::run(&app, args, given),
        CliCommand::Run(args) => commands::run::run(&app, args, given),
        CliCommand::Retry(args) => commands::retry::retry(&app, args),
        CliCommand::Continue(args) => commands::retry::continue_run(&app, args),
        CliCommand::Stop(args) => commands::stop::run(&app, args),
        CliCommand::Status(args) => commands::status::run(&app, args),
        CliCommand::Stats(args) => commands::stats::run(&app, args),
        CliCommand::Task(args) => commands::task::run(&app, args),
        CliCommand::Recover(args) => commands::recover::run(&app, args),
        CliCommand::Decide(args) => commands::decide::run(&app, args),
        CliCommand::Revert(args) => commands::restore::revert(&app, args),
        CliCommand::Apply(args) => commands::restore::apply(&app, args),
        CliCommand::Flow(args) => commands::flow::run(&app, args),
        CliCommand::Trust(args) => commands::trust::run(&app, args),
        CliCommand::Ledger(args) => commands::ledger::run(&app, args),
        CliCommand::Log(args) => commands::log::run(&app, args),
        CliCommand::Show(args) => commands::show::run(&app, args),
        CliCommand::Diff(args) => commands::diff::run(&app, args),
        CliCommand::Verify(args) => commands::verify::run(&app, args),
        CliCommand::Export(args) => commands::export::run(&app, args),
        CliCommand::Import(args) => commands::import::run(&app, args),
        CliCommand::Watch(args) => commands::watch::run(&app, args),
        CliCommand::Serve(args) => commands::serve::run(&app, args),
        CliCommand::Gc(args) => commands::gc::run(&app, args),
        CliCommand::Read(args) => commands::read::run(&app, args),
        CliCommand::Render(args) => commands::render::run(&app, args),
        CliCommand::Check => commands::check::run(&app),
        CliCommand::Fuzz(args) => commands::fuzz::run(&app, args),
        CliCommand::Templates(args) => commands::templates::run(&app, args),
        CliCommand::Prefs(args) => commands::prefs::run(&app, args),
        CliCommand::Mcp(args) => commands::mcp::run(&app, args),
        CliCommand::Agents => commands::agents::run(&app),
        CliCommand::Doctor => commands::doctor::run(&app),
        CliCommand::Config(args) => commands::config::run(&app, args),
        CliCommand::Demo(_) | CliCommand::Completions(_) | CliCommand::Man(_) | CliCommand::Schema(_) => {
            Ok(0)
        }
    }
}
