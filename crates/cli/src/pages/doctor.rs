//! Renders the findings of `doctor`.

use callsheet::run::doctor::{DoctorFinding, DoctorState};
use callsheet_core::diag::escape_invisible;

use crate::print::{OutputPrinter, TextStyle};

/// Renders findings, each with its fix.
pub(crate) fn doctor_page(print: &OutputPrinter, found: &[DoctorFinding]) -> String {
    let mut page = String::new();
    for finding in found {
        let paint = match finding.state {
            DoctorState::Good => TextStyle::Green,
            DoctorState::Absent => TextStyle::Dim,
            DoctorState::Bad => TextStyle::Red,
        };
        // Colour codes have no width, so the padding is computed from the plain name.
        let pad = " ".repeat(8 - finding.state.name().len());
        let state = print.paint(paint, finding.state.name());
        let (name, detail) = (escape_invisible(&finding.name), escape_invisible(&finding.detail));
        page += &format!("{state}{pad}{name:10}  {detail}\n");
        if !finding.todo.is_empty() {
            page += &format!("{:20}{}\n", "", escape_invisible(&finding.todo));
        }
    }
    page
}
