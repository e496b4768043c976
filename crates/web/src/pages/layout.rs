//! The frame that all pages share.

use callsheet::Project;
use callsheet_store::Ledger;

use super::assets::{SCRIPT, STYLE};
use crate::base64::to_base64;
use crate::shown_text::ShownText;
use callsheet::error::Result;
use callsheet_core::record::sha256;

/// A place in the top bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagePlace {
    /// The inbox.
    Inbox,
    /// The flows.
    Flows,
    /// Costs and outcomes.
    Costs,
    /// The templates.
    Templates,
    /// A page that the top bar does not name.
    Other,
}

/// The frame of a page.
#[derive(Clone, Debug)]
pub(crate) struct PageLayout {
    /// The name of the project.
    pub(crate) project: ShownText,
    /// The present place.
    pub(crate) place: PagePlace,
    /// The number of the last record that the page shows; `None` if it does not change.
    pub(crate) head: Option<u64>,
    /// The style and the script, if the page is one file.
    pub(crate) inline: Option<InlineAssets>,
}

/// The style and the script of a page that is one file, and the policy that allows both by their hashes.
#[derive(Clone, Debug)]
pub(crate) struct InlineAssets {
    /// The content policy.
    pub(crate) policy: String,
    /// The style.
    pub(crate) style: &'static str,
    /// The script.
    pub(crate) script: &'static str,
}

/// A link of the top bar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLink {
    /// The place that it leads to.
    pub(crate) place: PagePlace,
    /// The address.
    pub(crate) address: &'static str,
    /// The words.
    pub(crate) words: &'static str,
    /// The key behind `g`.
    pub(crate) key: char,
}

/// The links of the top bar.
const LINKS: [PageLink; 4] = [
    PageLink { place: PagePlace::Inbox, address: "/", words: "Inbox", key: 'i' },
    PageLink { place: PagePlace::Flows, address: "/flows", words: "Flows", key: 'f' },
    PageLink { place: PagePlace::Costs, address: "/costs", words: "Costs", key: 'c' },
    PageLink { place: PagePlace::Templates, address: "/templates", words: "Templates", key: 't' },
];

impl PageLayout {
    /// Returns the links of the top bar.
    pub(crate) const fn links(&self) -> &'static [PageLink] {
        &LINKS
    }

    /// Checks whether the top bar has a search; the inbox has one of its own.
    pub(crate) fn has_search(&self) -> bool {
        self.head.is_some() && self.place != PagePlace::Inbox
    }

    /// Returns the frame of a page that shows the ledger, before its data is read.
    pub(crate) fn read(project: &Project, ledger: &mut Ledger, place: PagePlace) -> Result<Self> {
        let head = Some(ledger.head()?.seq);
        Ok(Self { project: project_name(project), place, head, inline: None })
    }

    /// Returns the frame of a page without a ledger.
    pub(crate) fn without_ledger(project: &Project, place: PagePlace) -> Self {
        Self { project: project_name(project), place, head: Some(0), inline: None }
    }

    /// Returns the frame of a page that says nothing about the project.
    pub(crate) fn plain() -> Self {
        Self { project: ShownText::default(), place: PagePlace::Other, head: None, inline: None }
    }

    /// Returns the frame of a page that is one file.
    pub(crate) fn one_file(project: &Project) -> Self {
        let hash = |text: &str| to_base64(&sha256(&[text.as_bytes()]).0);
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        let inline = Some(InlineAssets { policy, style: STYLE, script: SCRIPT });
        Self { project: project_name(project), place: PagePlace::Other, head: None, inline }
    }
}

fn project_name(project: &Project) -> ShownText {
    let folder =
        || project.dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    project.project_name().unwrap_or_else(|_| folder()).into()
}
