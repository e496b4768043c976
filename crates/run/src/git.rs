//! Git, by its program, and the one place that starts it: nothing that a repository says is executed.
//!
//! What looks at files (filters, drivers) runs with a stand-in for the repository's folder, which has its objects and
//! no settings of its own. From the repository it gets [plain settings](OF_REPOSITORY), from the user's own configuration
//! those that name [filters](is_filter_setting) besides, as they were when this process first looked. What asks the repository
//! itself ([`IN_REPOSITORY`]) reads its settings and executes nothing, because everything that could is set by us.
//! Files that git would wait for are refused before it starts, and every [call] ends in time.

mod call;
mod includes;
mod named;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::environment::program;
use crate::read::{PathBase, open_file, read_file};
pub use call::take_interrupts;
use includes::{included, odd_included};
pub(crate) use named::NamedFiles;

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
    /// The settings that count for files, in the order in which they count.
    settings: Vec<(String, String)>,
    object_format: Option<String>,
    texts: RepositoryTexts,
    /// What settings name, as it was.
    #[serde(default)]
    named: NamedFiles,
    /// Another index than the worktree's own.
    #[serde(skip)]
    index: Option<PathBuf>,
}

/// Files that say which files are ignored or filtered, as they were.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct RepositoryTexts {
    of_user: UserTexts,
    exclude: Option<String>,
    attributes: Option<String>,
    shallow: Option<String>,
}

/// What the user's own configuration says.
type UserConfig = (Vec<(String, String)>, UserTexts);

/// The user's own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct UserTexts {
    exclude: Option<String>,
    attributes: Option<String>,
}

/// A setting, and whether the user's own files have it (or the repository's).
struct GitSetting {
    of_user: bool,
    /// The file that has it.
    origin: PathBuf,
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
            texts: RepositoryTexts::default(),
            named: NamedFiles::default(),
            index: None,
        };
        refuse_odd_above(dir)?;
        let mut found = Vec::new();
        // One by one, because a path can contain a line end.
        for what in ["--show-toplevel", "--git-dir", "--git-common-dir"] {
            let args = ["rev-parse", "--path-format=absolute", what];
            let output = git.run(&args, "")?;
            if NO_WORKTREE.iter().any(|said| text(&output.stderr).contains(said)) {
                return Ok(None);
            }
            // A repository that git cannot read is not the same as none.
            let path = text(&Self::good(&args, output)?);
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

    /// The repository's folder for this worktree.
    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    /// The repository's folder that all its worktrees share.
    pub(crate) fn common(&self) -> &Path {
        &self.common
    }

    /// Whether this is a worktree besides the main checkout.
    pub(crate) fn is_linked(&self) -> bool {
        self.own != self.common
    }

    /// What the settings named when they were read.
    pub(crate) fn named(&self) -> &NamedFiles {
        &self.named
    }

    /// The files of settings of this worktree and of the user.
    fn configs(&self) -> impl Iterator<Item = PathBuf> {
        let own = [self.common.join("config"), self.own.join("config.worktree")];
        let own = own.into_iter().filter(|_| !self.own.as_os_str().is_empty());
        own.chain(user_configs())
    }

    /// What is ignored everywhere, the more general text first.
    pub(crate) fn excludes(&self) -> impl Iterator<Item = &String> {
        self.texts.of_user.exclude.iter().chain(&self.texts.exclude)
    }

    /// Whether names that differ in case alone are the same here.
    pub(crate) fn is_case_insensitive(&self) -> bool {
        let said = self.settings.iter().rfind(|(key, _)| key == "core.ignorecase");
        said.is_some_and(|(_, value)| value == "true")
    }

    /// Whether the file system tells here which files are executable.
    pub(crate) fn has_file_modes(&self) -> bool {
        let said = self.settings.iter().rfind(|(key, _)| key == "core.filemode");
        said.is_none_or(|(_, value)| value != "false")
    }

    /// Whether both are worktrees of one repository.
    pub(crate) fn is_of_same_repository(&self, other: &Self) -> bool {
        self.common == other.common
    }

    /// A repository inside of this worktree, by its folder. It is asked from here, since its own files may be gone.
    pub(crate) fn beside(&self, own: &Path) -> Self {
        let named = rules_text(&own.join("commondir"));
        let common = named.map_or_else(|| own.to_owned(), |named| own.join(named.trim_end_matches('\n')));
        let texts = RepositoryTexts { shallow: rules_text(&common.join("shallow")), ..self.texts.clone() };
        Self { own: own.to_owned(), common, texts, index: None, ..self.clone() }
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

    /// What differs from `head`, or from nothing before the first commit: the files, or with `--cached` the index.
    pub(crate) fn raw_diff(&self, more: &[&str], head: Option<&str>) -> Result<Vec<u8>, GitError> {
        let against = match head {
            Some(head) => head.to_owned(),
            None => text(&self.done(&["hash-object", "-t", "tree", "--stdin"], "")?).trim().to_owned(),
        };
        let flags = ["diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv"];
        // Git would start a git in submodules, with the settings that they have.
        let rest = ["--ignore-submodules=dirty", "--end-of-options", &against];
        self.done(&[&flags[..], more, &rest].concat(), "")
    }

    /// Whether `commit` is part of what is checked out here.
    pub fn holds(&self, commit: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", "--end-of-options", commit, "HEAD"];
        commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            && self.run(&args, "").is_ok_and(|output| output.status.success())
    }

    /// The index of this worktree.
    pub(crate) fn index(&self) -> PathBuf {
        self.own.join("index")
    }

    /// Copies the index to a place that nobody else writes to, as old as it is: git knows by its age which files it has to
    /// look at again. `false` if there is none.
    pub(crate) fn copy_index(&self, to: &Path) -> io::Result<bool> {
        let Some(from) = open_file(&self.index()).map_err(|error| io::Error::other(error.to_string()))?
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

    /// The same with another index.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self.clone() }
    }

    /// Every setting of the user's files and of the repository's.
    fn configured(&self) -> Result<Vec<GitSetting>, GitError> {
        let listed = text(&self.done(&["config", "--list", "--show-scope", "--show-origin", "-z"], "")?);
        let mut fields = listed.split('\0');
        let mut all = Vec::new();
        while let (Some(scope), Some(origin), Some(setting)) = (fields.next(), fields.next(), fields.next()) {
            let origin = self.top.join(origin.strip_prefix("file:").unwrap_or_default());
            let of_user = matches!(scope, "system" | "global");
            if of_user || matches!(scope, "local" | "worktree") {
                // A key alone means true.
                let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
                all.push(GitSetting { of_user, origin, key: key.to_owned(), value: value.to_owned() });
            }
        }
        Ok(all)
    }

    /// Reads which settings count. The user's are those of the first look: what an agent writes into the files of its
    /// user while it works names no program for us.
    fn configure(&mut self) -> Result<(), GitError> {
        static KNOWN: Mutex<BTreeMap<PathBuf, UserConfig>> = Mutex::new(BTreeMap::new());
        let configured = self.configured()?;
        let pick = |of_user: bool, counts: fn(&str) -> bool| {
            let picked = configured.iter().filter(|it| it.of_user == of_user && counts(&it.key));
            picked.map(|it| (it.key.clone(), it.value.clone())).collect::<Vec<_>>()
        };
        let mut known =
            KNOWN.lock().map_err(|error| GitError { what: "config".into(), why: error.to_string() })?;
        let (of_user, texts) = known.entry(self.common.clone()).or_insert_with(|| {
            let named = |key: &str, name: &str| {
                let named =
                    configured.iter().rfind(|it| it.key == key).map(|it| from_home(&self.top, &it.value));
                let path = named.or_else(|| user_folder().map(|folder| folder.join(name)))?;
                rules_text(&path)
            };
            let exclude = named("core.excludesfile", "ignore");
            let attributes = named("core.attributesfile", "attributes");
            (pick(true, is_filter_setting), UserTexts { exclude, attributes })
        });
        self.settings.clone_from(of_user);
        self.texts = RepositoryTexts {
            of_user: texts.clone(),
            exclude: rules_text(&self.common.join("info/exclude")),
            attributes: rules_text(&self.common.join("info/attributes")),
            shallow: rules_text(&self.common.join("shallow")),
        };
        drop(known);
        self.settings.extend(pick(false, |key| OF_REPOSITORY.contains(&key)));
        let format = configured.iter().rfind(|it| !it.of_user && it.key == "extensions.objectformat");
        self.object_format = format.map(|it| it.value.clone());
        self.named = NamedFiles::from_settings(self, &configured);
        Ok(())
    }

    /// Standard output of a command that has to succeed.
    pub(crate) fn done(&self, args: &[&str], input: impl AsRef<[u8]>) -> Result<Vec<u8>, GitError> {
        Self::good(args, self.run(args, input)?)
    }

    fn good(args: &[&str], output: Output) -> Result<Vec<u8>, GitError> {
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = text(&output.stderr);
        let fatal = said.lines().find(|line| line.starts_with("fatal: "));
        let why = fatal.or(said.lines().last()).unwrap_or("it failed without a word").to_owned();
        Err(GitError { what: args.first().copied().unwrap_or_default().to_owned(), why })
    }

    fn run(&self, args: &[&str], input: impl AsRef<[u8]>) -> Result<Output, GitError> {
        let what = args.first().copied().unwrap_or_default();
        let failed = |error: io::Error| GitError { what: what.to_owned(), why: error.to_string() };
        self.refuse_irregular_files(what)?;
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
        // Only what nobody looks at is ever committed here.
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "callsheet")
                .env(format!("GIT_{who}_EMAIL"), "callsheet@localhost");
        }
        call::call(command, input.as_ref().to_vec(), call::MOST_TIME).map_err(failed)
    }

    /// Git waits for what is no regular file: such a file in the place of one that it opens is refused.
    fn refuse_irregular_files(&self, what: &str) -> Result<(), GitError> {
        let of_own =
            ["HEAD", "index", "config.worktree", "commondir", "gitdir"].map(|name| self.own.join(name));
        let of_common = ["config", "packed-refs", "shallow", "objects/info/alternates"];
        let of_common = of_common.map(|name| self.common.join(name));
        let of_user = user_configs();
        let of_repository = of_own.iter().chain(&of_common).filter(|_| !self.own.as_os_str().is_empty());
        for path in of_repository.chain(&of_user) {
            if let Some(kind) = irregular_kind(path) {
                let why = format!("`{}` is {kind}", path.display());
                return Err(GitError { what: what.to_owned(), why });
            }
        }
        refuse_included(what, self.configs())
    }

    /// Hooks that are settings instead of files: their names are the repository's choice.
    fn configured_hooks(&self) -> Result<BTreeSet<String>, GitError> {
        let name_of = |it: GitSetting| Some(it.key.strip_prefix("hook.")?.rsplit_once('.')?.0.to_owned());
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
        // What a filter of the user's keeps there (Git LFS).
        if self.common.join("lfs").is_dir() {
            symlink(self.common.join("lfs"), at("lfs"))?;
        }
        // An index can be in two parts.
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

/// What git says where there is no repository, or no worktree of one.
const NO_WORKTREE: [&str; 3] =
    ["not a git repository", "must be run in a work tree", "cannot use bare repository"];

/// Commands that ask the repository itself. None of them looks at the contents of files.
const IN_REPOSITORY: [&str; 5] = ["rev-parse", "merge-base", "worktree", "config", "for-each-ref"];

/// Files of the stand-in that hold the user's own rules and attributes.
const USER_EXCLUDE: &str = "callsheet-exclude";
const USER_ATTRIBUTES: &str = "callsheet-attributes";

/// Every setting with a fixed name that makes one of our commands start something.
const HARDENED: [&str; 25] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    // What git believes of a file it believes by all of its times.
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

/// Settings that count if the user's own configuration has them: filters.
fn is_filter_setting(key: &str) -> bool {
    OF_REPOSITORY.contains(&key) || ["filter.", "lfs."].iter().any(|section| key.starts_with(section))
}

/// What a path is that must be a regular file; `None` if it is one, or if nothing is there. Links are followed.
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

/// The same for the repository that `dir` may lie in, before git is asked where it is.
fn refuse_odd_above(dir: &Path) -> Result<(), GitError> {
    let Some(link) =
        dir.ancestors().map(|above| above.join(".git")).find(|link| link.symlink_metadata().is_ok())
    else {
        return Ok(());
    };
    let folder = if link.is_dir() { Some(link.clone()) } else { linked_git_dir(&link) };
    // A linked worktree has most of them in the folder that all share.
    let common = folder
        .as_ref()
        .and_then(|folder| Some(folder.join(rules_text(&folder.join("commondir"))?.trim_end_matches('\n'))));
    let inside = ["HEAD", "config", "config.worktree", "index", "packed-refs", "commondir", "shallow"];
    let inside: Vec<PathBuf> =
        folder.iter().chain(&common).flat_map(|folder| inside.map(|name| folder.join(name))).collect();
    for path in inside.into_iter().chain((!link.is_dir()).then(|| link.clone())) {
        if let Some(kind) = irregular_kind(&path) {
            let why = format!("`{}` is {kind}", path.display());
            return Err(GitError { what: "rev-parse".into(), why });
        }
    }
    let configs = |folder: PathBuf| ["config", "config.worktree"].map(|name| folder.join(name));
    refuse_included("rev-parse", folder.into_iter().chain(common).flat_map(configs))
}

/// The same for the files that settings include.
fn refuse_included(what: &str, configs: impl Iterator<Item = PathBuf>) -> Result<(), GitError> {
    odd_included(configs).map_or(Ok(()), |(path, kind)| {
        let why = format!("`{}`, which the settings include, is {kind}", path.display());
        Err(GitError { what: what.to_owned(), why })
    })
}

/// The folder that a file `.git` names.
pub(crate) fn linked_git_dir(link: &Path) -> Option<PathBuf> {
    let text = rules_text(link)?;
    let named = text.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r']);
    Some(link.parent()?.join(named))
}

/// The folder of the user's own files of git.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config"))).map(|folder| folder.join("git"))
}

/// The user's own settings of git.
pub(crate) fn user_configs() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".gitconfig"));
    home.into_iter().chain(user_folder().map(|folder| folder.join("config"))).collect()
}

/// A path as a setting of git spells it.
fn from_home(top: &Path, value: &str) -> PathBuf {
    match (value.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => top.join(value),
    }
}

pub(crate) fn rules_text(path: &Path) -> Option<String> {
    PathBase::Anywhere.bytes(path, MOST_RULES).ok().flatten().map(|bytes| text(&bytes))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
