//! The smallest valid plan: one sub-plan, whose text and checklist the test supplies.

pub(crate) const ORDER: &str = "\
groups:
  - {group_id: all, mode: serial, plans: [{file: plan_1.md, name: All}]}
needs_design: false
needs_docs: false
doc_files: []
review_strategy: {severity: low, focus: []}
";

pub(crate) const OVERVIEW: &str = "\
# Plan

## Phase 1

None.

## Phase 2

None.

## Phase 3

All of it.

## Conflict map

None.
";
