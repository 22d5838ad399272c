//! What a worker asks: one JSON object, read strictly.
//!
//! Promises: a body means one thing, or is refused: no member stands twice, none is unknown, each is of its type.
//!
//! Absent on purpose: defaults that guard. Only the arguments, the result and a reason may be left out: they are `{}`,
//! `null` and none then.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use uuid::Uuid;

use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::key::{Key, KeyFault};
use crate::domain::refusal::Refusal;
use crate::layers::claim::jobs::{JobAsk, Told, Work};

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// May it begin?
    Claim,
    /// It lives.
    Renew,
    /// It is done.
    Complete,
    /// It is not done.
    Fail,
}

/// What is asked, of the actor that it is asked for.
pub(super) enum Asked {
    /// A claim.
    Claim(JobAsk),
    /// A longer lease.
    Renew(Work),
    /// That its end be stored.
    Settle(Work, Told),
}

/// A body, read.
pub(super) struct Said {
    /// For whom.
    pub(super) tenant: String,
    /// Which operation.
    pub(super) job: String,
    /// Its key, or what is wrong with it.
    pub(super) key: Result<Key, Refusal>,
    /// What of it.
    pub(super) what: What,
}

/// What only one question has.
pub(super) enum What {
    Claim { arguments: Json },
    Renew { attempt: Uuid },
    Settle { attempt: Uuid, told: Told },
}

impl Question {
    /// The question that is asked at a path.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/gate/claims" => Some(Self::Claim),
            "/gate/claims/renew" => Some(Self::Renew),
            "/gate/claims/complete" => Some(Self::Complete),
            "/gate/claims/fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

/// Whether the body is said to be JSON, as it is.
pub(super) fn check_media(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = headers.get(CONTENT_TYPE).map_or(Ok(""), HeaderValue::to_str).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::UnsupportedMedia { detail: "it is not application/json".to_owned() });
    }
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Refusal::UnsupportedMedia { detail: "it is encoded".to_owned() });
    }
    Ok(())
}

/// Reads the body of a question.
pub(super) fn read(question: Question, body: &Bytes) -> Result<Said, Refusal> {
    let json = Json::parse(body, MAX_DEPTH).map_err(|fault| unreadable(fault.to_string()))?;
    let Json::Object(object) = json else { return Err(unreadable("it is not an object".to_owned())) };
    let mut members = Members(object);
    let (tenant, job) = (members.text("tenant")?, members.text("job")?);
    let key = members.optional("key")?.unwrap_or_default();
    let key = Key::parse(&key).map_err(|fault| match fault {
        KeyFault::Missing => Refusal::KeyRequired { place: "the member key".to_owned() },
        KeyFault::TooLong | KeyFault::Unprintable | KeyFault::BadQuoting => {
            Refusal::KeyInvalid { detail: fault.to_string() }
        }
    });
    let what = match question {
        Question::Claim => {
            What::Claim { arguments: members.take("arguments").unwrap_or(Json::Object(Object::new())) }
        }
        Question::Renew => What::Renew { attempt: members.attempt()? },
        Question::Complete => {
            let attempt = members.attempt()?;
            let result = members.take("result").unwrap_or(Json::Null);
            What::Settle { attempt, told: Told::Completed { result } }
        }
        Question::Fail => {
            let attempt = members.attempt()?;
            let maybe = match members.text("executed")?.as_str() {
                "no" => false,
                "maybe" => true,
                _ => return Err(unreadable("executed is neither \"no\" nor \"maybe\"".to_owned())),
            };
            let reason = members.optional("reason")?;
            What::Settle { attempt, told: Told::Failed { maybe, reason } }
        }
    };
    members.nothing_left()?;
    Ok(Said { tenant, job, key, what })
}

/// The members that were not read yet.
struct Members(Object);

impl Members {
    fn take(&mut self, name: &str) -> Option<Json> {
        self.0.remove(name)
    }

    fn optional(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                Err(unreadable(format!("{name} is not a string")))
            }
        }
    }

    fn text(&mut self, name: &str) -> Result<String, Refusal> {
        self.optional(name)?.ok_or_else(|| unreadable(format!("{name} is missing")))
    }

    fn attempt(&mut self) -> Result<Uuid, Refusal> {
        let text = self.text("attempt_id")?;
        text.parse().map_err(|_| unreadable("attempt_id is none that a claim was answered with".to_owned()))
    }

    /// What is left is not known here; its name comes from the client, so only the first is told, and not in full.
    fn nothing_left(self) -> Result<(), Refusal> {
        match self.0.iter().next() {
            None => Ok(()),
            Some((name, _)) => {
                let name: String = name.chars().filter(|letter| !letter.is_control()).take(40).collect();
                Err(unreadable(format!("the member \"{name}\" has no meaning here")))
            }
        }
    }
}

fn unreadable(detail: String) -> Refusal {
    Refusal::BodyUnreadable { detail }
}
