//! Oncegate: every mutation once, for one verified actor, if policy allows it, and every attempt written down.
//!
//! # The life of a call
//!
//! [`server`] takes a connection and hands each request to the [`stack`], which is read from top to bottom: notes are
//! taken ([`layers::observe`]), the one step that answers stands around the rest ([`layers::reply`]), host and origin are
//! seen to be ours ([`layers::address`]), the token becomes an actor ([`layers::authenticate`]), the call finds a place
//! among the running ones, in its tenant's turn ([`layers::queue`]), bytes become one checked message
//! ([`layers::parse`]), the policy allows it ([`layers::authorize`]), a mutation's claim is committed
//! ([`layers::claim`]), and the call goes out ([`layers::forward`]). What comes on the way to an answer
//! (progress, questions) passes as it comes, down the line to the caller ([`layers::line`]); the answer is judged, stored
//! with its audit row, and only then told.
//!
//! Off the MCP endpoint a request is a plain one: the policy's routes say which operation it is, its body is read as far
//! as that needs ([`http`], [`layers::plain`]), its bytes go out as they came, and its status says what became of it. All
//! steps are the same, and so is the ledger.
//!
//! Ids of the upstream's that a client gets (sessions, tasks, places in a stream) are sealed for its actor
//! ([`domain::seal`]), so that they open for nobody else, in any pod, with nothing stored.
//!
//! What the store cannot take while it is away waits in a file ([`spool`]), through restarts too, until it can.
//!
//! Work that runs later than its request passes no gate: its worker asks for a claim, and reports ([`admin::jobs`]). The
//! ledger, the policy and the audit are the same.
//!
//! What all of this came to, a person sees with a browser ([`admin::console`]).
//!
//! What a dead process left behind, its claims and the rows that it could not write, the [`janitor`] of any other
//! takes in hand.
//!
//! What has been kept long enough, the [`sweeper`] of one gate deletes for all.
//!
//! A gate that observes has a stack of its own: one step ([`layers::watch`]) decides what all of these would have
//! decided, and every request goes on as it came. Nothing below is promised of it but that its records are true.
//!
//! # What holds whatever happens
//!
//! To see that a refund cannot run twice, read three files: `domain/ledger/admit.rs` (who may run),
//! `domain/ledger/settle.rs` (what may be written of it), `layers/claim/exchange.rs` (that it is carried out in
//! that order). They lean on two promises: a store applies a write only to the row that was decided about
//! ([`store`]), and a request is sent once, or reported unsent only if no byte went out ([`upstream`]).
//!
//! - A claim is committed before the first byte goes upstream.
//! - Authorization comes before the claim, and again before every replay and after every wait.
//! - The answer is stored before the client sees it.
//! - Whoever hangs up stops nothing: claimed work runs in a task of its own.
//! - What was checked is what is forwarded.
//! - What cannot be claimed is refused.
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
//! stack  admin  janitor  sweeper   the life of one call, whole; health, counts, the console, the jobs' gate; claims that nobody looks after; what is too old
//! layers                     its steps, one file each
//! upstream  wire  story      what goes out; what the client hears; what became of a key, told
//! store  spool  auth  mcp  http  config  herd   the edges: database, what waits for it, tokens, protocols, Redis
//! traces                     what a call went through, told to whoever follows it
//! meter                      what is counted
//! domain  tls                the rules, pure; whom TLS connections trust
//! ```

pub mod admin;
pub mod app;
pub mod auth;
pub mod cli;
pub mod config;
pub mod domain;
pub mod herd;
pub mod http;
pub mod janitor;
pub mod layers;
pub mod mcp;
pub mod meter;
pub mod server;
pub mod spool;
pub mod stack;
pub mod store;
pub mod story;
pub mod sweeper;
pub mod tls;
pub mod traces;
pub mod upstream;
pub mod wire;
