//! Tests `check` on folders of sources: `check/CASE/{sources/ROOT/…, expect.problems}`, compared in full.
//!
//! A case without its own builtin root uses the small one of `clean-library`. `layout.toml` is the layout of
//! the project. `expect.templates` is the output of `templates`. `BLESS=1` rewrites the expectations.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use callsheet_core::diag::Code;
use callsheet_core::library::layout::Layout;
use callsheet_core::render::render;
use callsheet_core::{
    Builtin, FileFormat, Listing, ListingEntry, ListingLimits, PromptFormat, SharedText, SourceError,
    SourceId, SourceRoot, Sources, compose, read_request,
};
use callsheet_lint::catalog::list_templates;
use callsheet_lint::check::check;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const LIBRARY: &str = "clean-library";

/// The files of all roots, by id.
#[derive(Clone, Default)]
struct Held(BTreeMap<SourceId, Vec<u8>>);

impl Held {
    fn from_case(case: &Path) -> Self {
        let mut held = Self::default();
        for root in [SourceRoot::Builtin, SourceRoot::User, SourceRoot::Project, SourceRoot::Session] {
            let own = case.join("sources").join(root.name());
            let library = cases().join(LIBRARY).join("sources/builtin");
            held.add(root, if root == SourceRoot::Builtin && !own.exists() { &library } else { &own });
        }
        held
    }

    fn add(&mut self, root: SourceRoot, dir: &Path) {
        for file in list_files(dir) {
            let path = file.strip_prefix(dir).unwrap().to_str().unwrap();
            let id = SourceId::new(root, path).unwrap();
            self.0.insert(id, fs::read(&file).unwrap());
        }
    }

    fn paths_below<'h>(&'h self, dir: &SourceId) -> impl Iterator<Item = &'h str> {
        let prefix = if dir.path() == "." { String::new() } else { format!("{}/", dir.path()) };
        let root = dir.root();
        self.0
            .keys()
            .filter(move |id| id.root() == root)
            .filter_map(move |id| id.path().strip_prefix(&prefix))
    }
}

impl Sources for Held {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        let Some(bytes) = self.0.get(id) else {
            let folder = self.paths_below(id).next().is_some();
            return if folder { Err(SourceError::NotAFile("directory")) } else { Ok(None) };
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.into())),
            Err(error) => {
                let offset = error.valid_up_to();
                Err(SourceError::NotUtf8 { offset, byte: bytes[offset] })
            }
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let mut listing = Listing::default();
        for below in self.paths_below(dir) {
            let folders = below.match_indices('/').map(|(at, _)| (&below[..at], true));
            for (path, dir) in folders.chain([(below, false)]).take(limits.depth) {
                let entry = ListingEntry { path: path.into(), dir };
                if !listing.entries.contains(&entry) {
                    listing.entries.push(entry);
                }
            }
        }
        let entries = listing.entries.len();
        listing.entries.truncate(limits.entries);
        listing.left_out = entries - listing.entries.len();
        listing.not_entered =
            usize::from(self.paths_below(dir).any(|below| below.matches('/').count() >= limits.depth));
        Ok((entries > 0).then_some(listing))
    }
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check")
}

fn list_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { list_files(&path) } else { vec![path] })
        .collect();
    files.sort();
    files
}

fn list_cases() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn read_layout(case: &Path) -> Layout {
    let text = fs::read_to_string(case.join("layout.toml"));
    text.map_or_else(|_| Layout::default(), |text| toml::from_str(&text).unwrap())
}

fn list_problems(sources: &dyn Sources, layout: &Layout) -> String {
    let report = check(sources, layout);
    report.problems.iter().map(|problem| format!("{problem}\n")).collect::<Vec<_>>().join("\n")
}

/// Returns the difference from the expectation file. Returns `None` after rewriting it.
fn find_difference(file: &Path, found: &str) -> Option<String> {
    if env::var_os("BLESS").is_some() {
        fs::write(file, found).unwrap();
        return None;
    }
    let expected = fs::read_to_string(file).ok();
    (expected.as_deref() != Some(found)).then(|| format!("{} should be:\n{found}", file.display()))
}

fn assert_no_differences(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "not as expected (BLESS=1 writes it anew):\n\n{}",
        differences.join("\n")
    );
}

#[test]
fn cases_report_expected_problems() {
    let differences = list_cases().into_iter().filter_map(|case| {
        find_difference(
            &case.join("expect.problems"),
            &list_problems(&Held::from_case(&case), &read_layout(&case)),
        )
    });
    assert_no_differences(&differences.collect::<Vec<_>>());
}

/// A folder of extensions among the templates: every problem in its text is found twice.
#[test]
fn repeated_problems_are_counted_once() {
    let folder = ".callsheet/templates/own";
    let layout = Layout { prompts: folder.into(), ..Layout::default() };
    for (times, shown, more) in [(60, 60, 0), (100, 100, 0), (130, 100, 30)] {
        let id = SourceId::new(SourceRoot::Project, &format!("{folder}/agents/a.md")).unwrap();
        let sources = Held([(id, "a\u{200b}".repeat(times).into_bytes())].into());
        let problems = check(&sources, &layout).problems;
        let invisible = || problems.iter().filter(|problem| problem.code == Code::TextInvisible);
        let counted = invisible().map(|problem| problem.more).sum::<usize>();
        assert_eq!((invisible().count(), counted), (shown, more), "{times}");
    }
}

#[test]
fn shipped_library_is_clean() {
    assert_eq!(list_problems(&Builtin, &Layout::default()), "");
}

#[test]
fn t7_templates_are_listed_with_metadata() {
    let cases = list_cases().into_iter().map(|case| (case.join("expect.templates"), case));
    let differences = cases.filter(|(file, _)| file.exists()).filter_map(|(file, case)| {
        let listed = list_templates(&Held::from_case(&case), &read_layout(&case));
        find_difference(&file, &(serde_json::to_string_pretty(&listed).unwrap() + "\n"))
    });
    assert_no_differences(&differences.collect::<Vec<_>>());
}

/// `check` knows the same derived rows and request fields as the composer: the recipe of this case has a
/// template for every kind of row with all of its fields, and a row of another kind would appear without a
/// template.
#[test]
fn check_rows_and_fields_match_composer() {
    let case = cases().join("every-row-and-field");
    let sources = Held::from_case(&case);
    let mut all = String::new();
    for number in 1..=5 {
        let name = format!("request-{number}.toml");
        let text = fs::read_to_string(case.join(&name)).unwrap();
        let request = read_request(&name, &text.into(), FileFormat::Toml).unwrap();
        let prompt = compose(&request, &sources).unwrap_or_else(|failure| panic!("{name}: {failure}")).prompt;
        all += &format!("{name}\n\n{}\n\n", render(&prompt, PromptFormat::Markdown, None).unwrap().text);
    }
    assert_no_differences(
        &find_difference(&case.join("expect.prompts"), &all).into_iter().collect::<Vec<_>>(),
    );
}

/// The order of the problems depends only on the files.
#[test]
fn problem_order_depends_on_files_only() {
    for case in list_cases() {
        let (sources, layout) = (Held::from_case(&case), read_layout(&case));
        assert_eq!(check(&sources, &layout), check(&sources, &layout));
    }
}

/// A folder of templates that contains links to itself.
struct Circles(Held);

const LINKS: usize = 9;

impl Circles {
    fn resolve_links(id: &SourceId) -> SourceId {
        let parts: Vec<&str> = id.path().split('/').filter(|part| !part.starts_with("link-")).collect();
        SourceId::new(id.root(), &parts.join("/")).unwrap()
    }
}

impl Sources for Circles {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        self.0.text(&Self::resolve_links(id))
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let real = Self::resolve_links(dir);
        let mut listing = self.0.list(&real, limits)?;
        if let Some(listing) = listing.as_mut().filter(|_| real.path().ends_with("/templates")) {
            let link = |number| ListingEntry { path: format!("link-{number}"), dir: false };
            listing.entries.extend((0..LINKS).map(link));
        }
        Ok(listing)
    }
}

#[test]
fn cyclic_links_are_followed_once() {
    let id = SourceId::new(SourceRoot::Project, ".callsheet/templates/shared/one.md").unwrap();
    let sources = Circles(Held([(id, b"One.".to_vec())].into()));
    // The file itself, and for each link the file again and all links, which are not files there.
    assert_eq!(check(&sources, &Layout::default()).files, 1 + LINKS * (1 + LINKS));
}

const PIECES: &[&str] = &[
    "---\n",
    "variables: [a, b]\n",
    "- name: ü\n",
    "{{a}}",
    "{{> own}}",
    "{{> tree}}",
    "[[shared:own]]",
    "[[placeholder:a]]",
    "[[include:",
    "]]",
    "# Identity\n",
    "## Context\r\n",
    "```\n",
    "~~~",
    "\n",
    "\r",
    " ",
    "ü",
    "<review>",
    "PASS",
    "</review>",
    "<thought",
    ">",
    "\u{200d}",
    "\u{1f3f4}",
    "\u{e0067}",
    "\u{e007f}",
    "\u{feff}",
    "name = \"ü\"\n",
];

const BLOCKS: &[&str] = &[
    "{ template = \"{role}\" }",
    "{ template = \"{AGENT}{phase}ü{role}.md\" }",
    "{ template = [\"ü.md\", \"\"] }",
    "{ template = \"templates/../x\" }",
    "{ template = \"/{command}/{command}.md\", when = \"role\" }",
    "{ value = \"ü\" }",
    "{ value = \"own\" }",
    "{ context = true }",
];

const DERIVES: &[&str] = &[
    "",
    "each = \"own\"",
    "each = ''",
    "each = { rule = '{{own}}ü', ü = 'x {{> own}}' }",
    "wrap = \"{{own}} \\u00fc\"",
    "wrap = 'ü\u{200b} {{rows}} {{> nö}}'",
    "wrap = \"\"\"\r\n<review>\r\nPASS</review>{{ü}}\"\"\"",
];

fn recipe(notation: &str, blocks: &[&str], derive: &str) -> String {
    let blocks = blocks.join(", ");
    format!(
        "format = \"markdown\"\nnotation = \"{notation}\"\ndefaults = {{ agent = \"ü\", role = \"ü\" }}\n\
         [[section]]\nname = \"ü\"\npart = \"system\"\nmax_bytes = 1\nblocks = [{blocks}]\n\
         [derive.own]\nfrom = \"rules\"\n{derive}\n"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn check_survives_any_file_content(
        texts in vec(vec(select(PIECES), 0..12), 6),
        notation in select(&["braces", "brackets"][..]),
        blocks in vec(select(BLOCKS), 0..4),
        derive in select(DERIVES),
    ) {
        static LIBRARY_FILES: LazyLock<Held> = LazyLock::new(|| Held::from_case(&cases().join(LIBRARY)));
        let paths = [
            ".callsheet/recipes/other.toml",
            ".callsheet/agents/own.toml",
            ".callsheet/templates/shared/own.md",
            ".callsheet/templates/system/BASE-plan.md",
            ".callsheet/prompts/agents/coder.md",
            ".callsheet/ü.md",
        ];
        let mut sources = LIBRARY_FILES.clone();
        for (path, text) in paths.into_iter().zip(texts) {
            sources.0.insert(SourceId::new(SourceRoot::Project, path).unwrap(), text.concat().into_bytes());
        }
        let id = SourceId::new(SourceRoot::Project, ".callsheet/recipes/own.toml").unwrap();
        sources.0.insert(id, recipe(notation, &blocks, derive).into_bytes());
        for problem in check(&sources, &Layout::default()).problems {
            prop_assert!(!problem.to_string().is_empty());
        }
        list_templates(&sources, &Layout::default());
    }
}
