//! Names that callsheet itself provides to slots: the request's fields, and the fields of derived rows.

use callsheet_core::library::recipe::DerivedValue;

/// The slots that the request's own fields fill.
pub(crate) const REQUEST_FIELDS: [&str; 9] = [
    "agent",
    "phase",
    "role",
    "command",
    "instructions",
    "human_input",
    "task_id",
    "task_title",
    "task_description",
];

/// Returns the slots that the wording around all rows can use.
pub(crate) const fn wrap_fields(derived: DerivedValue) -> &'static [&'static str] {
    match derived {
        DerivedValue::ContextData => &["rows", "title"],
        _ => &["rows"],
    }
}
