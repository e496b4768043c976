#![doc = include_str!("../README.md")]

mod connection;
mod encoded_body;
mod exchange;
mod probe;
mod protocol;
mod received_body;
mod refusal;
mod schema_value;
mod server;
mod side_answer;

pub use exchange::{AnswerOutcome, RequestHandler, WireAnswer, WireRequest};
pub use probe::{Probe, ProbeCounts, ProbeLimits, ReceivedRequest};
pub use protocol::{ConversationItem, ModelTurn, OfferedTool, Protocol};
pub use refusal::{RefusalReason, RefusedRequest};
pub use server::{ModelServer, ServerAddress, ServerLimits};
pub use side_answer::side_answer;
