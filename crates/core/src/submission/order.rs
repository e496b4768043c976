//! The execution plan of a session as it was handed in: which sub-plan runs after which.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::plan::{self, Group};
use super::{Desk, fields, roles, yaml};
use crate::contract::Field;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::{Library, read};
use crate::request::Layout;
use crate::source::{Root, SourceId};

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
}

/// The groups of the session's execution plan, in their order. One that is not there or not valid is an error:
/// nothing is implemented without it.
pub(crate) fn order(library: &Library<'_>, layout: &Layout) -> Result<Vec<OrderGroup>, Failure> {
    let desk = Desk { library: Library::new(library.sources), layout, roles: roles(library.sources, layout) };
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
    Ok(groups.into_iter().enumerate().map(named).collect())
}
