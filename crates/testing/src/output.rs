//! The output of a command, and its parts as tests compare them.

#![expect(clippy::panic, reason = "an output that cannot be read fails the test")]

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The exit code and output of a command. Two are equal if the command ended alike, however long it took.
#[derive(Clone)]
pub struct CommandOutput {
    /// `None` if a signal ended the command.
    pub code: Option<i32>,
    /// All bytes of its standard output.
    pub stdout: Vec<u8>,
    /// All bytes of its standard error.
    pub stderr: Vec<u8>,
    /// The time until the command had ended and its streams were closed.
    pub took: Duration,
}

impl CommandOutput {
    /// Creates an expected output.
    pub fn new(code: i32, out: impl Into<String>, err: impl Into<String>) -> Self {
        let (stdout, stderr) = (out.into().into_bytes(), err.into().into_bytes());
        Self { code: Some(code), stdout, stderr, took: Duration::ZERO }
    }

    /// Returns its standard output as text.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    pub fn out(&self) -> String {
        self.to_text(&self.stdout)
    }

    /// Returns its standard error as text.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    pub fn err(&self) -> String {
        self.to_text(&self.stderr)
    }

    fn to_text(&self, bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails and shows the output if it is not UTF-8.
    pub(crate) fn expect_text(self) -> Self {
        let _ = (self.out(), self.err());
        self
    }

    /// Fails and shows the output if the exit code is a different one.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Parses its standard output as one JSON value.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the settings that `config show` printed, by their keys.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    pub fn settings(&self) -> Value {
        let json = self.json();
        let items = json["items"].as_array().into_iter().flatten();
        items.map(|item| (item["key"].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
    }

    /// Returns the lines of its standard output that are JSON.
    pub fn lines_json(&self) -> Vec<Value> {
        self.out().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the id of the run in the result.
    ///
    /// # Panics
    ///
    /// If the result has none.
    pub fn run_id(&self) -> String {
        match self.json()["run"].as_str() {
            Some(run) => run.to_owned(),
            None => panic!("no run: {self:?}"),
        }
    }

    /// Returns the error, which is one object on a line of standard error.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn error_json(&self) -> Value {
        let err = self.err();
        let line = err.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no error: {self:?}"))
    }

    /// Returns the exit code and the diagnostic code of the error.
    ///
    /// # Panics
    ///
    /// If there is no error.
    pub fn error(&self) -> (Option<i32>, String) {
        match self.error_json()["code"].as_str() {
            Some(code) => (self.code, code.to_owned()),
            None => panic!("no code: {self:?}"),
        }
    }
}

impl PartialEq for CommandOutput {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.stdout, &self.stderr) == (other.code, &other.stdout, &other.stderr)
    }
}

impl fmt::Debug for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandOutput")
            .field("code", &self.code)
            .field("out", &String::from_utf8_lossy(&self.stdout))
            .field("err", &String::from_utf8_lossy(&self.stderr))
            .finish()
    }
}
