//! Oncegate: every mutation once, for one verified actor, if policy allows it, and every attempt written down.
//!
//! # Who may import whom
//!
//! A module imports only from the lines below its own; `tests/it/house.rs` reads this table and checks it.
//!
//! ```text
//! main                       arguments in, exit code out
//! cli                        the commands
//! app                        the composition root
//! server                     listeners, connections, drain
//! stack  admin               the life of one call, whole; health and metrics
//! layers                     its steps, one file each
//! upstream  wire             what goes out; what the client hears
//! store  auth  mcp  config   the edges: database, tokens, protocol, settings
//! domain                     the rules, pure
//! ```

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
pub mod tls;
pub mod upstream;
pub mod wire;
