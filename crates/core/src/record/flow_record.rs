//! The record of a flow's event.

use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use super::{Decided, DecidedBy, Event, RecordError};
use crate::flow::FlowEvent;

/// Record of an event in the life of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRecord {
    /// Author of the event.
    pub by: DecidedBy,
    /// Phase in which it happened; empty before the first.
    pub phase: String,
    /// The event.
    pub event: FlowEvent,
}

impl Event {
    /// Returns the event of a flow. Older versions recorded it as the detail of a decision.
    pub fn into_flow_record(self) -> Result<Option<FlowRecord>, RecordError> {
        match self {
            Self::FlowRecord(record) => Ok(Some(record)),
            Self::Decided(Decided { by, what, detail, .. }) if !detail.is_null() => {
                let event = serde_json::from_value(detail)
                    .map_err(|error| RecordError::FlowEvent(error.to_string()))?;
                let phase = if what == "flow" { String::new() } else { what };
                Ok(Some(FlowRecord { by, phase, event }))
            }
            _ => Ok(None),
        }
    }
}
