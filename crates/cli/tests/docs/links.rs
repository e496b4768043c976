//! Tests the links of all pages, and of the site that mdBook makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use callsheet_testing::{mdbook, report_missing};
use pulldown_cmark::{Event, Tag, TagEnd};

use crate::pages::{list_pages, parse_page, read_page, root, tracked_files};

/// Returns the anchors of a page's headings, as GitHub and mdBook make them, and the ids of its HTML.
fn list_anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut title: Option<String> = None;
    for event in parse_page(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => title = Some(String::new()),
            Event::Text(piece) | Event::Code(piece) => {
                if let Some(title) = &mut title {
                    title.push_str(&piece);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug_of(&title.take().unwrap());
                let count = seen.entry(slug.clone()).or_default();
                anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
                *count += 1;
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let ids = html.split("id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
                anchors.extend(ids.map(|(id, _)| id.to_owned()));
            }
            _ => {}
        }
    }
    anchors
}

fn slug_of(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the targets of a page's links and images.
fn list_targets(text: &str) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    parse_page(text).filter_map(target).collect()
}

/// Resolves a relative path against the folder of a page; `None` if it leaves the repository.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in Path::new(page).parent().unwrap().join(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?.to_owned()),
            Component::ParentDir => drop(parts.pop()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

/// Returns the reason why a link leads nowhere.
fn find_fault(page: &str, target: &str, files: &[String]) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() { page.to_owned() } else { resolve(page, path)? };
    let folder = format!("{}/", file.trim_end_matches('/'));
    if !files.contains(&file) && !files.iter().any(|known| known.starts_with(&folder)) {
        return Some("git has no such file".to_owned());
    }
    match anchor {
        Some(anchor) if !file.ends_with(".md") => Some(format!("`{file}` has no headings for #{anchor}")),
        Some(anchor) if !list_anchors(&read_page(&file)).contains(anchor) => {
            Some(format!("`{file}` has no heading #{anchor}"))
        }
        _ => None,
    }
}

#[test]
fn page_links_are_valid() {
    let files = tracked_files();
    let (mut broken, mut count) = (Vec::new(), 0);
    for page in list_pages() {
        for target in list_targets(&read_page(&page)) {
            count += 1;
            broken.extend(find_fault(&page, &target, &files).map(|why| format!("{page}: {target}: {why}")));
        }
    }
    assert_eq!(broken, Vec::<String>::new());
    assert!(count > 150, "{count} links");
}

#[test]
fn dead_links_are_found() {
    let files = tracked_files();
    let page = "docs/decisions/0017-a-guard-process.md";
    for target in ["../guide.md", "../guide.md#guide", "#a-guard-process", "../../crates", "https://x.org/y"]
    {
        assert_eq!(find_fault(page, target, &files), None, "{target}");
    }
    for target in ["guide.md", "../guide.md#none", "#none", "../../target", "../../Cargo.toml#x"] {
        assert!(find_fault(page, target, &files).is_some(), "{target}");
    }
    let text = "# A `b` & c!\n\n## Twice\n\n## Twice\n\n<a id=\"own\"></a>\n";
    let anchors: Vec<String> = list_anchors(text).into_iter().collect();
    assert_eq!(anchors, ["a-b--c", "own", "twice", "twice-1"]);
}

#[test]
fn summary_names_every_page() {
    let mut named: Vec<String> = list_targets(&read_page("docs/SUMMARY.md"));
    named.sort();
    let mut pages = list_pages();
    pages.retain(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md");
    let pages: Vec<&str> = pages.iter().map(|page| page.trim_start_matches("docs/")).collect();
    assert_eq!(named, pages);
}

fn list_html(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list_html(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            found.push(path);
        }
    }
}

/// mdBook makes the site without a warning, with a page for every page, and no link of it leads out of it.
#[test]
fn book_is_built_without_warnings() {
    let program = match mdbook() {
        Ok(program) => program,
        Err(why) => return report_missing(&format!("the documentation as a site: {why}")),
    };
    let site = root().join("target/book");
    let output = Command::new(program).arg("build").arg(root()).env_remove("RUST_LOG").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let unusual: Vec<&str> = said.lines().filter(|line| !line.trim_start().starts_with("INFO ")).collect();
    assert_eq!(unusual, [""; 0], "{said}");
    assert!(said.contains("INFO"), "{said}");

    for page in list_targets(&read_page("docs/SUMMARY.md")) {
        let file = page.replace("README.md", "index.md").replace(".md", ".html");
        assert!(site.join(&file).exists(), "{file}");
    }
    let mut pages = Vec::new();
    list_html(&site, &mut pages);
    let mut broken = Vec::new();
    for page in pages.iter().filter(|page| !page.ends_with("404.html")) {
        let text = fs::read_to_string(page).unwrap();
        for mark in ["href=\"", "src=\""] {
            for (target, _) in text.split(mark).skip(1).filter_map(|rest| rest.split_once('"')) {
                let file = target.split('#').next().unwrap_or_default();
                if file.is_empty() || file.contains(':') {
                    continue;
                }
                let found = page.parent().unwrap().join(file).canonicalize();
                if !found.is_ok_and(|found| found.starts_with(site.canonicalize().unwrap())) {
                    broken.push(format!("{}: {target}", page.display()));
                }
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}
