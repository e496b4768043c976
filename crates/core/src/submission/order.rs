//! The execution plan of a session as it was handed in: which sub-plan runs after which.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::plan::{self, Group};
use super::stale::found;
use super::{Desk, fields, roles, yaml};
use crate::contract::Field;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::{Library, read};
use crate::request::Layout;
use crate::source::{Root, SourceId};

/// The contract by which the order of sub-plans is handed in.
const CONTRACT: &str = "submit_execution_plan";

/// The contract by which a whole plan is handed in.
const PLAN: &str = "submit_plan";

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

/// The session's execution plan. One that is not there or not valid is an error: nothing is implemented without it.
pub(crate) fn order(library: &Library<'_>, layout: &Layout) -> Result<Order, Failure> {
    let roles = roles(library.sources, layout);
    let desk = Desk { library: Library::new(library.sources), layout, roles, shared_names: &Vec::new };
    let contract = desk.submission(CONTRACT)?;
    let file = contract.file.as_deref().unwrap_or_default();
    let id = SourceId::new(Root::Session, file)
        .map_err(|why| Diag::error(Code::ContractBad, format!("`{file}` is no path: {why}")))?;
    let Some(text) = read(library.sources, &id)? else {
        let error = Diag::error(Code::IncludeNotFound, format!("`{file}` is not there")).looked([&id]);
        return Err(error.hint("one sub-plan alone is named with `--set plan=N`").into());
    };
    let value = yaml::read_yaml(file, &text)?;
    let in_file = |mut diag: Diag| {
        diag.message = format!("{file}: {}", diag.message);
        diag
    };
    let told = |Failure(diags): Failure| Failure(diags.into_iter().map(in_file).collect());
    let kept: Vec<Field> = contract.field.iter().filter(|field| field.kept).cloned().collect();
    let data = fields::judge(&kept, &value, &desk.roles).map_err(told)?;
    let mut wrong = Vec::new();
    let subplan = desk.submission(contract.plan.as_ref().map_or("", |plan| plan.subplan.as_str()))?;
    let groups = plan::groups(&data, Some(&subplan), &mut wrong);
    let mut seen = BTreeSet::new();
    for (at, number) in groups.iter().flat_map(|group| &group.plans) {
        if !seen.insert(*number) {
            let message = format!("`{at}` names sub-plan {number} a second time");
            wrong.push(Diag::error(Code::SubmissionBad, message));
        }
    }
    if !wrong.is_empty() {
        return Err(told(Failure(wrong)));
    }
    let named = |(nth, group): (usize, Group)| {
        let plans = group.plans.iter().enumerate().map(|(at, (_, number))| {
            let name = data["groups"][nth]["plans"][at]["name"].as_str().unwrap_or_default();
            OrderPlan { number: *number, name: name.to_string() }
        });
        OrderGroup { plans: plans.collect(), id: group.id, parallel: group.parallel }
    };
    Ok(Order {
        groups: groups.into_iter().enumerate().map(named).collect(),
        needs_design: data.get("needs_design").and_then(Value::as_bool).unwrap_or_default(),
        severity: data["review_strategy"]["severity"].as_str().unwrap_or_default().to_string(),
    })
}

/// What each sub-plan of the session owns, by its number. One that cannot be read owns nothing that is known.
pub(crate) fn owned_files(
    library: &Library<'_>,
    layout: &Layout,
) -> Result<BTreeMap<u64, Vec<String>>, Failure> {
    let (library_here, roles) = (Library::new(library.sources), Vec::new());
    let desk = Desk { library: library_here, layout, roles, shared_names: &Vec::new };
    let mut owned = BTreeMap::new();
    let mut add = |subplan: &Value| {
        let files = subplan["owned_files"].as_array().into_iter().flatten();
        let files: Vec<String> = files.filter_map(Value::as_str).map(String::from).collect();
        if let Some(number) = subplan["index"].as_u64().filter(|_| !files.is_empty()) {
            owned.insert(number, files);
        }
    };
    let read_at = |path: &str| -> Result<Option<Value>, Failure> {
        let Ok(id) = SourceId::new(Root::Session, path) else { return Ok(None) };
        Ok(read(library.sources, &id)?.and_then(|text| yaml::read_yaml(path, &text).ok()))
    };
    let whole = desk.submission(PLAN)?;
    if let Some(plan) = whole.file.as_deref().map(read_at).transpose()?.flatten() {
        plan["subplans"].as_array().into_iter().flatten().for_each(&mut add);
    }
    let each = desk.submission(whole.plan.as_ref().map_or("", |plan| plan.subplan.as_str()))?;
    for (path, _) in found(library.sources, each.file.as_deref().unwrap_or_default(), None) {
        read_at(&path)?.iter().for_each(&mut add);
    }
    Ok(owned)
}
