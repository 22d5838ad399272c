//! What stands in the counts' labels, and how many of it there can be.
//!
//! Promises: nobody outside makes labels many. An operation is named if a policy names it, everything else is [`OTHER`];
//! of words that are an operator's or an upstream's, the first so many have a name of their own.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwap;
use prometheus_client::encoding::{EncodeLabel as _, EncodeLabelSet, LabelSetEncoder};

use crate::domain::audit::Decision;

/// The label of what has no name of its own.
pub(super) const OTHER: &str = "other";

/// A gate of this process. That before the app has no label, so that its counts read as if it were alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OfListener(Option<Arc<str>>);

/// An operation of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OfTool {
    pub(super) listener: OfListener,
    pub(super) tool: Arc<str>,
}

/// What was decided about a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OfCall {
    pub(super) tool: OfTool,
    pub(super) decision: Decision,
    pub(super) reason: Arc<str>,
}

/// Claims in a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OfClaims {
    pub(super) listener: OfListener,
    pub(super) status: &'static str,
}

/// Something that the store is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OfOperation(pub(super) &'static str);

/// What became of something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OfResult(pub(super) &'static str);

impl EncodeLabelSet for OfListener {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => ("listener", &**name).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

impl EncodeLabelSet for OfTool {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("tool", &*self.tool).encode(encoder.encode_label())?;
        self.listener.encode(encoder)
    }
}

impl EncodeLabelSet for OfCall {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("tool", &*self.tool.tool).encode(encoder.encode_label())?;
        ("decision", self.decision.as_str()).encode(encoder.encode_label())?;
        ("reason", &*self.reason).encode(encoder.encode_label())?;
        self.tool.listener.encode(encoder)
    }
}

impl EncodeLabelSet for OfClaims {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("status", self.status).encode(encoder.encode_label())?;
        self.listener.encode(encoder)
    }
}

impl EncodeLabelSet for OfOperation {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("operation", self.0).encode(encoder.encode_label())
    }
}

impl EncodeLabelSet for OfResult {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("result", self.0).encode(encoder.encode_label())
    }
}

/// The operations that have a name of their own, by the gate that they are of.
#[derive(Debug)]
pub(super) struct Known {
    service: String,
    gates: ArcSwap<HashMap<String, HashSet<Arc<str>>>>,
    other: Arc<str>,
}

impl Known {
    /// None yet, at this service and its listeners.
    pub(super) fn at(service: &str) -> Self {
        let gates = ArcSwap::from_pointee(HashMap::new());
        Self { service: service.to_owned(), gates, other: OTHER.into() }
    }

    /// These have names from now on, besides those that have.
    pub(super) fn add(&self, service: &str, names: &[&str]) {
        self.gates.rcu(|gates| {
            let mut gates = HashMap::clone(gates);
            gates.entry(service.to_owned()).or_default().extend(names.iter().map(|name| Arc::from(*name)));
            gates
        });
    }

    /// The labels of an operation of a service.
    pub(super) fn tool(&self, service: &str, name: &str) -> OfTool {
        let gates = self.gates.load();
        let tool = gates.get(service).and_then(|names| names.get(name)).unwrap_or(&self.other);
        OfTool { listener: self.listener(service), tool: Arc::clone(tool) }
    }

    /// The label of a service: the name of the listener that it is, if it is one.
    pub(super) fn listener(&self, service: &str) -> OfListener {
        let name = service.strip_prefix(&self.service).and_then(|rest| rest.strip_prefix(':'));
        OfListener(name.map(Arc::from))
    }
}

/// Words of which only the first so many are told apart.
#[derive(Debug)]
pub(super) struct Words {
    most: usize,
    seen: RwLock<HashSet<Arc<str>>>,
}

impl Words {
    /// So many.
    pub(super) fn up_to(most: usize) -> Self {
        Self { most, seen: RwLock::default() }
    }

    /// The label of a word, and whether it is the first time that this word is met, as far as words are remembered.
    pub(super) fn of(&self, word: &str) -> (Arc<str>, bool) {
        if let Some(seen) = self.seen.read().unwrap_or_else(PoisonError::into_inner).get(word) {
            return (Arc::clone(seen), false);
        }
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= self.most && !seen.contains(word) {
            return (OTHER.into(), false);
        }
        let word: Arc<str> = word.into();
        (Arc::clone(&word), seen.insert(word))
    }
}
