//! Oncegate: every mutation once, for one verified actor, if policy allows it, and every attempt written down.

pub mod admin;
pub mod app;
pub mod auth;
pub mod cli;
pub mod config;
pub mod domain;
pub mod layers;
pub mod mcp;
pub mod server;
pub mod stack;
pub mod store;
pub mod upstream;
pub mod wire;
