//! One operation before and after, aspect by aspect.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, ChangeKind, by_whom, effect_of, say};
use crate::domain::ledger::Downstream;
use crate::domain::policy::answers::Meaning;
use crate::domain::policy::facets::facets;
use crate::domain::policy::operation::{Duplicate, Effect, Mutation, OnToolError, Operation, Twin};
use crate::domain::policy::route::{KeyRule, Route};
use crate::domain::units::duration_text;

use ChangeKind::{Changes, Closes, OpensArguments, OpensCall, OpensTerms, OpensToMore, OpensUnguarded};

/// Aspects that are compared by what they mean. The others are told as they are written.
const WEIGHED: [&str; 18] = [
    "effect",
    "mode",
    "scopes",
    "allow",
    "redact",
    "tenant_arguments",
    "method",
    "path",
    "key",
    "ttl",
    "downstream",
    "duplicate_window",
    "shared_within_tenant",
    "on_tool_error",
    "forward_key",
    "releases",
    "completes",
    "reconcile",
];

struct Comparison<'a> {
    before: &'a Operation,
    after: &'a Operation,
    changes: &'a mut Vec<Change>,
}

/// Tells what is different.
pub(super) fn compare(before: &Operation, after: &Operation, changes: &mut Vec<Change>) {
    let mut comparison = Comparison { before, after, changes };
    if comparison.effect() {
        comparison.access();
        comparison.requests();
        comparison.seen();
        if let (Some(old), Some(new)) = (before.mutation(), after.mutation()) {
            comparison.terms(old, new);
        }
        comparison.others();
    }
}

impl Comparison<'_> {
    fn say(&mut self, kind: ChangeKind, what: impl Into<String>) {
        say(self.changes, kind, self.after, what);
    }

    /// False where nothing else is worth a word: it was, or is now, denied to everybody.
    fn effect(&mut self) -> bool {
        let (old, new) = (self.before.effect(), self.after.effect());
        match (old, new) {
            (Effect::Deny, Effect::Deny) => return false,
            (Effect::Deny, Effect::Read | Effect::Mutation | Effect::Runs) => {
                let rule = self.after.argument_rule().map(|rule| format!(", where {}", rule.text()));
                let what = format!(
                    "was denied, and can be called now: {}, {}{}",
                    effect_of(self.after),
                    by_whom(self.after),
                    rule.unwrap_or_default()
                );
                self.say(OpensCall, what);
                return false;
            }
            (Effect::Read | Effect::Mutation | Effect::Runs, Effect::Deny) => {
                self.say(Closes, "is denied to everybody now");
                return false;
            }
            (Effect::Mutation, Effect::Read) => {
                self.say(
                    OpensUnguarded,
                    "was a mutation, and is a read now: no key, no claim; every retry runs",
                );
            }
            (Effect::Read, Effect::Mutation) => {
                self.say(Closes, "was a read, and is a mutation now: it needs a key, and runs once for each");
            }
            (Effect::Runs, Effect::Read | Effect::Mutation) => {
                let what = "ran other tools by their own rules, and is a call of its own now: what it runs is not decided";
                self.say(OpensCall, what);
            }
            (Effect::Read | Effect::Mutation, Effect::Runs) => {
                self.say(Closes, "runs other tools now, each of which is decided by its own rules");
            }
            (Effect::Read, Effect::Read)
            | (Effect::Mutation, Effect::Mutation)
            | (Effect::Runs, Effect::Runs) => {}
        }
        true
    }

    fn access(&mut self) {
        match (self.before.is_observed(), self.after.is_observed()) {
            (false, true) => self.say(OpensCall, "is only observed now: nothing of it is refused any more"),
            (true, false) => self.say(Closes, "was only observed, and is enforced now"),
            (true, true) | (false, false) => {}
        }
        let (gone, come) = sets(self.before.scopes(), self.after.scopes());
        if !gone.is_empty() {
            self.say(OpensToMore, format!("no longer needs {}: {}", gone.join(" and "), by_whom(self.after)));
        }
        if !come.is_empty() {
            self.say(Closes, format!("needs {} now", come.join(" and ")));
        }
        let (gone, come) = sets(self.before.tenant_arguments(), self.after.tenant_arguments());
        if !gone.is_empty() {
            let what = format!(
                "lets the caller name a tenant in {}: it is not taken out or checked any more",
                gone.join(", ")
            );
            self.say(OpensToMore, what);
        }
        if !come.is_empty() {
            self.say(
                Closes,
                format!("does not let the caller name a tenant in {} any more", come.join(", ")),
            );
        }
        let rule =
            |operation: &Operation| operation.argument_rule().map(|rule| rule.text().trim().to_owned());
        match (rule(self.before), rule(self.after)) {
            (Some(old), None) => {
                self.say(OpensArguments, format!("takes any arguments now; its rule was: {old}"));
            }
            (None, Some(new)) => self.say(Closes, format!("takes arguments only where {new}")),
            (Some(old), Some(new)) if old != new => {
                let what = format!(
                    "takes arguments by another rule, which may be the looser one: {new}; it was: {old}"
                );
                self.say(OpensArguments, what);
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn requests(&mut self) {
        let (Some(old), Some(new)) = (self.before.route(), self.after.route()) else { return };
        let methods = |route: &Route| route.methods().map(str::to_owned).collect::<Vec<_>>();
        let (gone, come) = sets(&methods(old), &methods(new));
        if !come.is_empty() {
            self.say(OpensCall, format!("answers {} now", come.join(" and ")));
        }
        if !gone.is_empty() {
            self.say(Closes, format!("does not answer {} any more", gone.join(" and ")));
        }
        let (old_path, new_path) = (old.template().as_str(), new.template().as_str());
        if old_path != new_path {
            self.say(OpensCall, format!("is at {new_path} now, which was {old_path}"));
        }
        match (old.key(), new.key()) {
            (KeyRule::Required, KeyRule::Optional) => {
                self.say(OpensUnguarded, "runs without a key now, as often as it is sent");
            }
            (KeyRule::Optional, KeyRule::Required) => self.say(Closes, "needs a key now"),
            (KeyRule::Required, KeyRule::Required) | (KeyRule::Optional, KeyRule::Optional) => {}
        }
    }

    fn seen(&mut self) {
        let (gone, come) = sets(&self.before.redactor().paths(), &self.after.redactor().paths());
        if !gone.is_empty() {
            self.say(OpensTerms, format!("does not mask {} any more", gone.join(", ")));
        }
        if !come.is_empty() {
            self.say(Closes, format!("masks {} now", come.join(", ")));
        }
    }

    fn terms(&mut self, old: &Mutation, new: &Mutation) {
        let (before, after) = (duration_text(old.ttl), duration_text(new.ttl));
        if new.ttl < old.ttl {
            self.say(
                OpensTerms,
                format!("forgets a key after {after}, which was {before}: then it runs again"),
            );
        } else if new.ttl > old.ttl {
            self.say(Closes, format!("remembers a key for {after}, which was {before}"));
        }
        self.downstream(old.downstream, new.downstream);
        if old.forward_key() != new.forward_key() {
            let what = format!(
                "forwards the key as {}, which was {}: to the app an earlier call has another key",
                new.forward_key().template(),
                old.forward_key().template()
            );
            self.say(OpensTerms, what);
        }
        match (old.shared_within_tenant, new.shared_within_tenant) {
            (false, true) => self.say(OpensToMore, "gives a key's answer to every user of the tenant"),
            (true, false) => self.say(Closes, "gives a key's answer to its own user only"),
            (true, true) | (false, false) => {}
        }
        match (old.on_tool_error(), new.on_tool_error()) {
            (OnToolError::Keep, OnToolError::Release) => {
                self.say(OpensTerms, "takes a tool error for a call that did not run: its key may run again");
            }
            (OnToolError::Release, OnToolError::Keep) => {
                self.say(Closes, "keeps a tool error as the answer: its key does not run again");
            }
            (OnToolError::Keep, OnToolError::Keep) | (OnToolError::Release, OnToolError::Release) => {}
        }
        self.twins(old.twin(), new.twin());
        self.answers(old, new);
        if old.reconcile() != new.reconcile() {
            let what = match (old.reconcile().is_some(), new.reconcile().is_some()) {
                (_, true) => {
                    "asks the app in another way what became of a call: what it says may let a key run again"
                }
                (_, false) => "does not ask the app any more what became of a call",
            };
            self.say(if new.reconcile().is_some() { OpensTerms } else { Closes }, what);
        }
    }

    fn downstream(&mut self, old: Downstream, new: Downstream) {
        match (old, new) {
            (Downstream::Unsafe, Downstream::Idempotent { retention }) => {
                let what = format!(
                    "may be sent again for {} where its answer got lost: the app is said to honour the key",
                    duration_text(retention)
                );
                self.say(OpensTerms, what);
            }
            (Downstream::Idempotent { .. }, Downstream::Unsafe) => {
                self.say(Closes, "is never sent again where its answer got lost");
            }
            (Downstream::Idempotent { retention: old }, Downstream::Idempotent { retention: new })
                if old != new =>
            {
                let what =
                    format!("may be sent again for {}, which was {}", duration_text(new), duration_text(old));
                self.say(if new > old { OpensTerms } else { Closes }, what);
            }
            (Downstream::Unsafe, Downstream::Unsafe)
            | (Downstream::Idempotent { .. }, Downstream::Idempotent { .. }) => {}
        }
    }

    fn twins(&mut self, old: Option<Twin>, new: Option<Twin>) {
        /// How much of a guard it is: whether it refuses, and how far back it looks.
        fn weight(twin: Option<Twin>) -> (bool, u128) {
            twin.map_or((false, 0), |twin| (twin.then == Duplicate::Refuse, twin.window.as_millis()))
        }
        let words = |twin: Option<Twin>| match twin {
            None => "not looked for".to_owned(),
            Some(Twin { window, then: Duplicate::Flag }) => {
                format!("marked within {}", duration_text(window))
            }
            Some(Twin { window, then: Duplicate::Refuse }) => {
                format!("refused within {}", duration_text(window))
            }
        };
        if old != new {
            let (less, more) = (weight(old), weight(new));
            let weaker = (less.0 && !more.0) || more.1 < less.1;
            let what = format!("possible duplicates are {}, which were {}", words(new), words(old));
            self.say(if weaker { OpensTerms } else { Closes }, what);
        }
    }

    fn answers(&mut self, old: &Mutation, new: &Mutation) {
        let turned = |meaning: Meaning| -> Vec<String> {
            let all = (200..600).filter(|status| {
                new.answers().of(*status) == meaning && old.answers().of(*status) != meaning
            });
            all.map(|status: u16| status.to_string()).collect()
        };
        let (releases, completes, unknown) =
            (turned(Meaning::Releases), turned(Meaning::Completes), turned(Meaning::Unknown));
        for (statuses, kind, what) in [
            (
                releases,
                OpensTerms,
                "takes these answers for calls that did not run, whose keys may run again",
            ),
            (completes, Changes, "keeps these answers, and replays them"),
            (unknown, Closes, "does not know any more what these answers mean"),
        ] {
            if !statuses.is_empty() {
                self.say(kind, format!("{what}: {}", few(&statuses)));
            }
        }
    }

    /// What differs otherwise, as it is written.
    fn others(&mut self) {
        let (old, new) = (facets(self.before), facets(self.after));
        let keys: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let same_effect = self.before.effect() == self.after.effect();
        for key in keys.into_iter().filter(|key| !WEIGHED.contains(key)) {
            let value = |facets: &BTreeMap<&'static str, String>| facets.get(key).cloned();
            match (value(&old), value(&new)) {
                (Some(old), Some(new)) if old != new => {
                    self.say(Changes, format!("{key} is {new}, which was {old}"));
                }
                // With another effect other keys have a meaning.
                (None, Some(new)) if same_effect => {
                    self.say(Changes, format!("{key} is {new}, which was not said"));
                }
                (Some(old), None) if same_effect => {
                    self.say(Changes, format!("{key} is not said, which was {old}"));
                }
                (Some(_) | None, Some(_) | None) => {}
            }
        }
    }
}

/// What is only in the first, and what is only in the second.
fn sets(old: &[String], new: &[String]) -> (Vec<String>, Vec<String>) {
    let gone = old.iter().filter(|one| !new.contains(one)).cloned().collect();
    let come = new.iter().filter(|one| !old.contains(one)).cloned().collect();
    (gone, come)
}

/// The first few of many.
fn few(all: &[String]) -> String {
    const FEW: usize = 12;
    match all.get(..FEW) {
        Some(first) if all.len() > FEW => format!("{} and {} more", first.join(", "), all.len() - FEW),
        Some(_) | None => all.join(", "),
    }
}
