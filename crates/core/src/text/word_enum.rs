//! The macro `word_enum!`, which defines an enum whose variants are each written as one word.

/// Defines an enum with the words of its variants: `ALL`, `name`, `Serialize` and `Deserialize` come from one
/// table.
macro_rules! word_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$note:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
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
    };
}

pub(crate) use word_enum;
