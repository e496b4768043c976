//! The pages: each reads its data from the library and renders a template.

pub(crate) mod assets;
pub(crate) mod attempts;
pub(crate) mod change_pane;
pub(crate) mod context_pane;
pub(crate) mod costs;
pub(crate) mod flow;
pub(crate) mod inbox;
pub(crate) mod layout;
pub(crate) mod log_pane;
pub(crate) mod prompt_pane;
pub(crate) mod reply_pane;
pub(crate) mod run;
pub(crate) mod run_item;
pub(crate) mod templates;
pub(crate) mod timeline_pane;
pub(crate) mod words;
