//! Templates: every one with the file that wins, the files that it hides, and the runs that used it.

use askama::Template;
use axum::extract::{Path, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::local_time::LocalClock;
use callsheet::run_titles::RunTitles;
use callsheet::templates::{find_template, list_all_templates, read_text};
use callsheet_core::SourceId;
use callsheet_core::record::sha256;

use super::layout::{PageLayout, PagePlace};
use super::run_item::RunItem;
use super::words::encode_path;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};

/// The runs that are examined for the use of a template.
const EXAMINED: usize = 300;

/// A template in the list.
#[derive(Debug)]
struct TemplateItem {
    path: ShownText,
    address: String,
    description: ShownText,
    version: ShownText,
    source: ShownText,
    trust: &'static str,
    shadowed: Vec<ShownText>,
    problem: ShownText,
}

/// The list of templates.
#[derive(Debug, Template)]
#[template(path = "templates.html")]
struct TemplatesPage {
    layout: PageLayout,
    templates: Vec<TemplateItem>,
}

/// A run that used the template.
#[derive(Debug)]
struct TemplateRun {
    item: RunItem,
    is_same_text: bool,
}

/// The page of a template.
#[derive(Debug, Template)]
#[template(path = "template.html")]
struct TemplatePage {
    layout: PageLayout,
    item: TemplateItem,
    variables: Vec<ShownText>,
    lines: Vec<(usize, ShownText)>,
    runs: Vec<TemplateRun>,
    examined: usize,
    has_more: bool,
}

fn trust_word(source: &SourceId) -> &'static str {
    match source.root() {
        callsheet_core::SourceRoot::Builtin => "builtin",
        callsheet_core::SourceRoot::User => "yours",
        _ => "project",
    }
}

impl TemplateItem {
    fn new(template: &callsheet::templates::TemplateSummary) -> Self {
        let text = |text: &Option<String>| text.as_ref().map(ShownText::from).unwrap_or_default();
        Self {
            path: ShownText::new(&template.path),
            address: format!("/templates/{}", encode_path(&template.path)),
            description: text(&template.description),
            version: text(&template.version),
            source: template.source.to_string().into(),
            trust: trust_word(&template.source),
            shadowed: template.shadowed.iter().map(|source| source.to_string().into()).collect(),
            problem: template.problem.as_ref().map(|diag| diag.to_string().into()).unwrap_or_default(),
        }
    }
}

impl TemplatePage {
    fn read(project: &Project, path: &str) -> Result<Self> {
        let template = find_template(project, path)?;
        let text = read_text(project, &template.source)?;
        let (mut runs, mut examined, mut has_more) = (Vec::new(), 0, false);
        let layout = match project.read_ledger() {
            Err(_) => PageLayout::without_ledger(project, PagePlace::Templates),
            Ok(mut ledger) => {
                let clock = LocalClock::read();
                let used = project.template_use(&mut ledger, &template.source, EXAMINED)?;
                (examined, has_more) = (used.examined, used.has_more);
                let digest = text.as_ref().map(|text| sha256(&[text.as_bytes()]));
                let mut titles = RunTitles::default();
                runs.extend(used.runs.iter().map(|(row, used)| TemplateRun {
                    item: RunItem::new(row, &titles.title(&mut ledger, row), &clock),
                    is_same_text: Some(*used) == digest,
                }));
                PageLayout::read(project, &mut ledger, PagePlace::Templates)?
            }
        };
        let lines = text.as_deref().unwrap_or_default().lines();
        Ok(Self {
            layout,
            item: TemplateItem::new(&template),
            variables: template.variables.iter().map(ShownText::from).collect(),
            lines: lines.enumerate().map(|(at, line)| (at + 1, ShownText::from_line(line))).collect(),
            runs,
            examined,
            has_more,
        })
    }
}

/// Answers with the list of templates.
pub(crate) async fn show_templates(State(site): State<SiteState>) -> PageResult {
    site.render(|project| {
        let layout = match project.read_ledger() {
            Err(_) => PageLayout::without_ledger(project, PagePlace::Templates),
            Ok(mut ledger) => PageLayout::read(project, &mut ledger, PagePlace::Templates)?,
        };
        let templates = list_all_templates(project).iter().map(TemplateItem::new).collect();
        Ok(TemplatesPage { layout, templates })
    })
    .await
}

/// Answers with a template.
pub(crate) async fn show_template(State(site): State<SiteState>, Path(path): Path<String>) -> PageResult {
    site.render(move |project| TemplatePage::read(project, &path)).await
}
