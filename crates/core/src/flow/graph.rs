//! A flow as a graph of its phases, with the place at which it is, and the same as a Mermaid chart.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Flow, FlowState, FlowStatus, LaneStage, Phase, TransitionTarget};

/// A flow as a graph.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FlowGraph {
    /// The phases in their order, then the person, then the end.
    pub nodes: Vec<GraphNode>,
    /// The transitions.
    pub edges: Vec<GraphEdge>,
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GraphNode {
    /// The kind of the node.
    pub kind: GraphNodeKind,
    /// The name of the phase, `person` or `done`.
    pub name: String,
    /// Whether the flow is here.
    pub current: bool,
    /// The round of the phase that the flow is in.
    pub round: Option<u32>,
    /// The number of lanes of this phase that are done; only with more than one lane.
    pub lanes_done_count: Option<usize>,
    /// The number of lanes of this phase; only with more than one lane.
    pub lanes_count: Option<usize>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphNodeKind {
    /// A phase.
    Phase,
    /// A phase that is left out unless it is asked for.
    OptionalPhase,
    /// A person decides.
    Person,
    /// The end.
    Done,
}

/// A transition.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GraphEdge {
    /// The number of the node that it leaves, from 0.
    pub from: usize,
    /// The number of the node that it leads to, from 0.
    pub to: usize,
    /// The evidence that it needs, or the words of the person's decision.
    pub needs: Vec<String>,
    /// Whether a person takes it.
    pub by_person: bool,
}

/// Reads the graph of a flow, and marks the place of `state`.
pub fn read_graph(flow: &Flow, state: Option<&FlowState>) -> FlowGraph {
    let place: BTreeMap<&str, usize> =
        flow.phase.iter().enumerate().map(|(at, phase)| (phase.name.as_str(), at)).collect();
    let (person, done) = (flow.phase.len(), flow.phase.len() + 1);
    let mut nodes: Vec<GraphNode> = flow.phase.iter().map(|phase| phase_node(phase, state)).collect();
    nodes.push(node(GraphNodeKind::Person, "person"));
    nodes.push(node(GraphNodeKind::Done, "done"));
    for at in state.map_or_else(Vec::new, |state| current_nodes(&place, state, person, done)) {
        nodes[at].current = true;
    }
    let leads_here = |name: &str| -> Vec<usize> {
        let leads = |phase: &Phase| phase.on.iter().any(|on| on.to == name);
        (0..flow.phase.len()).filter(|at| leads(&flow.phase[*at])).collect()
    };
    let targets = |target: TransitionTarget<'_>, from: &str| -> Vec<usize> {
        match target {
            TransitionTarget::Phase(name) => place.get(name).copied().into_iter().collect(),
            TransitionTarget::Person => alloc::vec![person],
            TransitionTarget::Done => alloc::vec![done],
            TransitionTarget::Back => leads_here(from),
        }
    };
    let mut edges = Vec::new();
    for (from, phase) in flow.phase.iter().enumerate() {
        for on in &phase.on {
            let to = targets(TransitionTarget::new(&on.to), &phase.name);
            edges.extend(to.into_iter().map(|to| GraphEdge {
                from,
                to,
                needs: on.needs.clone(),
                by_person: false,
            }));
        }
        let asks = phase.on.iter().any(|on| TransitionTarget::new(&on.to) == TransitionTarget::Person);
        let decisions = [
            (format!("{} approved", phase.name), phase.approval_target()),
            (format!("changes to {}", phase.name), TransitionTarget::Phase(phase.changes_phase())),
        ];
        for (words, target) in decisions.into_iter().filter(|_| asks) {
            let to = targets(target, &phase.name);
            edges.extend(to.into_iter().map(|to| GraphEdge {
                from: person,
                to,
                needs: alloc::vec![words.clone()],
                by_person: true,
            }));
        }
    }
    FlowGraph { nodes, edges }
}

fn node(kind: GraphNodeKind, name: &str) -> GraphNode {
    let name = name.to_string();
    GraphNode { kind, name, current: false, round: None, lanes_done_count: None, lanes_count: None }
}

fn phase_node(phase: &Phase, state: Option<&FlowState>) -> GraphNode {
    let kind = if phase.optional { GraphNodeKind::OptionalPhase } else { GraphNodeKind::Phase };
    let node = node(kind, &phase.name);
    let Some(state) = state.filter(|state| state.phase == phase.name && !state.has_ended()) else {
        return node;
    };
    let lanes = Some(state.lanes.len()).filter(|lanes| *lanes > 1);
    let done = state.lanes.iter().filter(|state| matches!(state.stage, LaneStage::Done { .. })).count();
    GraphNode {
        round: Some(state.round()),
        lanes_done_count: lanes.map(|_| done),
        lanes_count: lanes,
        ..node
    }
}

fn current_nodes(place: &BTreeMap<&str, usize>, state: &FlowState, person: usize, done: usize) -> Vec<usize> {
    let phase = place.get(state.phase.as_str()).copied();
    match &state.at {
        FlowStatus::New | FlowStatus::Rejected => Vec::new(),
        FlowStatus::Done => alloc::vec![done],
        FlowStatus::Waiting { .. } => phase.into_iter().chain([person]).collect(),
        FlowStatus::Entering | FlowStatus::Running => phase.into_iter().collect(),
    }
}

/// Draws the graph as a Mermaid chart.
pub fn draw_graph(graph: &FlowGraph) -> String {
    let mut lines = alloc::vec!["flowchart TD".to_string()];
    let word = |at: usize| match graph.nodes[at].kind {
        GraphNodeKind::Person => "person".to_string(),
        GraphNodeKind::Done => "done".to_string(),
        GraphNodeKind::Phase | GraphNodeKind::OptionalPhase => format!("p{at}"),
    };
    for (at, node) in graph.nodes.iter().enumerate() {
        let (open, close) = match node.kind {
            GraphNodeKind::Phase => ("[\"", "\"]"),
            GraphNodeKind::OptionalPhase | GraphNodeKind::Done => ("([\"", "\"])"),
            GraphNodeKind::Person => ("{{\"", "\"}}"),
        };
        lines.push(format!("    {}{open}{}{close}", word(at), label(node)));
    }
    for edge in &graph.edges {
        let (from, to) = (word(edge.from), word(edge.to));
        let needs = escape_quotes(&edge.needs.join("<br/>"));
        lines.push(match edge.by_person {
            true => format!("    {from} -. \"{needs}\" .-> {to}"),
            false => format!("    {from} -->|\"{needs}\"| {to}"),
        });
    }
    let current = graph.nodes.iter().enumerate().filter(|(_, node)| node.current);
    let current: Vec<String> = current.map(|(at, _)| word(at)).collect();
    if !current.is_empty() {
        lines
            .push("    classDef current fill:#ffe08a,stroke:#b8860b,stroke-width:3px,color:#000".to_string());
        lines.push(format!("    class {} current", current.join(",")));
    }
    lines.join("\n") + "\n"
}

fn label(node: &GraphNode) -> String {
    let mut label = escape_quotes(&node.name);
    if let Some(round) = node.round {
        label.push_str(&format!("<br/>round {round}"));
    }
    if let (Some(done), Some(lanes)) = (node.lanes_done_count, node.lanes_count) {
        label.push_str(&format!("<br/>{done} of {lanes} lanes"));
    }
    label
}

fn escape_quotes(text: &str) -> String {
    text.replace('"', "#quot;")
}
