//! Draws the graph of a flow: phases in a row, steps back as arcs below them, the person at the bottom.

use askama::Template;
use callsheet_core::flow::{FlowGraph, GraphEdge, GraphNodeKind};

/// Width and height of a node, the distance of two, and the margins.
const WIDTH: i32 = 124;
const HEIGHT: i32 = 48;
const GAP: i32 = 64;
const MARGIN: i32 = 24;

/// The picture of a graph.
#[derive(Debug, Template)]
#[template(path = "graph.svg", escape = "html")]
pub(crate) struct GraphPicture {
    width: i32,
    height: i32,
    nodes: Vec<DrawnNode>,
    edges: Vec<DrawnEdge>,
}

#[derive(Debug)]
struct DrawnNode {
    class: &'static str,
    current: bool,
    x: i32,
    y: i32,
    name: String,
    detail: String,
}

#[derive(Debug)]
struct DrawnEdge {
    by_person: bool,
    path: String,
    label: String,
    title: String,
    x: i32,
    y: i32,
}

impl DrawnNode {
    const fn middle(&self) -> i32 {
        self.x + WIDTH / 2
    }

    const fn half(&self) -> i32 {
        self.y + HEIGHT / 2
    }
}

impl GraphPicture {
    pub(crate) fn new(graph: &FlowGraph) -> Self {
        let phases = graph.nodes.iter().filter(|node| is_phase(node.kind)).count();
        let columns = i32::try_from(phases).unwrap_or(i32::MAX / 1000);
        // A loop of a phase to itself stands above the row; an arc grows with the number of phases that it passes.
        let row = MARGIN + 44;
        let arcs = row + HEIGHT + 36 + 18 * columns;
        let column = |at: i32| MARGIN + at * (WIDTH + GAP);
        let mut next = 0;
        let mut nodes = Vec::new();
        for node in &graph.nodes {
            let (class, x, y) = match node.kind {
                GraphNodeKind::Person => ("person", column(columns) / 2 - WIDTH / 2, arcs),
                GraphNodeKind::Done => ("done", column(columns), row),
                GraphNodeKind::OptionalPhase => ("phase optional", column(next), row),
                _ => ("phase", column(next), row),
            };
            next += i32::from(is_phase(node.kind));
            let lanes = match (node.lanes_done_count, node.lanes_count) {
                (Some(done), Some(lanes)) => format!(", {done} of {lanes} lanes"),
                _ => String::new(),
            };
            let detail = node.round.map(|round| format!("round {round}{lanes}")).unwrap_or_default();
            nodes.push(DrawnNode { class, current: node.current, x, y, name: node.name.clone(), detail });
        }
        let edges = graph.edges.iter().map(|edge| draw_edge(edge, &nodes, graph)).collect();
        Self { width: column(columns) + WIDTH + MARGIN, height: arcs + HEIGHT + MARGIN, nodes, edges }
    }
}

const fn is_phase(kind: GraphNodeKind) -> bool {
    matches!(kind, GraphNodeKind::Phase | GraphNodeKind::OptionalPhase)
}

fn draw_edge(edge: &GraphEdge, nodes: &[DrawnNode], graph: &FlowGraph) -> DrawnEdge {
    let (from, to) = (&nodes[edge.from], &nodes[edge.to]);
    let person = |at: usize| graph.nodes[at].kind == GraphNodeKind::Person;
    let steps = (to.x - from.x) / (WIDTH + GAP);
    let (path, x, y) = if edge.from == edge.to {
        let (left, right, top) = (from.middle() - 18, from.middle() + 18, from.y);
        (format!("M{left} {top} C{left} {0} {right} {0} {right} {top}", top - 40), from.middle(), top - 34)
    } else if person(edge.to) || person(edge.from) {
        // Lines to the person leave on the left, those from the person arrive on the right.
        let side = if person(edge.to) { -22 } else { 22 };
        let phase = if person(edge.to) { from } else { to };
        let (top, bottom) = (phase.y + HEIGHT, if person(edge.to) { to.y } else { from.y });
        let hub = if person(edge.to) { to } else { from };
        let (x, toward) = (phase.middle() + side, hub.middle() + side);
        let bend = bottom - 28;
        let path = match person(edge.to) {
            true => format!("M{x} {top} C{x} {bend} {toward} {top} {toward} {bottom}"),
            false => format!("M{toward} {bottom} C{toward} {top} {x} {bend} {x} {top}"),
        };
        (path, x, top + 16)
    } else if steps == 1 {
        let (x1, x2, y) = (from.x + WIDTH, to.x, from.half());
        (format!("M{x1} {y} L{x2} {y}"), (x1 + x2) / 2, y - 8)
    } else {
        // A step back passes below the row, a step over other phases above it.
        let down = steps < 0;
        let (edge_y, sign) = if down { (from.y + HEIGHT, 1) } else { (from.y, -1) };
        let depth = edge_y + sign * (14 + 16 * steps.abs().min(4));
        let (x1, x2) = (from.middle() - 8 * steps.signum(), to.middle() + 8 * steps.signum());
        (format!("M{x1} {edge_y} C{x1} {depth} {x2} {depth} {x2} {edge_y}"), (x1 + x2) / 2, depth - sign * 4)
    };
    let title = format!("{} → {}: {}", from.name, to.name, edge.needs.join(", "));
    DrawnEdge { by_person: edge.by_person, path, label: short_label(edge), title, x, y }
}

/// Returns the first need, which is the one that tells transitions apart.
fn short_label(edge: &GraphEdge) -> String {
    let Some(first) = edge.needs.first() else { return String::new() };
    if edge.by_person {
        return first.rsplit(' ').next().filter(|word| *word == "approved").unwrap_or("changes").to_owned();
    }
    let word = first.split_once('.').map_or(first.as_str(), |(_, word)| word);
    let short: String = word.chars().take(18).collect();
    if short.len() < word.len() { format!("{short}…") } else { short }
}
