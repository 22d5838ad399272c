//! What really happened, and on whose word.
//!
//! Promises: an effect stands in the journal before anybody is told of it; nothing is ever taken out.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use rmcp::model::CallToolRequestParams;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// A call as it arrived: the arguments untouched, and the headers that only the gate may set.
#[derive(Clone, Serialize)]
pub(crate) struct Call {
    tool: String,
    arguments: Value,
    tenant: Option<String>,
    user: Option<String>,
    idempotency_key: Option<String>,
}

/// One thing that happened. `id` names what it made: a refund, a charge, a mail, a query.
#[derive(Clone, Serialize)]
pub(crate) struct Effect {
    #[serde(flatten)]
    call: Call,
    id: String,
    at: String,
}

/// Money that went one way or the other.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Moved {
    pub(crate) id: String,
    pub(crate) order_id: String,
    pub(crate) amount_cents: i64,
}

/// Every effect, in order.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    effects: Vec<Effect>,
    /// What each (tenant, key) was charged.
    charges: HashMap<(String, String), Moved>,
    journal: Option<File>,
}

impl Call {
    pub(crate) fn new(request: &CallToolRequestParams, parts: Option<&Parts>) -> Self {
        let header = |name| Some(parts?.headers.get(name)?.to_str().ok()?.to_owned());
        Self {
            tool: request.name.to_string(),
            arguments: request.arguments.clone().map_or(Value::Null, Value::Object),
            tenant: header("x-oncegate-tenant"),
            user: header("x-oncegate-user"),
            idempotency_key: header("idempotency-key"),
        }
    }

    /// The customer account that the call is for; nobody's where no gate said whose.
    pub(crate) fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or_default()
    }
}

impl Ledger {
    /// An empty ledger that also writes to the file at `journal`.
    pub(crate) fn open(journal: Option<&Path>) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        let journal = journal.map(open).transpose()?;
        Ok(Self(Mutex::new(Pages { journal, ..Pages::default() })))
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.pages().effects.clone()
    }

    /// Does what the call asks, and returns the id of what came of it.
    pub(crate) fn carry_out(&self, call: Call, prefix: &str) -> io::Result<String> {
        self.pages().carry_out(call, prefix)
    }

    /// The charge that this tenant's key made, now or before. Without a key, always a new one.
    pub(crate) fn charge_once(&self, call: Call, order_id: String, amount_cents: i64) -> io::Result<Moved> {
        let key = call.idempotency_key.clone().map(|key| (call.tenant().to_owned(), key));
        let mut pages = self.pages();
        if let Some(made) = key.as_ref().and_then(|key| pages.charges.get(key)) {
            return Ok(made.clone());
        }
        let id = pages.carry_out(call, "ch")?;
        let charge = Moved { id, order_id, amount_cents };
        pages.charges.extend(key.map(|key| (key, charge.clone())));
        Ok(charge)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn carry_out(&mut self, call: Call, prefix: &str) -> io::Result<String> {
        let id = format!("{prefix}_{}", self.effects.len() + 1);
        let effect = Effect { call, id: id.clone(), at: jiff::Timestamp::now().to_string() };
        if let Some(journal) = &mut self.journal {
            // One write for one line, so that a reader never meets half of one.
            journal.write_all(format!("{}\n", json!(effect)).as_bytes())?;
        }
        self.effects.push(effect);
        Ok(id)
    }
}
