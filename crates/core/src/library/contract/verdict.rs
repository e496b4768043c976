//! The words that contracts choose from: verdicts of a review, statuses of a task.

use crate::text::word_enum::word_enum;

/// The id of the task in a phase without a list of tasks.
pub(crate) const ONE_TASK: &str = "1";

word_enum! {
    /// A verdict of a review. A contract allows some of the verdicts.
    Verdict {
        /// The work is accepted as it is.
        Pass "PASS",
        /// A plan must be revised.
        NeedsRevision "NEEDS_REVISION",
        /// An implementation must be changed.
        NeedsChanges "NEEDS_CHANGES",
        /// A plan is not viable.
        Rejected "REJECTED",
        /// An implementation has issues that changes alone do not solve.
        MajorIssues "MAJOR_ISSUES",
    }
}

word_enum! {
    /// The end of a task; a worse one comes later.
    Status {
        /// The task is done.
        Completed "COMPLETED",
        /// The task is not done.
        Failed "FAILED",
    }
}
