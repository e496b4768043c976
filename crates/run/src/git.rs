//! Git, by its program, and the one place that starts it: nothing that a repository says is executed.
//!
//! What looks at files (filters, drivers) runs with a stand-in for the repository's folder, which has its objects and
//! no settings of its own. From the repository it gets [plain settings](OF_REPOSITORY), from the user's own configuration
//! those that name [filters](is_of_user) besides, as they were when this process first looked. What asks the repository
//! itself ([`IN_REPOSITORY`]) reads its settings and executes nothing, because everything that could is set by us.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::environment::program;
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
    top: PathBuf,
    /// The repository's folder for this worktree.
    own: PathBuf,
    /// The repository's folder that all its worktrees share.
    common: PathBuf,
    /// The settings that count for files, in the order in which they count.
    settings: Vec<(String, String)>,
    object_format: Option<String>,
    /// Another index than the worktree's own.
    #[serde(skip)]
    index: Option<PathBuf>,
}

/// A setting, and whether the user's own files have it (or the repository's).
struct Configured {
    of_user: bool,
    key: String,
    value: String,
}

impl Git {
    /// The worktree that `dir` is the top of, or lies in; `None` if there is none.
    pub fn at(dir: &Path) -> Result<Option<Self>, GitError> {
        let mut git = Self {
            top: dir.to_owned(),
            own: PathBuf::new(),
            common: PathBuf::new(),
            settings: Vec::new(),
            object_format: None,
            index: None,
        };
        let mut found = Vec::new();
        // One by one, because a path can contain a line end.
        for what in ["--show-toplevel", "--git-dir", "--git-common-dir"] {
            let output = git.run(&["rev-parse", "--path-format=absolute", what], "")?;
            if !output.status.success() {
                return Ok(None);
            }
            let path = text(&output.stdout);
            found.push(PathBuf::from(path.strip_suffix('\n').unwrap_or(&path)));
        }
        let [top, own, common] = <[PathBuf; 3]>::try_from(found).unwrap_or_default();
        // A setting can name any folder as the worktree.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !real(dir).starts_with(real(&top)) || top.join(".git").symlink_metadata().is_err() {
            let why = format!("the repository's settings name another worktree, `{}`", top.display());
            return Err(GitError { what: "rev-parse".into(), why });
        }
        git = Self { top, own, common, ..git };
        git.configure()?;
        Ok(Some(git))
    }

    /// The same with the directory that all worktrees of the repository share, and whether that directory names this
    /// worktree too: a `.git` file can lead to any repository.
    pub fn with_common(dir: &Path) -> Result<Option<CommonDir>, GitError> {
        let Some(git) = Self::at(dir)? else { return Ok(None) };
        let real = |path: &Path| path.canonicalize().ok();
        let (Some(top), Some(common), Some(own)) = (real(&git.top), real(&git.common), real(&git.own)) else {
            return Ok(None);
        };
        let link = top.join(".git");
        let is_own = link.symlink_metadata().is_ok_and(|found| found.is_dir()) && link == common;
        let is_listed = own.parent() == Some(common.join("worktrees").as_path())
            && read_file(&own.join("gitdir"), MOST_PATH).is_ok_and(|text| {
                let text = text.as_deref().unwrap_or_default();
                Path::new(text.trim_end_matches('\n')).canonicalize().is_ok_and(|back| back == link)
            });
        Ok(Some(CommonDir { git: Self { top, ..git }, common, leads_back: is_own || is_listed }))
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
        let Some(head) = self.head()? else { return Ok(false) };
        Ok(!self.done(&["ls-tree", "-z", "--full-tree", &head, "--", &path], "")?.is_empty())
    }

    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Whether both are worktrees of one repository.
    pub(crate) fn is_of_same_repository(&self, other: &Self) -> bool {
        self.common == other.common
    }

    /// The commit that is checked out; `None` before the first one.
    pub fn head(&self) -> Result<Option<String>, GitError> {
        let args = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let head = self.run(&args, "")?;
        match head.status.code() {
            Some(1) => Ok(None),
            _ => Ok(Some(text(&Self::good(&args, head)?).trim().to_owned())),
        }
    }

    /// Whether `commit` is part of what is checked out here.
    pub fn holds(&self, commit: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", "--end-of-options", commit, "HEAD"];
        commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.run(&args, "").is_ok_and(|output| output.status.success())
    }

    /// The folders that hold the repository: what all worktrees share, and what is this one's own.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        [self.common.clone(), self.own.clone()].into()
    }

    /// The index of this worktree.
    pub(crate) fn index(&self) -> PathBuf {
        self.own.join("index")
    }

    /// The same with another index.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self.clone() }
    }

    /// Every setting of the user's files and of the repository's.
    fn configured(&self) -> Result<Vec<Configured>, GitError> {
        let listed = text(&self.done(&["config", "--list", "--show-scope", "-z"], "")?);
        let mut fields = listed.split('\0');
        let mut all = Vec::new();
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let of_user = matches!(scope, "system" | "global");
            if of_user || matches!(scope, "local" | "worktree") {
                // A key alone means true.
                let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
                all.push(Configured { of_user, key: key.to_owned(), value: value.to_owned() });
            }
        }
        Ok(all)
    }

    /// Reads which settings count. The user's are those of the first look: what an agent writes into the files of its
    /// user while it works names no program for us.
    fn configure(&mut self) -> Result<(), GitError> {
        static KNOWN: Mutex<BTreeMap<PathBuf, Vec<(String, String)>>> = Mutex::new(BTreeMap::new());
        let configured = self.configured()?;
        let pick = |of_user: bool, counts: fn(&str) -> bool| {
            let picked = configured.iter().filter(|it| it.of_user == of_user && counts(&it.key));
            picked.map(|it| (it.key.clone(), it.value.clone())).collect::<Vec<_>>()
        };
        let mut known =
            KNOWN.lock().map_err(|error| GitError { what: "config".into(), why: error.to_string() })?;
        let of_user = known.entry(self.common.clone()).or_insert_with(|| pick(true, is_of_user));
        self.settings.clone_from(of_user);
        self.settings.extend(pick(false, |key| OF_REPOSITORY.contains(&key)));
        let format = configured.iter().rfind(|it| !it.of_user && it.key == "extensions.objectformat");
        self.object_format = format.map(|it| it.value.clone());
        Ok(())
    }

    /// Standard output of a command that has to succeed.
    pub(crate) fn done(&self, args: &[&str], input: &str) -> Result<Vec<u8>, GitError> {
        Self::good(args, self.run(args, input)?)
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
        let what = args.first().copied().unwrap_or_default();
        let failed = |error: io::Error| GitError { what: what.to_owned(), why: error.to_string() };
        let mut command = program("git");
        for (name, _) in std::env::vars_os() {
            // What points elsewhere, names programs or files is not for the worktree that was named.
            if name.as_encoded_bytes().starts_with(b"GIT_") || name == "SSH_ASKPASS" {
                command.env_remove(name);
            }
        }
        command.arg("-C").arg(&self.top).args(["--no-optional-locks", "--no-pager", "--literal-pathspecs"]);
        for setting in HARDENED {
            command.args(["-c", setting]);
        }
        let in_repository = IN_REPOSITORY.contains(&what);
        if !self.own.as_os_str().is_empty() {
            command.env("GIT_WORK_TREE", &self.top);
            if in_repository {
                command.env("GIT_DIR", &self.own);
            }
        }
        if what == "worktree" {
            for name in self.configured_hooks()? {
                command.arg("-c").arg(format!("hook.{name}.enabled=false"));
                command.arg("-c").arg(format!("hook.{name}.command=true"));
            }
        }
        let stand_in = if in_repository { None } else { Some(self.stand_in().map_err(failed)?) };
        if let Some(stand_in) = &stand_in {
            command.env("GIT_DIR", stand_in.path());
            command.env("GIT_OBJECT_DIRECTORY", self.common.join("objects"));
            command.env("GIT_INDEX_FILE", self.index.clone().unwrap_or_else(|| self.index()));
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
            for (number, (key, value)) in self.settings.iter().enumerate() {
                command.env(format!("GIT_CONFIG_KEY_{number}"), key);
                command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
            }
        }
        command.args(args).env("LC_ALL", "C").envs(SURROUNDINGS);
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
            std::thread::spawn(move || io::Write::write_all(&mut stdin, &input));
        }
        child.wait_with_output().map_err(failed)
    }

    /// Hooks that are settings instead of files: their names are the repository's choice.
    fn configured_hooks(&self) -> Result<BTreeSet<String>, GitError> {
        let name_of = |it: Configured| Some(it.key.strip_prefix("hook.")?.rsplit_once('.')?.0.to_owned());
        Ok(self.configured()?.into_iter().filter(|it| !it.of_user).filter_map(name_of).collect())
    }

    /// A folder that is a repository for git, with the objects of the real one, what is ignored there, and none of its
    /// settings, hooks and references.
    fn stand_in(&self) -> io::Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("callsheet-git-").tempdir()?;
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("refs"))?;
        fs::write(at("HEAD"), "ref: refs/heads/callsheet\n")?;
        let format = match self.object_format.as_deref() {
            Some("sha256") => "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n",
            _ => "\trepositoryformatversion = 0\n",
        };
        fs::write(at("config"), format!("[core]\n\tbare = false\n{format}"))?;
        // What git itself ignores there, and what a filter of the user's keeps there (Git LFS).
        for shared in ["info", "lfs"] {
            if self.common.join(shared).is_dir() {
                symlink(self.common.join(shared), at(shared))?;
            }
        }
        // An index can be in two parts.
        for entry in fs::read_dir(&self.own).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("sharedindex.") {
                symlink(entry.path(), folder.path().join(&name))?;
            }
        }
        Ok(folder)
    }
}

/// Commands that ask the repository itself. None of them looks at the contents of files.
const IN_REPOSITORY: [&str; 4] = ["rev-parse", "merge-base", "worktree", "config"];

/// Every setting with a fixed name that makes one of our commands start something.
const HARDENED: [&str; 22] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.pager=cat",
    "core.editor=false",
    "sequence.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.alternateRefsCommand=false",
    "core.quotePath=false",
    "core.useReplaceRefs=false",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "log.showSignature=false",
    "commit.gpgSign=false",
    "gpg.program=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// The only variables of git that it sees, besides those that say where the repository is.
const SURROUNDINGS: [(&str, &str); 6] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // No way to anywhere is allowed.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_ASKPASS", "false"),
    ("GIT_EDITOR", "false"),
];

/// Settings of a repository that say how files are written there. None of them names a program or a file.
const OF_REPOSITORY: [&str; 9] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.protecthfs",
    "core.protectntfs",
    "core.safecrlf",
    "core.symlinks",
];

/// Settings that count if the user's own configuration has them: filters, and which files are ignored or filtered.
fn is_of_user(key: &str) -> bool {
    OF_REPOSITORY.contains(&key)
        || ["core.excludesfile", "core.attributesfile"].contains(&key)
        || ["filter.", "lfs."].iter().any(|section| key.starts_with(section))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
