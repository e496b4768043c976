//! The plan of a session, judged as it lies there before anything is implemented: which sub-plan runs after which.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::plan::{self, numbered};
use super::rules::{Group, Plan};
use super::stale::found;
use super::{Data, Desk, markdown, path, roles, yaml};
use crate::contract::Submission;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::Library;
use crate::request::Layout;
use crate::source::{Root, SourceId};
use crate::text::Text;

/// The contract by which the order of sub-plans is handed in.
const CONTRACT: &str = "submit_execution_plan";

/// Sub-plans that run one after the other, or at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderGroup {
    pub(crate) id: String,
    pub(crate) parallel: bool,
    pub(crate) plans: Vec<OrderPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderPlan {
    pub(crate) number: u64,
    pub(crate) name: String,
    /// What it may write; nothing where it does not say it.
    pub(crate) owned: Vec<String>,
}

/// The session's execution plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// In their order.
    pub(crate) groups: Vec<OrderGroup>,
    pub(crate) needs_design: bool,
    /// How closely the change is to be reviewed.
    pub(crate) severity: String,
}

impl Order {
    pub(crate) fn plans(&self) -> impl Iterator<Item = &OrderPlan> {
        self.groups.iter().flat_map(|group| &group.plans)
    }
}

/// The session's execution plan, once the whole plan was judged as it lies in the session, whoever wrote it and however:
/// the order, the overview, every sub-plan and its checklist. Nothing is implemented without it.
pub(crate) fn order(library: &Library<'_>, layout: &Layout) -> Result<Order, Failure> {
    let roles = roles(library.sources, layout);
    let desk = Desk { library: Library::new(library.sources), layout, roles, shared_names: &Vec::new };
    let contract = desk.submission(CONTRACT)?;
    let subplan = desk.submission(contract.plan.as_ref().map_or("", |plan| plan.subplan.as_str()))?;
    let file = contract.file.as_deref().unwrap_or_default();
    let mut wrong = Vec::new();
    let Some(text) = desk.needed(file, &mut wrong)? else { return Err(Failure(wrong)) };
    let (data, mut in_order) = desk.judge(&contract, &yaml::read_yaml(file, &text)?)?;
    let groups = plan::groups(&data, Some(&subplan), &mut in_order);
    let is_order_known = plan::is_order_known(&data, &groups);
    let docs = plan::docs(&data);
    let mut judged = Plan { groups, is_order_known, docs, are_lanes_known: true, ..Plan::default() };
    let before = wrong.len();
    for number in desk.numbers(&judged.groups, &subplan) {
        let named = numbered(number.into());
        let mut files = subplan.write.iter().map(|companion| path(&companion.path, &named));
        let Some(plan_file) = files.next() else { continue };
        let Some(text) = desk.needed(&plan_file, &mut wrong)? else { continue };
        judged.lanes.insert(number, markdown::lane(&plan_file, &text, &mut wrong));
        for file in files {
            desk.needed(&file, &mut wrong)?;
        }
    }
    // What is not there or cannot be read was told; nothing follows from its absence.
    judged.are_lanes_known = wrong.len() == before;
    judged.is_owned_known = judged.are_lanes_known;
    if let Some(overview) = contract.write.first()
        && let Some(text) = desk.needed(&overview.path, &mut wrong)?
    {
        judged.conflicts = markdown::overview(&overview.path, &text, &mut wrong);
    }
    judged.check(&Vec::new, &mut wrong);
    if !in_order.is_empty() || !wrong.is_empty() {
        let folder = file.rsplit_once('/').map_or(file, |(folder, _)| folder);
        let in_file = |mut diag: Diag| {
            diag.message = format!("{file}: {}", diag.message);
            diag
        };
        // What names no file of the plan is about the order.
        let (elsewhere, here): (Vec<Diag>, Vec<Diag>) =
            wrong.into_iter().partition(|diag| diag.place.is_some() || diag.message.contains(folder));
        let all = in_order.into_iter().chain(here).map(in_file).chain(elsewhere);
        return Err(Failure(all.collect()));
    }
    Ok(as_order(&data, &judged))
}

fn as_order(data: &Data, judged: &Plan) -> Order {
    let owned = |number: &u64| {
        let owned = judged.lanes.get(number).into_iter().flat_map(|lane| &lane.owned);
        owned.map(|owned| owned.glob.clone()).collect()
    };
    let named = |(nth, group): (usize, &Group)| {
        let plans = group.plans.iter().enumerate().map(|(at, (_, number))| {
            let name = data["groups"][nth]["plans"][at]["name"].as_str().unwrap_or_default();
            OrderPlan { number: *number, name: name.to_string(), owned: owned(number) }
        });
        OrderGroup { plans: plans.collect(), id: group.id.clone(), parallel: group.parallel }
    };
    Order {
        groups: judged.groups.iter().enumerate().map(named).collect(),
        needs_design: data.get("needs_design").and_then(Value::as_bool).unwrap_or_default(),
        severity: data["review_strategy"]["severity"].as_str().unwrap_or_default().to_string(),
    }
}

impl Desk<'_> {
    /// The numbers of the sub-plans that are named, and of those that are there.
    fn numbers(&self, groups: &[Group], subplan: &Submission) -> BTreeSet<u64> {
        let pattern = subplan.write.first().map(|companion| companion.path.as_str()).unwrap_or_default();
        let there = found(self.library.sources, pattern, None).into_iter();
        let there = there.filter_map(|(_, data)| data.values().next()?.as_u64());
        groups.iter().flat_map(|group| &group.plans).map(|plan| plan.1).chain(there).collect()
    }

    /// A file of the session that has to be there.
    fn needed(&self, file: &str, wrong: &mut Vec<Diag>) -> Result<Option<Text>, Failure> {
        let text = self.session_text(file)?;
        if text.is_none() {
            let looked = SourceId::new(Root::Session, file).ok();
            wrong.push(Diag::error(Code::IncludeNotFound, format!("`{file}` is not there")).looked(looked));
        }
        Ok(text)
    }
}
