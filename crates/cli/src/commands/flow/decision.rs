//! The decisions of `callsheet flow decide`.

use callsheet::flow::steps::FlowChoice;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DecisionArg {
    Approve,
    Reject,
    Changes,
    Answer,
}

impl DecisionArg {
    pub(crate) fn to_choice(self, text: Option<&str>) -> FlowChoice {
        let text = text.unwrap_or_default().to_owned();
        match self {
            Self::Approve => FlowChoice::Approve,
            Self::Reject => FlowChoice::Reject,
            Self::Changes => FlowChoice::Changes(text),
            Self::Answer => FlowChoice::Answer(text),
        }
    }
}
