//! Draws the graph of a flow: phases in a row, all other steps on tracks below them, the person at the bottom.

use askama::Template;
use callsheet_core::flow::{FlowGraph, GraphEdge, GraphNodeKind};

/// Width and height of a node, the distance of two, the margin, the height of a loop, and the distance of two tracks.
const WIDTH: i32 = 124;
const HEIGHT: i32 = 48;
const GAP: i32 = 88;
const MARGIN: i32 = 12;
const LOOP: i32 = 40;
const TRACK: i32 = 24;

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
        let column = |at: i32| MARGIN + at * (WIDTH + GAP);
        let has_loop = graph.edges.iter().any(|edge| edge.from == edge.to);
        let row = MARGIN + if has_loop { LOOP } else { 0 };
        let tracks = graph.edges.iter().filter(|edge| needs_track(edge, graph)).count();
        let below = row + HEIGHT + TRACK * (i32::try_from(tracks).unwrap_or(1000) + 1);
        let mut next = 0;
        let mut nodes = Vec::new();
        for node in &graph.nodes {
            let (class, x, y) = match node.kind {
                GraphNodeKind::Person => ("person", (column(columns) + WIDTH) / 2 - WIDTH / 2, below),
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
        let mut track = row + HEIGHT;
        let edges = graph.edges.iter().enumerate().map(|(at, edge)| {
            if needs_track(edge, graph) {
                track += TRACK;
            }
            draw_edge(at, graph, &nodes, track)
        });
        let edges = edges.collect();
        Self { width: column(columns) + WIDTH + MARGIN, height: below + HEIGHT + MARGIN, nodes, edges }
    }
}

const fn is_phase(kind: GraphNodeKind) -> bool {
    matches!(kind, GraphNodeKind::Phase | GraphNodeKind::OptionalPhase)
}

/// Checks whether an edge neither stays at its node nor leads to the next one in the row.
fn needs_track(edge: &GraphEdge, graph: &FlowGraph) -> bool {
    let place = |at: usize| match graph.nodes[at].kind {
        GraphNodeKind::Person => None,
        // The end stands behind the last phase.
        GraphNodeKind::Done => Some(at - 1),
        _ => Some(at),
    };
    match (place(edge.from), place(edge.to)) {
        (Some(from), Some(to)) => from != to && to != from + 1,
        _ => true,
    }
}

/// Returns where an edge touches a node, so that edges of one node do not meet.
fn find_port(at: usize, node: usize, graph: &FlowGraph, nodes: &[DrawnNode]) -> i32 {
    let touches = |edge: &GraphEdge| (edge.from == node || edge.to == node) && needs_track(edge, graph);
    let mut here: Vec<usize> =
        (0..graph.edges.len()).filter(|number| touches(&graph.edges[*number])).collect();
    let other = |number: usize| {
        let edge = &graph.edges[number];
        nodes[if edge.from == node { edge.to } else { edge.from }].x
    };
    here.sort_by_key(|number| (other(*number), *number));
    let place = here.iter().position(|number| *number == at).unwrap_or(0);
    let step = |count: usize| i32::try_from(count).unwrap_or(1);
    nodes[node].x + WIDTH * (step(place) + 1) / (step(here.len()) + 1)
}

fn draw_edge(at: usize, graph: &FlowGraph, nodes: &[DrawnNode], track: i32) -> DrawnEdge {
    let edge = &graph.edges[at];
    let (from, to) = (&nodes[edge.from], &nodes[edge.to]);
    let (path, x, y) = if edge.from == edge.to {
        let (left, right, top) = (from.middle() - 18, from.middle() + 18, from.y);
        (format!("M{left} {top} C{left} {0} {right} {0} {right} {top}", top - 34), from.middle(), top - 30)
    } else if needs_track(edge, graph) {
        // A person stands below the tracks, the others above them.
        let side = |node: &DrawnNode| if node.y > track { node.y } else { node.y + HEIGHT };
        let x1 = find_port(at, edge.from, graph, nodes);
        let x2 = find_port(at, edge.to, graph, nodes);
        (format!("M{x1} {} V{track} H{x2} V{}", side(from), side(to)), (x1 + x2) / 2, track - 4)
    } else {
        let (x1, x2, y) = (from.x + WIDTH, to.x, from.half());
        (format!("M{x1} {y} H{x2}"), (x1 + x2) / 2, y - 8)
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
