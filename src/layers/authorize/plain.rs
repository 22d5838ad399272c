//! A plain request before the policy.
//!
//! Promises: the same decision as for a message: scopes first, then the tenant, then the key. Nothing can be taken out of
//! a plain request, since its bytes go on as they came: so what names a tenant in it must name the actor's own.
//!
//! Absent on purpose: the match of its path, which the step before made, by the policy that decides here.

use http::header::USER_AGENT;

mod subject;

use super::facts::Told;
use super::take::key_in_header;
use super::{AllowedWhat, Court, Mutation, Sends, place_of_key};
use crate::domain::actor::Actor;
use crate::domain::fingerprint::Fingerprints;
use crate::domain::json::{Json, Object, folded};
use crate::domain::key::Key;
use crate::domain::ledger::AskedRound;
use crate::domain::policy::{Effect, KeyRule, Kind, Operation, Route};
use crate::domain::redact::omitted;
use crate::domain::refusal::Refusal;
use crate::http::content::Content;
use crate::http::query::Query;
use crate::layers::parse::Head;
use crate::layers::plain::{Going, GoingBody, Ground, Matched, MatchedBody, Open, Plain};
use crate::upstream::headers::IDEMPOTENCY_KEY;

/// The protocol of a plain request, in its row.
const HTTP: &str = "http";

impl Court {
    /// What the policy makes of a plain request.
    pub(super) fn allow_plain(&self, head: &mut Head, matched: Matched) -> Result<AllowedWhat, Refusal> {
        let observed = matched.operation.is_observed();
        let weighed = self.weigh_plain(head, &matched);
        let decided = decide(head, &matched, weighed);
        let Matched { operation, method, target, body, .. } = matched;
        head.keeps_key = observed;
        let body = match (decided, body) {
            (Ok(Decided::Claims(key, prints)), MatchedBody::Whole(content)) => {
                let plain = Plain { method, target, body: content.bytes().clone() };
                let (sends, round) = (Sends::Plain(plain), AskedRound::default());
                let mutation = Box::new(Mutation { sends, operation, key, prints, round });
                return Ok(if observed {
                    AllowedWhat::Recorded(mutation)
                } else {
                    AllowedWhat::Mutation(mutation)
                });
            }
            (decided, body) => (decided, going(body)),
        };
        let (decided, body) = body;
        let ground = match decided {
            // What has a key was read whole.
            Ok(Decided::Claims(..)) => return Err(Refusal::Internal),
            Ok(Decided::Open(ground)) => ground,
            Err(refusal) if observed => Ground::Unenforced(refusal),
            Err(refusal) => return Err(refusal),
        };
        Ok(AllowedWhat::Open(Box::new(Open { going: Going { method, target, body }, operation, ground })))
    }

    /// Takes the fingerprints, and notes what the row will say.
    fn weigh_plain(&self, head: &mut Head, matched: &Matched) -> Weighed {
        let taken = key_in_header(&head.headers);
        let query = Query::of(&matched.target);
        let content = match &matched.body {
            MatchedBody::Whole(content) => Some(content),
            MatchedBody::Coming { .. } => None,
        };
        let canonical = content.map(Content::canonical).unwrap_or_default();
        let prints = self.fingerprinter.of_request(&[
            matched.method.as_str().as_bytes(),
            matched.target.path().as_bytes(),
            &query.canonical(),
            content.map(Content::media).unwrap_or_default().as_bytes(),
            &canonical,
        ]);
        let is_own = is_own(&matched.operation, head.caller.actor(), matched, &query, content);
        head.subject = subject::of(matched, &query, content);
        let arguments = self.told(matched, &query, content);
        let client = head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let told = Told {
            name: matched.operation.name(),
            rule: Some(&matched.operation),
            taken: &taken,
            prints: &prints,
            arguments: Some(Ok(arguments)),
            protocol: HTTP,
            client,
        };
        head.asked.learn_facts(self.facts(head, &matched.policy, told));
        head.asked.is_call(&matched.policy, Some(&matched.operation));
        Weighed { taken, prints, is_own }
    }

    /// What the row tells of the request: parameters, query and body, each masked as its own root.
    fn told(&self, matched: &Matched, query: &Query, content: Option<&Content>) -> Json {
        let parameters: Object = matched
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), Json::from(value.as_str())))
            .collect();
        let body = content.filter(|content| !content.bytes().is_empty()).map(|content| {
            content.told().unwrap_or_else(|| {
                let hash = self.fingerprinter.of_bytes(content.bytes());
                let text = omitted(content.bytes().len(), &hash);
                Json::parse(text.as_bytes(), crate::domain::json::MAX_DEPTH).unwrap_or(Json::Null)
            })
        });
        let parts = [("path", Some(Json::Object(parameters))), ("query", Some(query.told())), ("body", body)];
        let mut told = Object::new();
        for (name, part) in parts {
            let Some(mut part) = part.filter(|part| !is_empty(part)) else { continue };
            matched.operation.redactor().mask(&mut part);
            told.insert(name, part);
        }
        Json::Object(told)
    }
}

/// What was found in a request.
struct Weighed {
    taken: Result<Option<Key>, Refusal>,
    prints: Fingerprints,
    /// Whether it names no other tenant than the actor's.
    is_own: bool,
}

/// How it goes on.
enum Decided {
    /// With a claim under this key.
    Claims(Key, Fingerprints),
    /// Without one.
    Open(Ground),
}

fn decide(head: &Head, matched: &Matched, weighed: Weighed) -> Result<Decided, Refusal> {
    let Weighed { taken, prints, is_own } = weighed;
    let (actor, name) = (head.caller.actor(), matched.operation.name());
    let operation = matched.policy.decide(actor, Kind::Route, name, head.subject.arguments())?;
    if !is_own {
        return Err(Refusal::ForeignTenant);
    }
    if operation.effect() != Effect::Mutation {
        return Ok(Decided::Open(Ground::Read));
    }
    match (taken?, operation.route().map(Route::key)) {
        (Some(key), _) => Ok(Decided::Claims(key, prints)),
        // Whoever sends an empty key meant to send one, and would send this request again.
        (None, Some(KeyRule::Optional)) if !head.headers.contains_key(IDEMPOTENCY_KEY) => {
            Ok(Decided::Open(Ground::Unkeyed))
        }
        (None, Some(KeyRule::Optional | KeyRule::Required) | None) => {
            Err(Refusal::KeyRequired { place: place_of_key(operation) })
        }
    }
}

/// Whether whatever names a tenant in a request names the actor's.
fn is_own(
    operation: &Operation,
    actor: &Actor,
    matched: &Matched,
    query: &Query,
    content: Option<&Content>,
) -> bool {
    operation.tenant_arguments().iter().map(|name| folded(name)).all(|name| {
        let in_path = matched.parameters.iter().filter(|(parameter, _)| folded(parameter) == name);
        let in_path = in_path.map(|(_, value)| Some(value.clone()));
        let in_body = content.map(|content| content.values(&name)).unwrap_or_default();
        let all = in_path.chain(query.values(&name)).chain(in_body);
        all.into_iter().all(|value| value.as_deref() == Some(actor.tenant()))
    })
}

fn is_empty(part: &Json) -> bool {
    part.as_object().is_some_and(Object::is_empty)
}

fn going(body: MatchedBody) -> GoingBody {
    match body {
        MatchedBody::Whole(content) => GoingBody::Whole(content.bytes().clone()),
        MatchedBody::Coming { source, finding } => GoingBody::Coming { source, finding },
    }
}
