//! Test support: real agent CLIs that use a scripted language model, on a network with only loopback.
//!
//! ```no_run
//! use callsheet_testing::{Cli, Launch, Room, Script, Step, on_loopback};
//!
//! # fn main() {
//! // In a `#[test]`. The body runs in a network namespace of its own, after the CLI was installed outside of it.
//! on_loopback(&[Cli::Claude], || {
//!     let script = Script::new().on("Say yes.", [Step::text("yes")]);
//!     let room = Room::new(script).unwrap();
//!     let ran = room.run(Cli::Claude, &Launch::new("Say yes.")).unwrap();
//!     assert_eq!((ran.code, ran.out()), (Some(0), "yes\n".to_owned()));
//! });
//! # }
//! ```
//!
//! * [`Script`] is data: the answers, calls and errors that follow each user text. [`Mock`] serves it in
//!   every protocol that the CLIs use, and keeps every request. The server and the protocols are those of `callsheet-wire`.
//! * [`Cli`] knows how each CLI is installed, configured and started; [`Cli::program`] installs it once per
//!   machine, and [`Cli::program_of`] another one of its [`Cli::versions`].
//! * [`Room`] is a home, a project and a mock. [`Room::run`] starts a CLI in it, and [`Room::run_at`] with another model than the mock;
//!   [`Room::env`] is for tests in which another program starts the CLI, or in which it is not headless.
//! * [`TestProject`] is a project and a home for callsheet itself; [`CommandOutput`] is the result of a command.
//! * [`check_mcp_session`] checks the answers of callsheet's MCP server; the commands of a [`TestProject`] and the CLIs
//!   of a [`Room`] are checked without a call.
//! * [`on_loopback`] runs a test in a network that nothing can leave.
//! * [`as_user`] runs a test as a user who may not read every file.
//! * [`mdbook`] is the program that makes a site of the documentation.
//! * [`browser_script`] drives a real browser.
//! * [`Postgres`] is a database server for one test.
//!
//! A test reports a missing feature of the machine in a line that begins with `NOT TESTED` (see
//! [`not_tested`]); a program that `./test` should have installed is a failure (see
//! [`report_missing`]).

mod browser;
mod cli;
mod documents;
mod fault;
mod install;
mod lacking;
mod loopback;
mod mask;
mod mcp_session;
mod naughty;
mod output;
mod postgres;
mod process;
mod project;
mod rerun;
mod room;
mod script;
mod server;
mod user;

pub use browser::browser_script;
pub use cli::{Cli, Launch, McpServer, Permit, Via};
pub use fault::{error_body, refused_key, used_quota};
pub use install::{mdbook, npm_package};
pub use lacking::{not_tested, report_missing};
pub use loopback::{is_isolated, on_loopback};
pub use mask::mask_page;
pub use mcp_session::{McpAnswer, check_mcp_session, check_recorded_sessions};
pub use naughty::naughty_strings;
pub use output::CommandOutput;
pub use postgres::{Paused, Postgres};
pub use process::{Ran, run_command, run_for_bytes, run_with_input, wait_for_end, wait_until};
pub use project::{TestProject, callsheet_program, git};
pub use room::Room;
pub use script::{Call, Failure, Script, Step, Turn};
pub use server::{Mock, Request};
pub use user::as_user;
