//! Runs git, by its program: the only module that starts it. Nothing that a repository configures is
//! executed.
//!
//! Commands that read files (filters, drivers) run with a stand-in for the repository's folder, which has its
//! objects and no settings of its own. The stand-in gets [plain settings](OF_REPOSITORY) from the repository;
//! from the user's own configuration it also gets the settings that name [filters](is_filter_setting), as
//! they were when this process first read them. Commands that query the repository itself ([`IN_REPOSITORY`])
//! read its settings and execute nothing, because we override every setting that could. Files that git would
//! wait for are refused before it starts, and every [call] ends in time.

mod call;
pub(crate) mod content_ids;
mod includes;
mod named_files;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::disk::read::{PathBase, open_file, read_file};
use crate::process::environment::new_command;
pub use call::take_interrupts;
use includes::{find_included, find_irregular_included};
pub(crate) use named_files::{NamedFiles, normalize_path};

/// A git command that failed, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("git {what}: {why}")]
pub struct GitError {
    /// The git command, such as `rev-parse`.
    pub what: String,
    /// The reason, usually git's own message.
    pub why: String,
}

impl GitError {
    pub(crate) fn new(what: &str, why: impl ToString) -> Self {
        Self { what: what.to_owned(), why: why.to_string() }
    }
}

/// A worktree and the real path of the directory that all worktrees of its repository share.
#[derive(Clone, Debug)]
pub struct CommonDir {
    /// The worktree.
    pub git: Git,
    /// The shared directory, as a real path.
    pub common: PathBuf,
    /// Whether the directory is the worktree's own, or names the worktree.
    pub leads_back: bool,
}

/// The longest path that is read from a file.
const MOST_PATH: u64 = 8192;

/// The longest file of rules or attributes that is read.
const MOST_RULES: u64 = 1 << 20;

/// The largest index that is copied.
const MOST_INDEX: u64 = 1 << 30;

/// A worktree of a repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Git {
    top: PathBuf,
    /// The repository's folder for this worktree.
    own: PathBuf,
    /// The repository's folder that all its worktrees share.
    common: PathBuf,
    /// The settings that apply to files, in the order in which git applies them.
    settings: Vec<(String, String)>,
    object_format: Option<String>,
    texts: RepositoryTexts,
    /// The files and remotes that settings name, as they were when the settings were read.
    #[serde(default)]
    named: NamedFiles,
    /// An index to use instead of the worktree's own.
    #[serde(skip)]
    index: Option<PathBuf>,
}

/// The texts of the files that decide which files are ignored or filtered, as they were when they were read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct RepositoryTexts {
    of_user: UserTexts,
    exclude: Option<String>,
    attributes: Option<String>,
    shallow: Option<String>,
}

/// The settings and the texts of the user's own configuration.
type UserConfig = (Vec<(String, String)>, UserTexts);

/// The user's own ignore rules and attributes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct UserTexts {
    exclude: Option<String>,
    attributes: Option<String>,
}

/// A setting, with its file and whether that file is the user's own or the repository's.
struct GitSetting {
    of_user: bool,
    /// The file that contains the setting.
    origin: PathBuf,
    key: String,
    value: String,
}

impl Git {
    /// Returns the worktree whose top is `dir` or that contains `dir`; `None` if there is none.
    pub fn open(dir: &Path) -> Result<Option<Self>, GitError> {
        let mut git = Self {
            top: dir.to_owned(),
            own: PathBuf::new(),
            common: PathBuf::new(),
            settings: Vec::new(),
            object_format: None,
            texts: RepositoryTexts::default(),
            named: NamedFiles::default(),
            index: None,
        };
        refuse_irregular_above(dir)?;
        let mut found = Vec::new();
        // One query per path, because a path can contain a newline.
        for what in ["--show-toplevel", "--git-dir", "--git-common-dir"] {
            let args = ["rev-parse", "--path-format=absolute", what];
            let output = git.run(&args, "")?;
            if NO_WORKTREE.iter().any(|said| lossy_text(&output.stderr).contains(said)) {
                return Ok(None);
            }
            // A repository that git cannot read is an error, not the absence of one.
            let path = lossy_text(&Self::check_status(&args, output)?);
            found.push(PathBuf::from(path.strip_suffix('\n').unwrap_or(&path)));
        }
        let [top, own, common] = <[PathBuf; 3]>::try_from(found).unwrap_or_default();
        // A setting can name any folder as the worktree.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !real(dir).starts_with(real(&top)) || top.join(".git").symlink_metadata().is_err() {
            let why = format!("the repository's settings name another worktree, `{}`", top.display());
            return Err(GitError::new("rev-parse", why));
        }
        git = Self { top, own, common, ..git };
        git.apply_settings()?;
        Ok(Some(git))
    }

    /// Like [`Git::open`], with the directory that all worktrees of the repository share. Also checks whether
    /// that directory names this worktree, because a `.git` file can lead to any repository.
    pub fn open_with_common(dir: &Path) -> Result<Option<CommonDir>, GitError> {
        let Some(git) = Self::open(dir)? else { return Ok(None) };
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

    /// Returns the URL of the remote `origin` from the repository's settings.
    pub fn origin_url(&self) -> Option<String> {
        let said = self.run(&["config", "--get", "remote.origin.url"], "").ok()?;
        said.status.success().then(|| lossy_text(&said.stdout).trim_end_matches('\n').to_owned())
    }

    /// Checks whether the file at `path`, relative to the top, is in the index or in the checked-out commit.
    pub fn is_tracked(&self, path: &Path) -> Result<bool, GitError> {
        let path = path.to_string_lossy();
        let in_index = self.run_checked(&["ls-files", "-z", "--", &path], "")?;
        if !in_index.is_empty() {
            return Ok(true);
        }
        let Some(head) = self.head()? else { return Ok(false) };
        Ok(!self.run_checked(&["ls-tree", "-z", "--full-tree", &head, "--", &path], "")?.is_empty())
    }

    /// Returns the top folder of the worktree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the repository's folder for this worktree.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.own
    }

    /// Returns the repository's folder that all its worktrees share.
    pub(crate) fn common_dir(&self) -> &Path {
        &self.common
    }

    /// Checks whether this is a linked worktree, not the main checkout.
    pub(crate) fn is_linked(&self) -> bool {
        self.own != self.common
    }

    /// Returns the files and remotes that the settings named when they were read.
    pub(crate) fn named_files(&self) -> &NamedFiles {
        &self.named
    }

    /// Returns the configuration files of this worktree and of the user.
    fn config_files(&self) -> impl Iterator<Item = PathBuf> {
        let own = [self.common.join("config"), self.own.join("config.worktree")];
        let own = own.into_iter().filter(|_| !self.own.as_os_str().is_empty());
        own.chain(user_config_files())
    }

    /// Returns the ignore rules that apply everywhere, the more general text first.
    pub(crate) fn ignore_texts(&self) -> impl Iterator<Item = &String> {
        self.texts.of_user.exclude.iter().chain(&self.texts.exclude)
    }

    /// Checks whether names that differ only in case are the same here.
    pub(crate) fn is_case_insensitive(&self) -> bool {
        let said = self.settings.iter().rfind(|(key, _)| key == "core.ignorecase");
        said.is_some_and(|(_, value)| value == "true")
    }

    /// Checks whether the file system reports here which files are executable.
    pub(crate) fn has_file_modes(&self) -> bool {
        let said = self.settings.iter().rfind(|(key, _)| key == "core.filemode");
        said.is_none_or(|(_, value)| value != "false")
    }

    /// Checks whether both are worktrees of one repository.
    pub(crate) fn is_of_same_repository(&self, other: &Self) -> bool {
        self.common == other.common
    }

    /// Returns a repository inside this worktree, by its folder. Git runs in this worktree, because the inner
    /// repository's own files may be gone.
    pub(crate) fn open_nested(&self, own: &Path) -> Self {
        let named = read_rules(&own.join("commondir"));
        let common = named.map_or_else(|| own.to_owned(), |named| own.join(named.trim_end_matches('\n')));
        let texts = RepositoryTexts { shallow: read_rules(&common.join("shallow")), ..self.texts.clone() };
        Self { own: own.to_owned(), common, texts, index: None, ..self.clone() }
    }

    /// Returns the checked-out commit; `None` before the first commit.
    pub fn head(&self) -> Result<Option<String>, GitError> {
        let args = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let head = self.run(&args, "")?;
        match head.status.code() {
            Some(1) => Ok(None),
            _ => Ok(Some(lossy_text(&Self::check_status(&args, head)?).trim().to_owned())),
        }
    }

    /// Returns the differences from `head`, or from the empty tree before the first commit: of the files, or
    /// with `--cached` of the index.
    pub(crate) fn diff_raw(&self, more: &[&str], head: Option<&str>) -> Result<Vec<u8>, GitError> {
        let against = self.tree_of(head)?;
        let flags = ["diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv"];
        // Otherwise git would start itself in submodules, with their settings.
        let rest = ["--ignore-submodules=dirty", "--end-of-options", &against];
        self.run_checked(&[&flags[..], more, &rest].concat(), "")
    }

    /// Returns the commit itself, or the empty tree before the first commit.
    pub(crate) fn tree_of(&self, commit: Option<&str>) -> Result<String, GitError> {
        match commit {
            Some(commit) => Ok(commit.to_owned()),
            None => self.run_for_line(&["hash-object", "-t", "tree", "--stdin"], ""),
        }
    }

    /// Checks whether `commit` is the checked-out commit or an ancestor of it.
    pub fn has_commit(&self, commit: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", "--end-of-options", commit, "HEAD"];
        commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.run(&args, "").is_ok_and(|output| output.status.success())
    }

    /// Returns the path of the index: this worktree's own, or the one that is used instead.
    pub(crate) fn index_path(&self) -> PathBuf {
        self.index.clone().unwrap_or_else(|| self.own.join("index"))
    }

    /// Copies the index, with its modification time, to a place that no other process writes to: git decides
    /// by the index's age which files to examine again. Returns `false` if there is no index.
    pub(crate) fn copy_index(&self, to: &Path) -> io::Result<bool> {
        let Some(from) =
            open_file(&self.index_path()).map_err(|error| io::Error::other(error.to_string()))?
        else {
            return Ok(false);
        };
        let meta = from.metadata()?;
        if meta.len() > MOST_INDEX {
            return Err(io::Error::other("it is larger than 1 GiB"));
        }
        let mut copy = fs::File::create(to)?;
        io::copy(&mut io::Read::take(from, MOST_INDEX), &mut copy)?;
        copy.set_modified(meta.modified()?)?;
        Ok(true)
    }

    /// Returns the same worktree with another index.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self.clone() }
    }

    /// Returns every setting of the user's files and of the repository's.
    fn read_settings(&self) -> Result<Vec<GitSetting>, GitError> {
        let listed =
            lossy_text(&self.run_checked(&["config", "--list", "--show-scope", "--show-origin", "-z"], "")?);
        let mut fields = listed.split('\0');
        let mut all = Vec::new();
        while let (Some(scope), Some(origin), Some(setting)) = (fields.next(), fields.next(), fields.next()) {
            let origin = self.top.join(origin.strip_prefix("file:").unwrap_or_default());
            let of_user = matches!(scope, "system" | "global");
            if of_user || matches!(scope, "local" | "worktree") {
                // A key without a value means true.
                let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
                all.push(GitSetting { of_user, origin, key: key.to_owned(), value: value.to_owned() });
            }
        }
        Ok(all)
    }

    /// Reads the settings that apply. The user's settings are those of the first read: an agent that edits
    /// its user's files while it works cannot name a program for us to start.
    fn apply_settings(&mut self) -> Result<(), GitError> {
        static KNOWN: Mutex<BTreeMap<PathBuf, UserConfig>> = Mutex::new(BTreeMap::new());
        let configured = self.read_settings()?;
        let pick = |of_user: bool, counts: fn(&str) -> bool| {
            let picked = configured.iter().filter(|it| it.of_user == of_user && counts(&it.key));
            picked.map(|it| (it.key.clone(), it.value.clone())).collect::<Vec<_>>()
        };
        let mut known = KNOWN.lock().map_err(|error| GitError::new("config", error))?;
        let (of_user, texts) = known.entry(self.common.clone()).or_insert_with(|| {
            let named = |key: &str, name: &str| {
                let named =
                    configured.iter().rfind(|it| it.key == key).map(|it| resolve_path(&self.top, &it.value));
                let path = named.or_else(|| user_config_dir().map(|folder| folder.join(name)))?;
                read_rules(&path)
            };
            let exclude = named("core.excludesfile", "ignore");
            let attributes = named("core.attributesfile", "attributes");
            (pick(true, is_filter_setting), UserTexts { exclude, attributes })
        });
        self.settings.clone_from(of_user);
        self.texts = RepositoryTexts {
            of_user: texts.clone(),
            exclude: read_rules(&self.common.join("info/exclude")),
            attributes: read_rules(&self.common.join("info/attributes")),
            shallow: read_rules(&self.common.join("shallow")),
        };
        drop(known);
        self.settings.extend(pick(false, |key| OF_REPOSITORY.contains(&key)));
        let format = configured.iter().rfind(|it| !it.of_user && it.key == "extensions.objectformat");
        self.object_format = format.map(|it| it.value.clone());
        self.named = NamedFiles::from_settings(self, &configured);
        Ok(())
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn run_checked(&self, args: &[&str], input: impl AsRef<[u8]>) -> Result<Vec<u8>, GitError> {
        Self::check_status(args, self.run(args, input)?)
    }

    /// Runs a command that must succeed, and returns the line that it prints.
    pub(crate) fn run_for_line(&self, args: &[&str], input: impl AsRef<[u8]>) -> Result<String, GitError> {
        Ok(lossy_text(&self.run_checked(args, input)?).trim().to_owned())
    }

    fn check_status(args: &[&str], output: Output) -> Result<Vec<u8>, GitError> {
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = lossy_text(&output.stderr);
        let fatal = said.lines().find(|line| line.starts_with("fatal: "));
        let why = fatal.or(said.lines().last()).unwrap_or("it failed without a message");
        Err(GitError::new(args.first().copied().unwrap_or_default(), why))
    }

    fn run(&self, args: &[&str], input: impl AsRef<[u8]>) -> Result<Output, GitError> {
        let what = args.first().copied().unwrap_or_default();
        let failed = |error: io::Error| GitError::new(what, error);
        self.refuse_irregular_files(what)?;
        let mut command = new_command("git");
        for (name, _) in std::env::vars_os() {
            // These variables point elsewhere, or name programs or files, so they do not apply to the named
            // worktree.
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
        if WITH_HOOKS.contains(&what) {
            for name in self.read_configured_hooks()? {
                command.arg("-c").arg(format!("hook.{name}.enabled=false"));
                command.arg("-c").arg(format!("hook.{name}.command=true"));
            }
        }
        let stand_in = if in_repository { None } else { Some(self.create_stand_in().map_err(failed)?) };
        if let Some(stand_in) = &stand_in {
            command.env("GIT_DIR", stand_in.path());
            command.env("GIT_OBJECT_DIRECTORY", self.common.join("objects"));
            command.env("GIT_INDEX_FILE", self.index_path());
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            let text = |name: &str| stand_in.path().join(name).display().to_string();
            let own = [
                ("core.excludesfile".to_owned(), text(USER_EXCLUDE)),
                ("core.attributesfile".to_owned(), text(USER_ATTRIBUTES)),
            ];
            command.env("GIT_CONFIG_COUNT", (self.settings.len() + own.len()).to_string());
            for (number, (key, value)) in self.settings.iter().chain(&own).enumerate() {
                command.env(format!("GIT_CONFIG_KEY_{number}"), key);
                command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
            }
        }
        command.args(args).env("LC_ALL", "C").envs(SURROUNDINGS);
        // Commits made here are internal: no person reads them.
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "callsheet")
                .env(format!("GIT_{who}_EMAIL"), "callsheet@localhost");
        }
        call::run_command(command, input.as_ref().to_vec(), call::MOST_TIME).map_err(failed)
    }

    /// Refuses a file that is not regular in the place of one that git opens: git would wait for it.
    fn refuse_irregular_files(&self, what: &str) -> Result<(), GitError> {
        let of_own =
            ["HEAD", "index", "config.worktree", "commondir", "gitdir"].map(|name| self.own.join(name));
        let of_common = ["config", "packed-refs", "shallow", "objects/info/alternates"];
        let of_common = of_common.map(|name| self.common.join(name));
        let of_user = user_config_files();
        let of_repository = of_own.iter().chain(&of_common).filter(|_| !self.own.as_os_str().is_empty());
        of_repository.chain(&of_user).try_for_each(|path| refuse_irregular(what, path))?;
        refuse_irregular_included(what, self.config_files())
    }

    /// Returns the names of hooks that are settings instead of files: the repository chooses these names.
    fn read_configured_hooks(&self) -> Result<BTreeSet<String>, GitError> {
        let name_of = |it: GitSetting| Some(it.key.strip_prefix("hook.")?.rsplit_once('.')?.0.to_owned());
        Ok(self.read_settings()?.into_iter().filter(|it| !it.of_user).filter_map(name_of).collect())
    }

    /// Creates a folder that git accepts as a repository: it has the objects and the ignore rules of the real
    /// one, and none of its settings, hooks and references.
    fn create_stand_in(&self) -> io::Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("callsheet-git-").tempdir()?;
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("refs"))?;
        fs::write(at("HEAD"), "ref: refs/heads/callsheet\n")?;
        let format = match self.object_format.as_deref() {
            Some("sha256") => "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n",
            _ => "\trepositoryformatversion = 0\n",
        };
        fs::write(at("config"), format!("[core]\n\tbare = false\n{format}"))?;
        fs::create_dir(at("info"))?;
        for (name, text) in [
            ("info/exclude", &self.texts.exclude),
            ("info/attributes", &self.texts.attributes),
            ("shallow", &self.texts.shallow),
            (USER_EXCLUDE, &self.texts.of_user.exclude),
            (USER_ATTRIBUTES, &self.texts.of_user.attributes),
        ] {
            if let Some(text) = text {
                fs::write(at(name), text)?;
            }
        }
        // A filter of the user may keep data there (Git LFS).
        if self.common.join("lfs").is_dir() {
            symlink(self.common.join("lfs"), at("lfs"))?;
        }
        // A split index consists of two files.
        for entry in fs::read_dir(&self.own).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
            if name.to_string_lossy().starts_with("sharedindex.") && is_file() {
                symlink(entry.path(), folder.path().join(&name))?;
            }
        }
        Ok(folder)
    }
}

/// Git's messages if there is no repository, or no worktree of one.
const NO_WORKTREE: [&str; 3] =
    ["not a git repository", "must be run in a work tree", "cannot use bare repository"];

/// Commands that query the repository itself, or change its references. None of them reads the contents of
/// files.
const IN_REPOSITORY: [&str; 6] =
    ["rev-parse", "merge-base", "worktree", "config", "for-each-ref", "update-ref"];

/// Commands for which git would run hooks.
const WITH_HOOKS: [&str; 2] = ["worktree", "update-ref"];

/// Files of the stand-in that hold the user's own rules and attributes.
const USER_EXCLUDE: &str = "callsheet-exclude";
const USER_ATTRIBUTES: &str = "callsheet-attributes";

/// Overrides of every setting with a fixed name that makes one of our commands start a program.
const HARDENED: [&str; 25] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    // Git must compare all timestamps of a file before it considers the file unchanged.
    "core.trustCtime=true",
    "core.checkStat=default",
    "core.splitIndex=false",
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

/// The only git variables that git gets, besides those that locate the repository.
const SURROUNDINGS: [(&str, &str); 6] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // No transport is allowed.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_ASKPASS", "false"),
    ("GIT_EDITOR", "false"),
];

/// Settings of a repository that decide how files are written there. None of them names a program or a file.
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

/// Checks whether a setting applies if the user's own configuration has it: plain settings and filters.
fn is_filter_setting(key: &str) -> bool {
    OF_REPOSITORY.contains(&key) || ["filter.", "lfs."].iter().any(|section| key.starts_with(section))
}

/// Returns the kind of a file that must be regular; `None` if it is regular or does not exist. Follows links.
pub(crate) fn irregular_kind(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = path.metadata().ok()?.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// Refuses irregular files of the repository that may contain `dir`, before git is asked for its location.
fn refuse_irregular_above(dir: &Path) -> Result<(), GitError> {
    let Some(link) =
        dir.ancestors().map(|above| above.join(".git")).find(|link| link.symlink_metadata().is_ok())
    else {
        return Ok(());
    };
    let folder = if link.is_dir() { Some(link.clone()) } else { read_linked_git_dir(&link) };
    // A linked worktree has most of these files in the shared folder.
    let common = folder
        .as_ref()
        .and_then(|folder| Some(folder.join(read_rules(&folder.join("commondir"))?.trim_end_matches('\n'))));
    let inside = ["HEAD", "config", "config.worktree", "index", "packed-refs", "commondir", "shallow"];
    let inside: Vec<PathBuf> =
        folder.iter().chain(&common).flat_map(|folder| inside.map(|name| folder.join(name))).collect();
    let mut inside = inside.iter().chain((!link.is_dir()).then_some(&link));
    inside.try_for_each(|path| refuse_irregular("rev-parse", path))?;
    let configs = |folder: PathBuf| ["config", "config.worktree"].map(|name| folder.join(name));
    refuse_irregular_included("rev-parse", folder.into_iter().chain(common).flat_map(configs))
}

fn refuse_irregular(what: &str, path: &Path) -> Result<(), GitError> {
    let odd = |kind| Err(GitError::new(what, format!("`{}` is {kind}", path.display())));
    irregular_kind(path).map_or(Ok(()), odd)
}

/// Refuses irregular files that settings include.
fn refuse_irregular_included(what: &str, configs: impl Iterator<Item = PathBuf>) -> Result<(), GitError> {
    find_irregular_included(configs).map_or(Ok(()), |(path, kind)| {
        let why = format!("the included settings file `{}` is {kind}", path.display());
        Err(GitError::new(what, why))
    })
}

/// Returns the folder that a `.git` file names.
pub(crate) fn read_linked_git_dir(link: &Path) -> Option<PathBuf> {
    let text = read_rules(link)?;
    let named = text.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r']);
    Some(link.parent()?.join(named))
}

/// Returns the folder of the user's own git configuration.
pub(crate) fn user_config_dir() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config"))).map(|folder| folder.join("git"))
}

/// Returns the user's own configuration files of git.
pub(crate) fn user_config_files() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".gitconfig"));
    home.into_iter().chain(user_config_dir().map(|folder| folder.join("config"))).collect()
}

/// Resolves a path as a git setting spells it.
fn resolve_path(top: &Path, value: &str) -> PathBuf {
    match (value.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => top.join(value),
    }
}

pub(crate) fn read_rules(path: &Path) -> Option<String> {
    PathBase::Anywhere.read_bytes(path, MOST_RULES).ok().flatten().map(|bytes| lossy_text(&bytes))
}

/// A change between two states of a path: the mode and the id of each, or `None` where there is none.
pub(crate) struct RawChange<'r> {
    pub(crate) path: &'r [u8],
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// Git's letter for the change.
    pub(crate) letter: String,
}

/// Parses the output of a raw diff: `:MODE MODE ID ID LETTER\0PATH\0`.
pub(crate) fn parse_raw_diff(raw: &[u8]) -> Vec<RawChange<'_>> {
    let mut fields = raw.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let state = |mode: &str, id: &str| (mode != "000000").then(|| format!("{mode} {id}"));
    let mut all = Vec::new();
    while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
        let head = lossy_text(head);
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        if let [old_mode, new_mode, old, new, letter] = words[..] {
            let (before, after) = (state(old_mode, old), state(new_mode, new));
            all.push(RawChange { path, before, after, letter: letter.to_owned() });
        }
    }
    all
}

pub(crate) fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
