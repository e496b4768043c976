use std::fmt;

/// A price in cents.
pub struct Price {
    cents: u64,
}

impl Price {
    pub fn add(self, other: Self) -> Self {
        let cents = self.cents + other.cents;
        Self { cents }
    }

    pub fn halve(self) -> Self {
        let cents = self.cents / 2;
        Self { cents }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.cents / 100, self.cents % 100)
    }
}
