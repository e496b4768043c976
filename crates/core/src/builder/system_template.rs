//! System templates for callers that fill them themselves: finds one, and injects values.
//!
//! [`compose`](crate::compose()) does both at once, and also handles defaults, derived values and fragments.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::LazyCell;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{Library, candidates, is_phase_name, list_names};
use crate::library::recipe;
use crate::library::recipe::{MissingNotice, MissingSlotRule};
use crate::library::template::{TemplateNode, TextRange, parse_braces};
use crate::request::Request;
use crate::request::values::SlotValues;
use crate::source::builtin::Builtin;
use crate::source::{SourceId, Sources};
use crate::text::SharedText;

/// The text of a system template, its source, and a note if it is not the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemTemplate {
    /// The body of the template.
    pub text: String,
    /// The source of the template.
    pub source: SourceId,
    /// A note if the agent has no template of its own.
    pub fallback: Option<Diagnostic>,
}

/// Returns the body of `system/[AGENT]-[PHASE].md`, or else of `system/BASE-[PHASE].md`, as it is written.
/// `layout` names the folders of the project's templates.
///
/// ```
/// use callsheet_core::library::layout::Layout;
/// use callsheet_core::{Builtin, load_system_template};
///
/// let load = |agent, phase| load_system_template(&Builtin, &Layout::default(), agent, phase);
/// let (unknown, base) = (load("unknown", "plan")?, load("base", "plan")?);
/// assert_eq!(unknown.text, base.text);
/// assert!(unknown.fallback.is_some() && base.fallback.is_none());
/// assert!(load("claude", "no-such-phase").is_err());
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn load_system_template(
    sources: &dyn Sources,
    layout: &Layout,
    agent: &str,
    phase: &str,
) -> Result<SystemTemplate, Diagnostics> {
    Request { agent: Some(agent.into()), phase: Some(phase.into()), ..Request::default() }.validate()?;
    let library = Library::new(sources);
    let mut looked = Vec::new();
    let own = format!("templates/system/{}-{phase}.md", agent.to_ascii_uppercase());
    for path in [own.clone(), format!("templates/system/BASE-{phase}.md")] {
        if let Some((source, text)) = library.read_body(&path, layout)? {
            let note = || Diagnostic::note(Code::TemplateFallback, format!("no `{own}`; using `{source}`"));
            return Ok(SystemTemplate { fallback: (path != own).then(note), text, source });
        }
        let new: Vec<SourceId> =
            candidates(&path, layout).into_iter().filter(|place| !looked.contains(place)).collect();
        looked.extend(new);
    }
    let names = list_names(sources, "templates/system", layout);
    let phases: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix("BASE-"))
        .filter(|phase| is_phase_name(phase))
        .collect();
    let message = format!("no template for phase `{phase}`");
    let error = Diagnostic::error(Code::TemplateNotFound, message).searched(looked);
    let error = error.suggest(phase, phases.iter().copied());
    Err(error.hint(format!("known phases: {}", phases.join(", "))).into())
}

/// A template's text with its variables filled in, and a warning for each missing value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InjectedTemplate {
    /// The text with the values in it.
    pub text: String,
    /// One warning for each missing variable or fragment.
    pub warnings: Vec<Diagnostic>,
}

/// Replaces every `{{VARIABLE}}` of `template` in one pass; values are inserted unchanged. A variable that
/// `values` lacks is replaced as the shipped recipe `unified` says: a notice for `PROJECT_CONTEXT`, nothing
/// for others. A fragment needs sources, so it is left for [`compose`](crate::compose()).
///
/// ```
/// use callsheet_core::inject_variables;
///
/// let values = [("TASKS", "1. {{PROJECT_CONTEXT}}")].into();
/// let injected = inject_variables("{{PROJECT_CONTEXT}}\n{{TASKS}}{{SKELETON}}", &values);
/// assert_eq!(injected.text, "Context not provided\n1. {{PROJECT_CONTEXT}}");
/// assert_eq!(injected.warnings.len(), 2);
/// ```
pub fn inject_variables(template: &str, values: &SlotValues) -> InjectedTemplate {
    let source = SharedText::from(template);
    let notice = LazyCell::new(shipped_notice);
    let mut injected = InjectedTemplate::default();
    let mut warned = BTreeSet::new();
    for node in parse_braces(template, TextRange { start: 0, end: template.len() }) {
        let (code, message, span) = match node {
            TemplateNode::Text(span) => {
                injected.text.push_str(span.slice(template));
                continue;
            }
            TemplateNode::Slot(span) => {
                let name = span.slice(template);
                if let Some(value) = values.get(name) {
                    injected.text.push_str(value);
                    continue;
                }
                if let Some(notice) =
                    notice.as_ref().filter(|notice| notice.slots.iter().any(|slot| slot == name))
                {
                    injected.text.push_str(&notice.notice);
                }
                (Code::SlotUnfilled, format!("nothing fills `{name}`"), span)
            }
            TemplateNode::Fragment(span) => {
                let name = span.slice(template);
                injected.text.push_str(&format!("{{{{> {name}}}}}"));
                (Code::FragmentNotFound, format!("fragment `{name}` was not expanded"), span)
            }
            TemplateNode::Include(_) => continue,
        };
        if warned.insert(span.slice(template)) {
            let warning = Diagnostic::warning(code, message).at("template", &source, span.start..span.end);
            injected.warnings.push(warning);
        }
    }
    injected
}

/// Returns the notice of the shipped recipe. Tests ensure that the recipe is readable and has one.
fn shipped_notice() -> Option<MissingNotice> {
    let unified = recipe::find_recipe(&Library::new(&Builtin), "unified", &Layout::default()).ok()?;
    match unified.recipe.missing {
        MissingSlotRule::Notice(notice) => Some(notice),
        MissingSlotRule::Unsaid | MissingSlotRule::Policy(_) => None,
    }
}
