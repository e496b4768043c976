//! Draws a flow as a Mermaid chart and marks the current phase.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Flow, FlowState, FlowStatus, LaneStage, Phase, TransitionTarget};

/// Draws the chart and marks the phase of `state`.
pub fn draw_graph(flow: &Flow, state: Option<&FlowState>) -> String {
    let mut lines = alloc::vec!["flowchart TD".to_string()];
    let place: BTreeMap<&str, usize> =
        flow.phase.iter().enumerate().map(|(at, phase)| (phase.name.as_str(), at)).collect();
    for (at, phase) in flow.phase.iter().enumerate() {
        let (open, close) = if phase.optional { ("([\"", "\"])") } else { ("[\"", "\"]") };
        lines.push(format!("    p{at}{open}{}{close}", label(phase, state)));
    }
    lines.push("    person{{\"person\"}}".to_string());
    lines.push("    done([\"done\"])".to_string());
    let leads_here = |name: &str| -> Vec<usize> {
        let leads = |phase: &Phase| phase.on.iter().any(|on| on.to == name);
        (0..flow.phase.len()).filter(|at| leads(&flow.phase[*at])).collect()
    };
    let node = |target: TransitionTarget<'_>, from: &str| -> Vec<String> {
        match target {
            TransitionTarget::Phase(name) => place.get(name).map(|at| format!("p{at}")).into_iter().collect(),
            TransitionTarget::Person => alloc::vec!["person".to_string()],
            TransitionTarget::Done => alloc::vec!["done".to_string()],
            TransitionTarget::Back => leads_here(from).iter().map(|at| format!("p{at}")).collect(),
        }
    };
    for (at, phase) in flow.phase.iter().enumerate() {
        for on in &phase.on {
            for to in node(TransitionTarget::new(&on.to), &phase.name) {
                lines.push(format!("    p{at} -->|\"{}\"| {to}", escape_quotes(&on.needs.join("<br/>"))));
            }
        }
        let asks = phase.on.iter().any(|on| TransitionTarget::new(&on.to) == TransitionTarget::Person);
        if asks {
            for to in node(phase.approval_target(), &phase.name) {
                lines.push(format!("    person -. \"{} approved\" .-> {to}", escape_quotes(&phase.name)));
            }
            for to in node(TransitionTarget::Phase(phase.changes_phase()), &phase.name) {
                lines.push(format!("    person -. \"changes to {}\" .-> {to}", escape_quotes(&phase.name)));
            }
        }
    }
    if let Some(current) = state.and_then(|state| current_node(&place, state)) {
        lines
            .push("    classDef current fill:#ffe08a,stroke:#b8860b,stroke-width:3px,color:#000".to_string());
        lines.push(format!("    class {current} current"));
    }
    lines.join("\n") + "\n"
}

fn current_node(place: &BTreeMap<&str, usize>, state: &FlowState) -> Option<String> {
    let phase = || place.get(state.phase.as_str()).map(|at| format!("p{at}"));
    match &state.at {
        FlowStatus::New | FlowStatus::Rejected => None,
        FlowStatus::Done => Some("done".to_string()),
        FlowStatus::Waiting { .. } => {
            Some(phase().map_or("person".to_string(), |phase| format!("{phase},person")))
        }
        FlowStatus::Entering | FlowStatus::Running => phase(),
    }
}

fn label(phase: &Phase, state: Option<&FlowState>) -> String {
    let name = escape_quotes(&phase.name);
    let Some(state) = state.filter(|state| state.phase == phase.name && !state.has_ended()) else {
        return name;
    };
    let mut label = format!("{name}<br/>round {}", state.round());
    if state.lanes.len() > 1 {
        let done = state.lanes.iter().filter(|state| matches!(state.stage, LaneStage::Done { .. })).count();
        label.push_str(&format!("<br/>{done} of {} lanes", state.lanes.len()));
    }
    label
}

fn escape_quotes(text: &str) -> String {
    text.replace('"', "#quot;")
}
