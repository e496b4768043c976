//! The macro `word_enum!`, which defines an enum whose variants are each written as one word.

/// Defines an enum with the words of its variants: `ALL`, `name`, `Serialize` and `Deserialize` come from one
/// table.
macro_rules! word_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$note:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ::serde::Serialize)]
        #[cfg_attr(feature = "schema", derive(::schemars::JsonSchema))]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every variant, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the word of the variant, as it is written in data.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        // The derived reader also accepts a map such as `{"PASS": null}`, which the schema does not.
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <alloc::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                let found = Self::ALL.iter().copied().find(|variant| variant.name() == word);
                found.ok_or_else(|| ::serde::de::Error::unknown_variant(&word, &[$($word,)*]))
            }
        }
    };
}

pub(crate) use word_enum;
