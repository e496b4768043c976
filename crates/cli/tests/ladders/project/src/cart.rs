//! Carts: what somebody wants, and what it costs.

use crate::price::Price;
use crate::stock::{Item, Stock};

/// What can go wrong when a cart is paid for.
#[derive(Debug, PartialEq, Eq)]
pub enum CheckoutError {
    /// Somebody else was faster.
    SoldOut { name: String },
    /// There is nothing in it.
    Empty,
}

#[derive(Debug, Default)]
pub struct Cart {
    items: Vec<Item>,
    /// In hundredths of the sum.
    discount: u64,
}

impl Cart {
    pub fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    pub fn grant(&mut self, percent: u64) {
        self.discount = self.discount.max(percent.min(100));
    }

    pub fn total(&self) -> Price {
        let sum: Price = self.items.iter().map(|item| item.price).sum();
        sum.less(sum.percent(self.discount))
    }

    /// Takes everything out of the stock, or nothing.
    pub fn checkout(self, stock: &mut Stock) -> Result<Price, CheckoutError> {
        if self.items.is_empty() {
            return Err(CheckoutError::Empty);
        }
        let mut left = stock.clone();
        for item in &self.items {
            if !left.take(&item.name) {
                let name = item.name.clone();
                return Err(CheckoutError::SoldOut { name });
            }
        }
        *stock = left;
        Ok(self.total())
    }
}
