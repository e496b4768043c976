//! Reads rules, the data files that describe secrets.
//!
//! The files of a project come on top of all others and can only add rules: a cloned repository must not be
//! able to switch off the search for secrets in it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::fmt;

use regex_automata::Anchored;
use regex_automata::meta::Regex;
use regex_automata::util::syntax as regex_syntax;
use serde::{Deserialize, Serialize};

use super::automaton::PatternAutomaton;
use super::literals::LiteralIndex;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{self, candidates};
use crate::library::read_toml::{self, FileFormat, ReadErrorCodes};
use crate::source::builtin::Builtin;
use crate::source::{ListingLimits, SourceId, SourceRoot, Sources};
use crate::text::SharedText;
use crate::text::name::{NAME_HINT, is_name};

/// The contents of `secrets/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(title = "Secrets"))]
pub struct RuleFile {
    /// The kinds of secrets.
    pub rule: Vec<SecretRule>,
    /// Patterns of texts that are not secrets, whichever rule found them. A project's file cannot have them.
    pub allow: Vec<String>,
}

/// One kind of secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SecretRule {
    pub id: String,
    /// The secret in words, such as `a token of GitHub`.
    pub description: String,
    /// Texts, one of which must be at the start of a match; upper and lower case are the same.
    pub literals: Vec<String>,
    /// A regular expression. Its first group is the secret; without a group, the whole match is.
    pub pattern: String,
    /// The minimum entropy of the secret, in bits per character.
    #[serde(default)]
    pub entropy: Option<f64>,
    /// The minimum number of digits in the secret.
    #[serde(default)]
    pub digits: usize,
    /// Whether the secret must mix letters of both cases, digits and signs in a way that no word does.
    #[serde(default)]
    pub random: bool,
    /// The maximum number of bytes between the start of the match and the literal.
    #[serde(default)]
    pub before: usize,
    /// Whether the literal may be inside of a word.
    #[serde(default)]
    pub inside: bool,
    /// The number of bytes that are examined, starting at the literal; more if all of them match.
    #[serde(default = "usual_window")]
    pub window: usize,
    /// A pattern that is applied to the rule's match together with the name that contains the literal: a text that it
    /// matches is not a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// Whether the `allow` patterns of the files apply to this rule.
    #[serde(default = "usual_allow")]
    pub allow: bool,
    /// The patterns that recognize a secret of several lines if it arrives line by line.
    #[serde(default)]
    pub lines: Option<LinePatterns>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinePatterns {
    /// The pattern of a line after which the secret begins.
    pub opens: String,
    /// The pattern of a line that consists entirely of the secret.
    pub goes_on: String,
}

impl SecretRule {
    /// Returns whether a match begins at the literal or may begin before it.
    fn anchored(&self) -> Anchored {
        if self.before == 0 { Anchored::Yes } else { Anchored::No }
    }
}

const fn usual_window() -> usize {
    1024
}

const fn usual_allow() -> bool {
    true
}

/// A pattern that is compiled on first use: most patterns never are.
#[derive(Clone)]
pub(super) struct LazyPattern {
    text: String,
    compiled: OnceCell<Option<Regex>>,
    /// The automaton of a pattern that is not shipped: it is tried first, because its running time is known.
    automaton: Option<(Anchored, OnceCell<Option<PatternAutomaton>>)>,
}

impl LazyPattern {
    fn new(text: &str, limited: Option<Anchored>) -> Self {
        let automaton = limited.map(|anchored| (anchored, OnceCell::new()));
        Self { text: text.into(), compiled: OnceCell::new(), automaton }
    }

    /// Returns the automaton of a pattern that is not shipped, whose running time is known.
    pub(super) fn automaton(&self) -> Option<&PatternAutomaton> {
        let (anchored, automaton) = self.automaton.as_ref()?;
        automaton.get_or_init(|| PatternAutomaton::new(&self.text, *anchored).ok()).as_ref()
    }

    /// Checks whether the pattern matches somewhere in a line.
    pub(super) fn is_match(&self, line: &str) -> bool {
        match self.automaton() {
            Some(automaton) => automaton.is_match(line.as_bytes(), 0..line.len()).0,
            None => self.get().is_some_and(|regex| regex.is_match(line)),
        }
    }

    /// Returns the compiled pattern, or `None` if it is invalid. Files that are not shipped are refused on
    /// reading if a pattern is invalid.
    pub(super) fn get(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| compile(&[&self.text]).ok()).as_ref()
    }
}

/// The maximum size of all literals together, in bytes; far more than people write by hand.
const MOST_LITERALS: usize = 64 * 1024;

/// The maximum size of a compiled pattern, in bytes; more than enough for patterns that people write by hand.
const MOST_MEMORY: usize = 2 * 1024 * 1024;

/// Limits of files that are not shipped. All of them are above the needs of rules that people write by hand.
const MOST_RULES: usize = 100;
const MOST_PATTERN: usize = 2 * 1024;
const MOST_WINDOW: usize = 64 * 1024;
const MOST_BEFORE: usize = 1024;

/// Returns the syntax of patterns: bytes instead of characters, since Unicode tables are large and no key
/// needs them.
pub(super) fn syntax() -> regex_syntax::Config {
    regex_syntax::Config::new().unicode(false).utf8(false)
}

fn compile(patterns: &[&str]) -> Result<Regex, String> {
    let config = Regex::config().nfa_size_limit(Some(MOST_MEMORY)).utf8_empty(false);
    let built = Regex::builder().syntax(syntax()).configure(config).build_many(patterns);
    built.map_err(|error| {
        let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        why.lines().last().unwrap_or("invalid file").trim_start_matches("error: ").to_string()
    })
}

#[derive(Clone)]
pub(super) struct CompiledRule {
    pub(super) id: String,
    pub(super) description: String,
    pub(super) pattern: LazyPattern,
    pub(super) millibits: u32,
    pub(super) digits: usize,
    pub(super) random: bool,
    pub(super) before: usize,
    pub(super) inside: bool,
    pub(super) window: usize,
    pub(super) unless: Option<LazyPattern>,
    pub(super) allow: bool,
    pub(super) lines: Option<(LazyPattern, LazyPattern)>,
}

/// All rules that apply, and their exceptions.
#[derive(Clone)]
pub struct SecretRules {
    files: Vec<(SourceId, SharedText)>,
    set: OnceCell<RuleSet>,
}

/// The rules that were read from the files.
#[derive(Clone)]
pub(super) struct RuleSet {
    pub(super) rules: Vec<CompiledRule>,
    pub(super) literals: LiteralIndex,
    /// The rules of each literal.
    pub(super) of_literal: Vec<Vec<usize>>,
    allow: Vec<String>,
    allowed: OnceCell<Option<Regex>>,
}

impl fmt::Debug for SecretRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.files.iter().map(|(id, _)| id.to_string()).collect();
        f.debug_struct("Rules").field("files", &ids).finish_non_exhaustive()
    }
}

impl SecretRules {
    /// Reads the shipped rules, without other files on top.
    pub fn load_shipped() -> Result<Self, Diagnostics> {
        let Self { files, .. } = Self::load(&Builtin, &Layout::default())?;
        let set = RuleSet::read(&files)?.into();
        Ok(Self { files, set })
    }

    /// Loads the rules of all roots. A file of the user replaces the shipped file of its name; a project's
    /// file adds rules.
    pub fn load(sources: &dyn Sources, layout: &Layout) -> Result<Self, Diagnostics> {
        let mut files: BTreeMap<(bool, String), (SourceId, SharedText)> = BTreeMap::new();
        for place in candidates("secrets/x", layout).iter().rev() {
            let folder = place.path().strip_suffix("/x").unwrap_or_default();
            for id in list_rule_files(sources, place.root(), folder)? {
                let Some(text) = lookup::read_source(sources, &id)? else { continue };
                let name = id.path().rsplit('/').next().unwrap_or_default().to_string();
                files.insert((id.root() == SourceRoot::Project, name), (id, text));
            }
        }
        let files: Vec<(SourceId, SharedText)> = files.into_values().collect();
        let mut set = OnceCell::new();
        // Shipped files alone need no check, and reading them takes longer than composing a prompt without
        // any word that could be a secret.
        if files.iter().any(|(id, _)| id.root() != SourceRoot::Builtin) {
            set = RuleSet::read(&files)?.into();
        }
        Ok(Self { files, set })
    }

    /// Returns the rules. If all files are shipped, they are read for the first text that is scanned; a test
    /// reads them too.
    pub(super) fn set(&self) -> &RuleSet {
        self.set.get_or_init(|| RuleSet::read(&self.files).unwrap_or_else(|_| RuleSet::new([])))
    }

    /// Returns the description of the kind of secret that a rule finds.
    pub fn describe(&self, id: &str) -> &str {
        self.set().rules.iter().find(|rule| rule.id == id).map_or("", |rule| &rule.description)
    }
}

impl RuleSet {
    fn read(files: &[(SourceId, SharedText)]) -> Result<Self, Diagnostics> {
        let mut read = Vec::new();
        let mut wrong = Vec::new();
        for (id, text) in files {
            match read_rules(id, text) {
                Ok(file) => read.push((id, file)),
                Err(Diagnostics(diags)) => wrong.extend(diags),
            }
        }
        wrong.extend(find_duplicates(&read));
        for root in [SourceRoot::Project, SourceRoot::User] {
            let mut own = read.iter().filter(|(id, _)| id.root() == root);
            let count: usize = own.clone().map(|(_, file)| file.rule.len()).sum();
            if let Some((id, _)) = own.next_back().filter(|_| count > MOST_RULES) {
                let message =
                    format!("{id}: the files of this root have {count} rules; the limit is {MOST_RULES}");
                wrong.push(Diagnostic::error(Code::SecretsBad, message).hint(
                    "put several `literals` into one rule, and remove those that the shipped rules find",
                ));
            }
        }
        if !wrong.is_empty() {
            return Err(Diagnostics(wrong));
        }
        let set = Self::new(read.into_iter().map(|(id, file)| (id.root() != SourceRoot::Builtin, file)));
        if set.literals.total_len() > MOST_LITERALS {
            let message = "the literals of all rules together exceed the limit";
            return Err(Diagnostic::error(Code::SecretsBad, message).into());
        }
        Ok(set)
    }

    /// Compiles the rules of files; each file comes with a flag that says whether it must keep within limits.
    fn new(files: impl IntoIterator<Item = (bool, RuleFile)>) -> Self {
        let mut rules = Vec::new();
        let mut allow = Vec::new();
        let mut literals: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (limited, file) in files {
            allow.extend(file.allow);
            for rule in file.rule {
                for literal in &rule.literals {
                    literals.entry(literal.to_ascii_lowercase()).or_default().push(rules.len());
                }
                rules.push(CompiledRule::new(rule, limited));
            }
        }
        let (words, of_literal): (Vec<String>, Vec<Vec<usize>>) = literals.into_iter().unzip();
        let literals = LiteralIndex::new(words);
        Self { rules, literals, of_literal, allow, allowed: OnceCell::new() }
    }

    /// Checks whether a text that looks like a secret is known not to be one.
    pub(super) fn is_allowed(&self, secret: &[u8]) -> bool {
        // A long text of random letters contains every short word somewhere.
        if self.allow.is_empty() || secret.len() > 256 {
            return false;
        }
        let patterns: Vec<&str> = self.allow.iter().map(String::as_str).collect();
        let allowed = self.allowed.get_or_init(|| compile(&patterns).ok());
        allowed.as_ref().is_some_and(|allowed| allowed.is_match(secret))
    }
}

impl CompiledRule {
    fn new(rule: SecretRule, limited: bool) -> Self {
        let bits = rule.entropy.unwrap_or(0.0).clamp(0.0, 8.0);
        let line = |text: &str| LazyPattern::new(text, limited.then_some(Anchored::No));
        Self {
            pattern: LazyPattern::new(&rule.pattern, limited.then_some(rule.anchored())),
            unless: rule.unless.as_deref().map(line),
            allow: rule.allow,
            lines: rule.lines.as_ref().map(|lines| (line(&lines.opens), line(&lines.goes_on))),
            id: rule.id,
            description: rule.description,
            millibits: (bits * 1000.0) as u32,
            digits: rule.digits,
            random: rule.random,
            before: rule.before,
            inside: rule.inside,
            window: rule.window,
        }
    }
}

fn list_rule_files(
    sources: &dyn Sources,
    root: SourceRoot,
    folder: &str,
) -> Result<Vec<SourceId>, Diagnostic> {
    let limits = ListingLimits { depth: 1, entries: 1000, ignored: true };
    let Ok(dir) = SourceId::new(root, folder) else { return Ok(Vec::new()) };
    let listing = sources.list(&dir, limits).map_err(|error| {
        Diagnostic::error(Code::SourceUnreadable, format!("cannot list `{dir}`: {error}"))
    })?;
    let entries = listing.into_iter().flat_map(|listing| listing.entries);
    let names = entries.filter(|entry| !entry.dir && entry.path.ends_with(".toml"));
    Ok(names.filter_map(|entry| SourceId::new(root, &format!("{folder}/{}", entry.path)).ok()).collect())
}

/// Returns a diagnostic for each rule whose id another rule has.
fn find_duplicates(files: &[(&SourceId, RuleFile)]) -> Vec<Diagnostic> {
    let mut taken: BTreeMap<&str, &SourceId> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (id, file) in files {
        for rule in &file.rule {
            if let Some(by) = taken.insert(&rule.id, id) {
                let message = format!("{id}: rule `{}` already exists in `{by}`", rule.id);
                wrong.push(Diagnostic::error(Code::SecretsBad, message).hint("choose another id"));
            }
        }
    }
    wrong
}

/// Reads a rule file.
pub fn read_rules(id: &SourceId, text: &SharedText) -> Result<RuleFile, Diagnostics> {
    read_toml::check_length(id, text, Code::SecretsBad)?;
    let codes = ReadErrorCodes { bad: Code::SecretsBad, unknown: Code::SecretsBad };
    let file: RuleFile = read_toml::read_data(&id.to_string(), text, FileFormat::Toml, codes)?;
    // A test compiles the shipped files; here that would cost more than all scanning.
    if id.root() == SourceRoot::Builtin {
        return Ok(file);
    }
    let wrong = find_problems(id, &file);
    if wrong.is_empty() { Ok(file) } else { Err(Diagnostics(wrong)) }
}

/// Returns a diagnostic for every fault in the rules of a file.
pub(crate) fn find_problems(id: &SourceId, file: &RuleFile) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    let bad = |message: String| Diagnostic::error(Code::SecretsBad, format!("{id}: {message}"));
    for rule in &file.rule {
        let name = &rule.id;
        if !is_name(name) {
            wrong.push(bad(format!("invalid rule id `{name}`")).hint(NAME_HINT));
        }
        if rule.literals.is_empty() || rule.literals.iter().any(|literal| literal.len() < 2) {
            let hint = "every match begins with one of `literals`, or a few bytes before it";
            wrong.push(bad(format!("`{name}` needs literals of two characters or more")).hint(hint));
        }
        for (key, value, most) in [("window", rule.window, MOST_WINDOW), ("before", rule.before, MOST_BEFORE)]
        {
            if value > most {
                let hint = "a secret that is longer than the window is still found whole";
                wrong.push(bad(format!("`{name}` has a `{key}` of {value}; the limit is {most}")).hint(hint));
            }
        }
        let lines = rule.lines.iter().flat_map(|lines| [&lines.opens, &lines.goes_on]);
        let lines = lines.chain(&rule.unless).map(|pattern| (pattern, Anchored::No));
        for (pattern, anchored) in lines.chain([(&rule.pattern, rule.anchored())]) {
            if pattern.len() > MOST_PATTERN {
                let message = format!("`{name}` has a pattern of more than {MOST_PATTERN} bytes");
                wrong.push(bad(message).hint("split it into several rules"));
                continue;
            }
            match compile(&[pattern]).and_then(|regex| {
                PatternAutomaton::new(pattern, anchored).map_err(|why| why.to_string())?;
                Ok(regex)
            }) {
                Err(why) => wrong.push(bad(format!("`{name}` has an invalid pattern: {why}"))),
                Ok(regex) if pattern == &rule.pattern && regex.is_match("") => {
                    wrong.push(bad(format!("`{name}` has a pattern that matches an empty text")));
                }
                Ok(_) => {}
            }
        }
    }
    for pattern in &file.allow {
        if let Err(why) = compile(&[pattern]) {
            wrong.push(bad(format!("`allow` has an invalid pattern: {why}")));
        }
    }
    if id.root() == SourceRoot::Project && !file.allow.is_empty() {
        let message = format!("{id}: a project cannot declare text as not secret");
        let hint = "put `allow` into your own `secrets/` folder; a project's files can only add rules";
        wrong.push(Diagnostic::error(Code::TrustRequired, message).hint(hint));
    }
    wrong
}
