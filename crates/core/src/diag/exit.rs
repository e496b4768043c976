//! The exit codes of the program, each with its meaning.
//!
//! The command line and the reference in the documentation take them from here. [`Code`] says which of them a
//! diagnostic ends a command with.

use super::Code;

macro_rules! exit_codes {
    ($($name:ident $number:literal $meaning:literal,)*) => {
        $(#[doc = $meaning] pub const $name: u8 = $number;)*

        /// Every exit code and its meaning, in the order of the numbers.
        pub const EXIT_CODES: &[(u8, &str)] = &[$(($name, $meaning),)*];
    };
}

exit_codes! {
    DONE 0 "done",
    FINDING 1 "a negative result: `check` or `fuzz` found errors, `templates diff` a difference, `templates where` no file, `read` no good verdict or status, `doctor` something missing, `prefs` nothing to add or remove, `verify` a prompt that differs, `run` a failed check or a reply that is not good; a flow has not ended; or a contract refused a submission",
    USAGE 2 "usage: the command line or the request is invalid",
    SOURCE 3 "a template, recipe, include or configuration is invalid",
    MISSING 4 "a file, directory, program, ledger or run does not exist",
    SCOPE 5 "the agent changed files outside its scope, or left files that cannot be read",
    AGENT 6 "the agent could not be started, failed, or reported that it failed",
    LIMIT 7 "the time limit or the cost limit ended the agent or a check, or the cost limit of the day refuses a run",
    LEDGER 8 "the ledger is locked, damaged, or cannot be read or written",
    REFUSED 9 "refused: a secret was found, or a person must decide",
    TRUST 10 "a cloned repository or a foreign ledger needs a person's trust",
    ENGINE 11 "`verify`: a prompt was made by another version of the engine",
    SECRET 12 "`verify`: a value that is marked as secret is needed",
    INTERNAL 70 "an error of callsheet itself, or the output could not be written",
    INTERRUPTED 130 "a person interrupted the command, or stopped the run",
}

// A diagnostic ends a command with a code of the table, and the table is in order.
const _: () = {
    let mut at = 0;
    while at < Code::ALL.len() {
        assert!(is_known(Code::ALL[at].exit_code()), "a diagnostic has an exit code without a meaning");
        at += 1;
    }
    at = 1;
    while at < EXIT_CODES.len() {
        assert!(EXIT_CODES[at - 1].0 < EXIT_CODES[at].0, "the exit codes are not in order");
        at += 1;
    }
};

const fn is_known(code: u8) -> bool {
    let mut at = 0;
    while at < EXIT_CODES.len() {
        if EXIT_CODES[at].0 == code {
            return true;
        }
        at += 1;
    }
    false
}
