//! Pictures: the graph of a flow and bars.

pub(crate) mod graph;
pub(crate) mod plot;
