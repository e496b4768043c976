//! `callsheet init`: writes `.callsheet/` with a commented configuration. Never overwrites.

use callsheet::error::CommandResult;
use callsheet::init::InitReport;
use callsheet::output::InitOutput;

use crate::context::CommandContext;

/// The file that has the proposed checks.
const CONFIG: &str = ".callsheet/config.toml";

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let report = app.init()?;
    if app.print.json {
        return app.print.print_json(&InitOutput::new(app, &report));
    }
    if app.print.is_quiet() {
        return Ok(0);
    }
    app.print.print_page(&report_page(app, &report))?;
    let flag = report.checks.first();
    let flag =
        flag.map_or_else(String::new, |check| format!(" --check {}=\"{}\"", check.name, check.command));
    app.print.print_status("Next:");
    app.print.print_status(&format!("  callsheet run -a claude{flag} \"Fix the login timeout\""));
    app.print.print_status(&format!("  callsheet flow start sdd -a claude{flag} \"Add login\""));
    app.print.print_status("  callsheet agents  # lists the agents, and which of them are installed");
    Ok(0)
}

fn report_page(app: &CommandContext, report: &InitReport) -> String {
    let mut page = String::new();
    for path in &report.written {
        page.push_str(&format!("wrote {}\n", app.path_from_here(path)));
    }
    for path in &report.kept {
        page.push_str(&format!("kept the existing {}\n", app.path_from_here(path)));
    }
    if report.ignored {
        page.push_str(&format!("added the ledger to {}\n", app.path_from_here(".gitignore")));
    }
    let is_new = report.written.iter().any(|path| path == CONFIG);
    if is_new && !report.checks.is_empty() {
        let config = app.path_from_here(CONFIG);
        for check in &report.checks {
            page.push_str(&format!("proposed the check `{}`, from {}\n", check.command, check.file));
        }
        page.push_str(&format!(
            "To run the checks after every agent, remove the `# ` before `[checks]` and before the checks in\n\
             {config}, then run `callsheet trust`\n"
        ));
    }
    page
}
