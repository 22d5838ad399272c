//! One integration binary: the promises that need more than one part, kept on real databases and real sockets.
//!
//! Absent on purpose: mocks, ignored tests, silent skips. What a test needs and cannot have fails it, with a sentence
//! that says how to get it.
#![cfg(test)]

mod auth;
mod challenges;
mod cli;
mod clients;
mod config;
mod counts;
mod crashes;
mod doubtful;
mod drain;
mod explored;
mod fingerprint;
mod gate;
mod harness;
mod herd;
mod hostile;
mod house;
mod inner;
mod input;
mod janitor;
mod json;
mod kept;
mod laravel;
mod leaks;
mod ledger;
mod list;
mod mcp;
mod memory;
mod mirrored;
mod muted;
mod observe;
mod outages;
mod outcomes;
mod pages;
mod passing;
mod plain;
mod policy;
mod pooled;
mod problems;
mod queue;
mod reconcile;
mod redact;
mod refusals;
mod resuming;
mod rounds;
mod scripted;
mod seal;
mod sessions;
mod sim;
mod sites;
mod slow;
mod spool;
mod spooled;
mod sse;
mod startup;
mod store;
mod streams;
mod tasks;
mod terms;
mod transport;
mod turns;
mod waiting;
mod wire;
