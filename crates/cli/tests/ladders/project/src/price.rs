//! Prices in whole cents.

use std::fmt;
use std::iter::Sum;

/// A price, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price {
    cents: u64,
}

impl Price {
    pub const FREE: Self = Self { cents: 0 };

    pub fn from_cents(cents: u64) -> Self {
        Self { cents }
    }

    /// A share of the price in hundredths, rounded half to even.
    pub fn percent(self, percent: u64) -> Self {
        let exact = self.cents * percent;
        let (whole, rest) = (exact / 100, exact % 100);
        let up = match rest.cmp(&50) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => whole % 2,
            std::cmp::Ordering::Greater => 1,
        };
        Self { cents: whole + up }
    }

    pub fn less(self, discount: Self) -> Self {
        Self { cents: self.cents.saturating_sub(discount.cents) }
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        let cents = prices.map(|price| price.cents).sum();
        Self { cents }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.cents / 100, self.cents % 100)
    }
}
