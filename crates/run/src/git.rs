//! Git, by its program: always with the same flags, so that nothing that a repository says is executed.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::{Deserialize, Serialize};

use crate::read::read_file;

/// What git said instead of doing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitError {
    pub what: String,
    pub why: String,
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "git {}: {}", self.what, self.why)
    }
}

impl std::error::Error for GitError {}

/// A worktree, with the directory that all worktrees of its repository share, as a real path.
#[derive(Clone, Debug)]
pub struct CommonDir {
    pub git: Git,
    pub common: PathBuf,
    /// The directory is the worktree's own, or names the worktree.
    pub leads_back: bool,
}

/// The longest path that is read from a file.
const MOST_PATH: u64 = 8192;

/// A worktree of a repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Git {
    dir: PathBuf,
    /// Filters that must not be run, by name.
    muted: Vec<String>,
    /// Another index than the worktree's own.
    #[serde(skip)]
    index: Option<PathBuf>,
}

impl Git {
    /// The worktree that `dir` is the top of, or lies in; `None` where there is none.
    pub fn at(dir: &Path) -> Result<Option<Self>, GitError> {
        let git = Self { dir: dir.to_owned(), muted: Vec::new(), index: None };
        let top = git.run(&["rev-parse", "--show-toplevel"], "")?;
        if !top.status.success() {
            return Ok(None);
        }
        let top = text(&top.stdout);
        Ok(Some(Self { dir: PathBuf::from(top.trim_end_matches('\n')), ..git }))
    }

    /// The same with the directory that all worktrees of the repository share, and whether that directory names this
    /// worktree too: a `.git` file can lead to any repository.
    pub fn with_common(dir: &Path) -> Result<Option<CommonDir>, GitError> {
        let git = Self { dir: dir.to_owned(), muted: Vec::new(), index: None };
        let args = [
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--git-common-dir",
            "--absolute-git-dir",
        ];
        let said = git.run(&args, "")?;
        let lines = text(&said.stdout);
        // A name that holds a line break cannot be told from two names.
        let [top, common, own] = lines.lines().collect::<Vec<_>>()[..] else { return Ok(None) };
        let real = |path: &str| Path::new(path).canonicalize().ok().filter(|_| said.status.success());
        let (Some(top), Some(common), Some(own)) = (real(top), real(common), real(own)) else {
            return Ok(None);
        };
        let link = top.join(".git");
        let is_own = link.symlink_metadata().is_ok_and(|found| found.is_dir()) && link == common;
        let is_listed = own.parent() == Some(common.join("worktrees").as_path())
            && read_file(&own.join("gitdir"), MOST_PATH).is_ok_and(|text| {
                let text = text.as_deref().unwrap_or_default();
                Path::new(text.trim_end_matches('\n')).canonicalize().is_ok_and(|back| back == link)
            });
        Ok(Some(CommonDir { git: Self { dir: top, ..git }, common, leads_back: is_own || is_listed }))
    }

    /// Where `origin` is fetched from, as the repository's settings say.
    pub fn origin(&self) -> Option<String> {
        let said = self.run(&["config", "--get", "remote.origin.url"], "").ok()?;
        said.status.success().then(|| text(&said.stdout).trim_end_matches('\n').to_owned())
    }

    /// Whether the file at `path`, relative to the top, is in the index or in the commit that is checked out.
    pub fn tracks(&self, path: &Path) -> Result<bool, GitError> {
        let path = path.to_string_lossy();
        let in_index = self.done(&["ls-files", "-z", "--", &path], "")?;
        if !in_index.is_empty() {
            return Ok(true);
        }
        let in_head = self.run(&["ls-tree", "-z", "--full-tree", "HEAD", "--", &path], "")?;
        Ok(in_head.status.success() && !in_head.stdout.is_empty())
    }

    pub fn top(&self) -> &Path {
        &self.dir
    }

    /// The commit that is checked out; `None` before the first one.
    pub fn head(&self) -> Result<Option<String>, GitError> {
        let head = self.run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], "")?;
        Ok(head.status.success().then(|| text(&head.stdout).trim().to_owned()))
    }

    /// Whether `commit` is part of what is checked out here.
    pub fn holds(&self, commit: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", "--end-of-options", commit, "HEAD"];
        commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.run(&args, "").is_ok_and(|output| output.status.success())
    }

    /// The folders that hold the repository: what all worktrees share, and what is this one's own.
    pub(crate) fn folders(&self) -> Result<BTreeSet<PathBuf>, GitError> {
        let args = ["rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir"];
        Ok(text(&self.done(&args, "")?).lines().map(PathBuf::from).collect())
    }

    /// Every setting that is in force, as `key\nvalue`.
    pub(crate) fn settings(&self) -> Result<BTreeSet<String>, GitError> {
        let listed = self.done(&["config", "--list", "-z"], "")?;
        Ok(text(&listed).split('\0').filter(|setting| !setting.is_empty()).map(str::to_owned).collect())
    }

    /// The same, without running filters that `settings` did not have.
    pub(crate) fn without_new_filters(mut self, settings: &BTreeSet<String>) -> Result<Self, GitError> {
        let now = self.settings()?;
        let names = now.difference(settings).filter_map(|setting| {
            let key = setting.split('\n').next()?;
            let (name, _) = key.strip_prefix("filter.")?.rsplit_once('.')?;
            Some(name.to_owned())
        });
        self.muted = names.collect::<BTreeSet<_>>().into_iter().collect();
        Ok(self)
    }

    /// Standard output of a command that has to succeed.
    pub(crate) fn done(&self, args: &[&str], input: &str) -> Result<Vec<u8>, GitError> {
        Self::good(args, self.run(args, input)?)
    }

    /// The same with an index of our own, and in our own name.
    pub(crate) fn done_as_us(&self, args: &[&str], index: Option<&Path>) -> Result<Vec<u8>, GitError> {
        let mut git = self.clone();
        git.index = index.map(Path::to_owned);
        git.done(args, "")
    }

    fn good(args: &[&str], output: Output) -> Result<Vec<u8>, GitError> {
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = text(&output.stderr);
        let why = said.lines().last().unwrap_or("it failed without a word").to_owned();
        Err(GitError { what: args.first().copied().unwrap_or_default().to_owned(), why })
    }

    fn run(&self, args: &[&str], input: &str) -> Result<Output, GitError> {
        let failed = |error: std::io::Error| GitError {
            what: args.first().copied().unwrap_or_default().to_owned(),
            why: error.to_string(),
        };
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.dir).args(["--no-optional-locks", "--no-pager"]);
        // With an index of our own, paths are ours too.
        command.args(self.index.is_none().then_some("--literal-pathspecs"));
        for setting in HARDENED {
            command.args(["-c", setting]);
        }
        for name in &self.muted {
            for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                command.arg("-c").arg(format!("filter.{name}.{key}={value}"));
            }
        }
        command.args(args).env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        // What points elsewhere is not for the worktree that was named.
        for name in [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_COMMON_DIR",
            "GIT_EXTERNAL_DIFF",
        ] {
            command.env_remove(name);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        // Only what nobody looks at is ever committed here.
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "callsheet")
                .env(format!("GIT_{who}_EMAIL"), "callsheet@localhost");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.as_bytes().to_vec();
            // A git that does not read all of it says why itself.
            std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
        }
        child.wait_with_output().map_err(failed)
    }
}

/// A repository's hooks, monitors, pagers and helpers are programs of whoever wrote its settings.
const HARDENED: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.quotePath=false",
    "protocol.ext.allow=never",
    "credential.helper=",
    "core.sshCommand=false",
];

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
