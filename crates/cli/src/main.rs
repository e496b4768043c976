//! `callsheet`: composes, explains and checks the prompts of AI coding agents.

mod app;
mod args;
mod claim;
mod commands;
mod config;
mod drive;
mod failure;
mod flow;
mod inputs;
mod installed;
mod known;
mod ledger;
mod mcp;
mod pack;
mod person;
mod print;
mod project;
mod record;
mod secrets;
mod session;
mod span;
mod spool;
mod state;
mod tasks;
mod tokens;
mod trust;
mod usage;
mod write;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::app::App;
use crate::args::{Cli, Command};

fn main() -> ExitCode {
    // Between us and every agent that is started there is this program once more.
    if std::env::args_os().nth(1).is_some_and(|first| first == callsheet_run::GUARD) {
        return ExitCode::from(callsheet_run::guard_with(drive::record_submission));
    }
    let mut command = Cli::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    // To take it apart takes longer than to read the words by it.
    std::mem::forget(command);
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::exit(&error),
    };
    let print = print::Print::new(&cli.global);
    let result = dispatch(&cli, &matches, &print);
    ExitCode::from(result.unwrap_or_else(|failure| print.failure(&failure)))
}

fn dispatch(cli: &Cli, matches: &clap::ArgMatches, print: &print::Print) -> failure::Outcome {
    match &cli.command {
        Command::Completions(args) => return commands::completions::run(print, args),
        Command::Man(args) => return commands::man::run(print, args),
        Command::Schema(args) => return commands::schema::run(print, args),
        _ => {}
    }
    let only_ends = matches!(&cli.command, Command::Flow(args) if args.only_ends());
    let app = App::new(&cli.global, print, only_ends)?;
    let given = matches.subcommand().map(|(_, given)| given);
    match &cli.command {
        Command::Init => commands::init::run(&app),
        Command::Compose(args) => commands::compose::run(&app, args, given),
        Command::Explain(args) => commands::explain::run(&app, args, given),
        Command::Run(args) => commands::run::run(&app, args, given),
        Command::Retry(args) => commands::retry::retry(&app, args),
        Command::Continue(args) => commands::retry::go_on(&app, args),
        Command::Stop(args) => commands::stop::run(&app, args),
        Command::Status(args) => commands::status::run(&app, args),
        Command::Recover(args) => commands::recover::run(&app, args),
        Command::Decide(args) => commands::decide::run(&app, args),
        Command::Flow(args) => commands::flow::run(&app, args),
        Command::Trust(args) => commands::trust::run(&app, args),
        Command::Ledger(args) => commands::ledger::run(&app, args),
        Command::Log(args) => commands::log::run(&app, args),
        Command::Show(args) => commands::show::run(&app, args),
        Command::Diff(args) => commands::diff::run(&app, args),
        Command::Verify(args) => commands::verify::run(&app, args),
        Command::Export(args) => commands::export::run(&app, args),
        Command::Import(args) => commands::import::run(&app, args),
        Command::Watch(args) => commands::watch::run(&app, args),
        Command::Gc(args) => commands::gc::run(&app, args),
        Command::Read(args) => commands::read::run(&app, args),
        Command::Check => commands::check::run(&app),
        Command::Fuzz(args) => commands::fuzz::run(&app, args),
        Command::Templates(args) => commands::templates::run(&app, args),
        Command::Prefs(args) => commands::prefs::run(&app, args),
        Command::Mcp(args) => commands::mcp::run(&app, args),
        Command::Agents => commands::agents::run(&app),
        Command::Doctor => commands::doctor::run(&app),
        Command::Config(args) => commands::config::run(&app, args),
        Command::Completions(_) | Command::Man(_) | Command::Schema(_) => Ok(0),
    }
}
