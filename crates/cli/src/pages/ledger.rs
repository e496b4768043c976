//! Renders ledgers: those that a person knows, and the contents of one that is to be adopted.

use callsheet::ledger::adopt::LedgerAdoption;
use callsheet::ledger::known_ledger::KnownLedger;
use callsheet_core::diag::escape_invisible;

/// Maximum number of programs on the page.
const MOST_PROGRAMS: usize = 30;

/// Renders a known ledger as one line.
pub(crate) fn known_line(known: &KnownLedger) -> Option<String> {
    let entry = known.entry()?;
    let (state, records) = (known.state().name(), known.head().map_or(0, |head| head.seq));
    Some(format!("{}  {state:8} {records:>8} records  {}\n", entry.id, escape_invisible(&entry.place)))
}

/// Renders the ledger that is to be adopted.
pub(crate) fn adoption_page(found: &LedgerAdoption) -> String {
    let contents = &found.contents;
    let mut page = String::new();
    let mut row = |name: &str, text: String| page += &format!("{name:<9} {}\n", escape_invisible(&text));
    row("ledger", found.place().into());
    row("id", found.id.to_string());
    row("runs", contents.runs.to_string());
    row("flows", contents.flows.to_string());
    if let (Some(first), Some(last)) = (&contents.first, &contents.last) {
        row("records", format!("{}, from {first} to {last}", contents.head.seq));
    }
    row("head", format!("{}:{}", contents.head.seq, contents.head.chain));
    let damage = match contents.damage {
        0 => "none".into(),
        places => format!("{places} places: see `callsheet verify --all`"),
    };
    row("damage", damage);
    for program in contents.programs.iter().take(MOST_PROGRAMS) {
        row("starts", program.clone());
    }
    if contents.programs.len() > MOST_PROGRAMS {
        row("", format!("and {} more, see --json", contents.programs.len() - MOST_PROGRAMS));
    }
    page
}
