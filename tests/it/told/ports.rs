//! The ports that a page names, each changed for a free one, and back in what its commands print.
//!
//! Promises: what a page calls 8080 is one and the same port in all of its blocks, and no other test's.

use std::fs::File;

use super::page::Page;
use crate::harness::gate::free_port;

/// What a gate listens on where its configuration says nothing, and a page need not say either.
const DEFAULTS: [u16; 3] = [8080, 8081, 9090];

/// Hosts of this machine, as pages write them.
const HERE: [&str; 3] = ["127.0.0.1:", "localhost:", "0.0.0.0:"];

pub(super) struct Ports {
    /// The page's, and the one that stands for it.
    pairs: Vec<(u16, u16)>,
    _locks: Vec<File>,
}

impl Ports {
    pub(super) fn of(page: &Page) -> Self {
        let mut named = DEFAULTS.to_vec();
        for block in &page.blocks {
            for begin in
                HERE.iter().flat_map(|here| block.text.match_indices(here).map(|(at, host)| at + host.len()))
            {
                let digits =
                    block.text.get(begin..).unwrap_or_default().chars().take_while(char::is_ascii_digit);
                named.extend(digits.collect::<String>().parse::<u16>().ok());
            }
        }
        named.sort_unstable();
        named.dedup();
        let taken: Vec<_> = named.iter().map(|_| free_port()).collect();
        let pairs = named.into_iter().zip(taken.iter().map(|(address, _)| address.port())).collect();
        Self { pairs, _locks: taken.into_iter().map(|(_, lock)| lock).collect() }
    }

    /// A text of the page with the ports that are really taken.
    pub(super) fn real(&self, text: &str) -> String {
        changed(text, |port| self.pairs.iter().find(|(page, _)| *page == port).map(|(_, real)| *real))
    }

    /// What was printed, with the page's ports.
    pub(super) fn paged(&self, text: &str) -> String {
        changed(text, |port| self.pairs.iter().find(|(_, real)| *real == port).map(|(page, _)| *page))
    }
}

/// Changes numbers that stand alone: no letter or digit beside them.
fn changed(text: &str, port: impl Fn(u16) -> Option<u16>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        out.push_str(before);
        match word.parse::<u16>().ok().and_then(&port) {
            Some(other) => out.push_str(&other.to_string()),
            None => out.push_str(word),
        }
        rest = after;
    }
    out + rest
}
