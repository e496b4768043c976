//! `callsheet ledger`: shows where ledgers are, and adopts or forgets them for this user.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, escape_invisible};
use callsheet_core::record::{Event, Id};
use callsheet_store::{Head, Ledger, LedgerProblemKind, LedgerUrl, OpenMode};
use serde_json::{Value, json};

use crate::context::CommandContext;
use callsheet::error::{CommandResult, usage_error};
use callsheet::ledger::known_ledger::KnownLedger;
use callsheet::ledger::{
    LedgerTrust, check_head, judge_ledger, ledger_diagnostics, read_timeouts, short_lived_diag,
};
use callsheet::project::person::refuse_below_guard;

/// Show where the ledger is, which ledgers you know, and adopt one that was made elsewhere
///
/// A ledger names programs to start. One that this callsheet made is known; any other one is foreign: it can be read, and nothing
/// is started or recorded from it before you have adopted it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LedgerCommand {
    /// Print where the ledger of this project is
    Path,
    /// List the ledgers that you know
    List,
    /// Show what is in a foreign ledger, and make it known if you agree
    ///
    /// Also after a ledger was restored from a backup: the head that it has now is kept.
    Adopt {
        /// Agree without being asked, to the ledger with this id
        #[arg(long, value_name = "ID")]
        yes: Option<String>,
    },
    /// Forget a ledger that is gone, so that a new one can be made in its place; nothing is removed
    Forget {
        /// Agree without being asked, to the ledger with this id
        #[arg(long, value_name = "ID")]
        yes: Option<String>,
    },
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    match &args.command {
        LedgerCommand::Path => print_path(app),
        LedgerCommand::List => list(app),
        LedgerCommand::Adopt { yes } => adopt(app, yes.as_deref()),
        LedgerCommand::Forget { yes } => forget(app, yes.as_deref()),
    }
}

/// Requires a person's agreement to `what` for the ledger with this id: typed at a terminal, or given by
/// naming the id.
fn require_agreement(
    app: &CommandContext,
    what: &str,
    id: &Id,
    yes: Option<&str>,
) -> Result<(), Diagnostics> {
    refuse_below_guard()?;
    match yes {
        Some(yes) if yes == id.as_str() => return Ok(()),
        Some(yes) => {
            let error = usage_error(format!("the ledger's id is not `{yes}`"));
            return Err(error.hint("`callsheet ledger adopt` shows it").into());
        }
        None => {}
    }
    let asked = !app.print.json && app.print.watched && std::io::stdin().is_terminal();
    let mut answer = String::new();
    if asked {
        app.print.print_status(&format!("{what} Type yes:"));
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Diagnostic::error(Code::InputUnreadable, format!("standard input: {error}")))?;
    }
    if answer.trim() == "yes" {
        return Ok(());
    }
    let hint = format!("agree at a terminal, or with --yes {id}");
    Err(Diagnostic::error(Code::LedgerForeign, "a person has to agree to this ledger").hint(hint).into())
}

fn print_path(app: &CommandContext) -> CommandResult {
    // Without write access, the ledger of a project that already has an id can still be located.
    let place = match app.require_ledger_url() {
        Ok(place) => place,
        Err(failure) => app.ledger_url().ok().flatten().ok_or(failure)?,
    };
    let known = KnownLedger::from_url(&place)?;
    let warning = match &place {
        LedgerUrl::Sqlite(path) => short_lived_diag(path),
        _ => None,
    };
    if app.print.json {
        let entry = known.entry();
        return app.print.print_value(&json!({
            "place": known.shown(), "state": describe_state(&known), "id": entry.map(|entry| entry.id),
            "project": app.project_name()?, "warnings": warning.iter().map(|diag| &diag.message).collect::<Vec<_>>(),
        }));
    }
    app.print.print_diagnostics(warning.iter());
    app.print.print_line(&escape_invisible(known.shown()))?;
    Ok(0)
}

/// Returns the state of a ledger's place, as far as it is visible without opening the ledger.
fn describe_state(known: &KnownLedger) -> &'static str {
    match (known.entry(), known.file(), known.inode()) {
        (Some(_), Some(_), None) => "gone",
        (Some(entry), Some(_), inode) if entry.inode != inode => "replaced",
        (Some(_), ..) => "known",
        (None, Some(_), None) => "none",
        (None, ..) => "unknown",
    }
}

fn list(app: &CommandContext) -> CommandResult {
    let all = KnownLedger::list()?;
    let row = |known: &KnownLedger| {
        let entry = known.entry()?;
        let head = known.head();
        Some(json!({
            "id": entry.id, "place": entry.place, "state": describe_state(known),
            "head": head.map(|head| json!({ "seq": head.seq, "chain": head.chain })),
        }))
    };
    let rows: Vec<Value> = all.iter().filter_map(row).collect();
    if app.print.json {
        return app.print.print_value(&json!({ "ledgers": rows }));
    }
    let text = |value: &Value| escape_invisible(value.as_str().unwrap_or_default()).into_owned();
    for row in &rows {
        let (state, records) = (text(&row["state"]), row["head"]["seq"].as_u64().unwrap_or(0));
        app.print.print_line(&format!(
            "{}  {state:8} {records:>8} records  {}",
            text(&row["id"]),
            text(&row["place"])
        ))?;
    }
    Ok(0)
}

/// Summary of a ledger's contents for the person who decides about it.
struct LedgerContents {
    runs: usize,
    flows: usize,
    programs: BTreeSet<String>,
    first: Option<String>,
    last: Option<String>,
    head: Head,
    damage: usize,
}

impl LedgerContents {
    fn read(ledger: &mut Ledger) -> Result<Self, Diagnostics> {
        let checked = ledger.verify_all(false).map_err(ledger_diagnostics)?;
        let damage =
            checked.problems.iter().filter(|problem| problem.result == LedgerProblemKind::Damaged).count();
        let mut contents = Self {
            runs: 0,
            flows: ledger.flows().map_err(ledger_diagnostics)?.len(),
            programs: BTreeSet::new(),
            first: None,
            last: None,
            head: checked.head,
            damage,
        };
        let mut seq = 0;
        loop {
            let page = ledger.records_after(seq, 256).map_err(ledger_diagnostics)?;
            let Some(newest) = page.last() else { return Ok(contents) };
            seq = newest.seq;
            for record in &page {
                contents.first.get_or_insert_with(|| record.at.clone());
                contents.last = Some(record.at.clone());
                // `verify_all` counts unreadable records as damage.
                if let Ok(Some(event)) = record.event() {
                    contents.add_event(&event);
                }
            }
        }
    }

    fn add_event(&mut self, event: &Event) {
        let words = |argv: &[String]| argv.join(" ");
        match event {
            Event::Composed(composed) => {
                self.runs += 1;
                let Some(launch) = &composed.launch else { return };
                let agent = || format!("the agent {}", composed.run.agent.as_deref().unwrap_or("base"));
                let program = if launch.program.is_empty() { agent() } else { words(&launch.program) };
                self.programs.insert(program);
                self.programs.extend(launch.checks.iter().map(|check| words(&check.argv)));
            }
            Event::Decided(decided) => {
                let started = &decided.detail["more"];
                let argv = |value: &Value| -> Option<String> {
                    let words: Vec<&str> = value.as_array()?.iter().filter_map(Value::as_str).collect();
                    (!words.is_empty()).then(|| words.join(" "))
                };
                self.programs.extend(argv(&started["program"]));
                let checks = started["checks"].as_array().into_iter().flatten();
                self.programs.extend(checks.filter_map(|check| argv(&check["argv"])));
                let agents = started["agents"].as_object().into_iter().flat_map(|agents| agents.values());
                let named = agents.chain([&started["agent"]]).filter_map(Value::as_str);
                self.programs.extend(named.map(|agent| format!("the agent {agent}")));
            }
            _ => {}
        }
    }

    fn render_page(&self, id: &Id, place: &str) -> String {
        let mut page = String::new();
        let mut row = |name: &str, text: String| page += &format!("{name:<9} {}\n", escape_invisible(&text));
        row("ledger", place.into());
        row("id", id.to_string());
        row("runs", self.runs.to_string());
        row("flows", self.flows.to_string());
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            row("records", format!("{}, from {first} to {last}", self.head.seq));
        }
        row("head", format!("{}:{}", self.head.seq, self.head.chain));
        row(
            "damage",
            if self.damage == 0 {
                "none".into()
            } else {
                format!("{} places: see `callsheet verify --all`", self.damage)
            },
        );
        for program in self.programs.iter().take(MOST_PROGRAMS) {
            row("starts", program.clone());
        }
        if self.programs.len() > MOST_PROGRAMS {
            row("", format!("and {} more, see --json", self.programs.len() - MOST_PROGRAMS));
        }
        page
    }
}

/// Maximum number of programs on the page.
const MOST_PROGRAMS: usize = 30;

fn adopt(app: &CommandContext, yes: Option<&str>) -> CommandResult {
    let none = || Diagnostics::from(Diagnostic::error(Code::LedgerNotThere, "there is no ledger to adopt"));
    let place = app.prepare_ledger_url(OpenMode::Write)?.ok_or_else(none)?;
    let known = KnownLedger::from_url(&place)?;
    let mut ledger =
        Ledger::connect(&place, OpenMode::Write, read_timeouts()?).map_err(ledger_diagnostics)?;
    let id = ledger.id().map_err(ledger_diagnostics)?.ok_or_else(none)?;
    let is_known = known.entry().is_some_and(|entry| entry.id == id && entry.inode == known.inode())
        && judge_ledger(&known, &mut ledger).is_ok_and(|trust| trust == LedgerTrust::Known)
        && check_head(&known, &mut ledger).is_ok();
    let contents = LedgerContents::read(&mut ledger)?;
    if !app.print.json {
        app.print.write_data(contents.render_page(&id, known.shown()).as_bytes())?;
    }
    if !is_known {
        app.refuse_below_ledger_guard(&mut ledger)?;
        require_agreement(app, "Do you want to record and start runs with this ledger?", &id, yes)?;
        let held = known.lock()?;
        known.register(&mut ledger)?;
        drop(held);
    }
    if app.print.json {
        return app.print.print_value(&json!({
            "id": id, "place": known.shown(), "runs": contents.runs, "flows": contents.flows,
            "programs": contents.programs, "first": contents.first, "last": contents.last,
            "head": { "seq": contents.head.seq, "chain": contents.head.chain }, "damage": contents.damage,
        }));
    }
    app.print.print_status(if is_known { "it is known already" } else { "adopted" });
    Ok(0)
}

fn forget(app: &CommandContext, yes: Option<&str>) -> CommandResult {
    let known = KnownLedger::from_url(&app.require_ledger_url()?)?;
    let Some(entry) = known.entry() else {
        let error =
            Diagnostic::error(Code::LedgerNotThere, format!("no ledger is known at {}", known.shown()));
        return Err(error.hint("`callsheet ledger list` lists those that are").into());
    };
    require_agreement(
        app,
        &format!("Forget the ledger at {}?", escape_invisible(known.shown())),
        &entry.id,
        yes,
    )?;
    known.forget();
    if app.print.json {
        return app.print.print_value(&json!({ "forgotten": entry.id, "place": entry.place }));
    }
    app.print.print_status(&format!("forgotten: {}", escape_invisible(&entry.place)));
    Ok(0)
}
