//! The words that contracts choose from: verdicts of a review, statuses of a task.

use crate::text::word_enum::word_enum;

/// The id of the task in a phase without a list of tasks.
pub(crate) const ONE_TASK: &str = "1";

word_enum! {
    /// A verdict of a review. A contract allows some of the verdicts.
    Verdict {
        Pass "PASS",
        NeedsRevision "NEEDS_REVISION",
        NeedsChanges "NEEDS_CHANGES",
        Rejected "REJECTED",
        MajorIssues "MAJOR_ISSUES",
    }
}

word_enum! {
    /// The end of a task; a worse one comes later.
    Status {
        Completed "COMPLETED",
        Failed "FAILED",
    }
}
