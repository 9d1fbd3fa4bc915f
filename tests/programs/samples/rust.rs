//! A shop.
use std::{collections::HashMap, fmt};

/// Items by name.
#[derive(Debug, Clone, Default)]
pub struct Shop<'a, T> {
    items: HashMap<&'a str, Vec<T>>,
    open: bool,
}

impl<'a, T: Clone + fmt::Display> Shop<'a, T> {
    const LIMIT: usize = 10;

    /// Makes an empty one.
    ///
    /// Nothing is in it.
    #[must_use]
    pub fn new() -> Self {
        Self { items: HashMap::new(), open: false }
    }

    //// No documentation.
    pub fn sell(&mut self, name: &str, count: usize) -> Option<Vec<T>> {
        let found = self.items.get_mut(name)?;
        if let Some(first) = found.first() {
            println!("sold {} of {}: '{'", count, first);
        }
        match found.len() {
            0 => None,
            n @ 1..=9 if n < count => Some(found.drain(..).collect()),
            _ => {
                let (left, right) = found.split_at(count);
                Some(left.to_vec())
            }
        }
    }
}

/** Sums them. */
pub async fn sum(values: &[u64]) -> u64 {
    fn inner<const N: usize>(x: [u8; N]) -> char {
        '}'
    }
    let mut total = 0;
    for value in values.iter().filter(|v| **v > 1) {
        total += value;
    }
    while total > 100 {
        total -= 1;
    }
    total
}

macro_rules! twice {
    ($x:expr) => {
        $x * 2
    };
}
