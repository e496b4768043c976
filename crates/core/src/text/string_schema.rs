//! The macro `string_schema!`, for types that JSON shows as a string.

/// Gives a type the JSON Schema of a string.
macro_rules! string_schema {
    ($name:ty) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> alloc::borrow::Cow<'static, str> {
                alloc::string::String::schema_name()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                alloc::string::String::json_schema(generator)
            }
        }
    };
}

pub(crate) use string_schema;
