//! A server on loopback that speaks the APIs of language models, and has no model.
//!
//! * [`Probe`] ends every turn at once, and keeps the requests of an agent CLI as [`ReceivedRequest`]s.
//! * [`ModelServer`] gives each [`WireRequest`] to a [`RequestHandler`], whose [`WireAnswer`] can also be an error, a delay or a dropped
//!   connection. The scripted model of the tests is one.
//! * [`Protocol`] reads the conversation and the tools of a request, and writes a [`ModelTurn`] as an answer.
//!
//! Everything has a limit, and a request above one is a [`RefusedRequest`]. Callers need no async runtime; the server has a thread of
//! its own, which ends when the server is dropped.

mod answer_form;
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

#[cfg(doctest)]
mod pages {
    #![doc = include_str!("../README.md")]
}
