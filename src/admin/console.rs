//! The console: what the gate does and did, for a person with a browser.
//!
//! Promises: it is read-only, and tells nothing without the admin token, not even which pages there are. What strangers
//! sent is shown as text. It asks the store a few questions at one time, each for a bounded time, and none of them at the
//! cost of calls. Answers that were stored for retries are never shown, nor is any secret.
//!
//! Absent on purpose: whatever changes something. That is done by commands, whose audit says who did it.

mod claims;
mod door;
mod overview;
mod page;
mod plot;
mod policy;
mod rows;
mod search;
mod sessions;
mod sign_in;
mod story;
mod words;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use http::header::ACCEPT;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use maud::html;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;
use uuid::Uuid;

use self::door::{Door, SignedIn};
use self::overview::Overview;
use self::page::{Here, Page};
use self::plot::Range;
use self::search::Search;
use super::drain::Drain;
use super::operators::OperatorsToken;
use super::policy::InForce;
use crate::domain::ledger::{ClaimId, Status};
use crate::domain::policy::{Operation, Policy};
use crate::domain::site::Sites;
use crate::domain::time::Timestamp;
use crate::store::{AuditFilter, ClaimFilter, Store, StoreError, TallyOf};
use crate::story::{Of, stories};
use crate::wire::envelope::Body;

/// What every page but the first begins with.
const PREFIX: &str = "/console/";

/// Where single rows are, by their ids.
const ROWS: &str = "/console/rows/";

/// How long the store may take for one question.
const PATIENCE: Duration = Duration::from_secs(8);

/// How many pages are made at one time, and how long another waits for its turn.
const AT_ONCE: usize = 4;
const TURN: Duration = Duration::from_secs(20);

/// The largest form, and how long one may take to come.
const FORM_BYTES: usize = 16 * 1024;
const FORM_TIME: Duration = Duration::from_secs(10);

/// What the console looks at.
pub struct Sights {
    /// The gate's `service`; its listeners' rows are shown with its own.
    pub service: String,
    /// Claims and audit.
    pub store: Arc<dyn Store>,
    /// The policies in force, by the services that they are for.
    pub policies: Vec<Ruled>,
    /// How far the gate has come on its way out.
    pub drain: Drain,
    /// How the last reload went.
    pub in_force: InForce,
}

/// A service, and the policy by which its calls are decided.
pub struct Ruled {
    /// The service: of a listener, with the listener's name.
    pub service: String,
    /// What is in force.
    pub policy: Arc<ArcSwap<Policy>>,
}

/// The console.
pub struct Console {
    sights: Sights,
    door: Door,
    turns: Semaphore,
}

/// What a page is asked with.
struct Asked(Vec<(String, String)>);

impl Console {
    /// One that this token opens, at a listener with these names.
    pub fn new(sights: Sights, token: OperatorsToken, sites: Sites) -> Self {
        Self { sights, door: Door::new(token, sites), turns: Semaphore::new(AT_ONCE) }
    }

    /// Whether a request is for the console: for one of its pages, or from somebody with a browser who has not shown the
    /// token, and is sent to where it is asked for, whatever he wants to see.
    pub(super) fn takes<B>(&self, request: &Request<B>) -> bool {
        let path = request.uri().path();
        path == "/"
            || path.starts_with(PREFIX)
            || *request.method() == Method::GET
                && wants_page(request.headers())
                && !self.door.lets_in(request.headers())
    }

    /// The answer to a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (target, headers) = (&head.uri, &head.headers);
        if !self.door.is_ours(target, headers) {
            warn!(host = ?headers.get(http::header::HOST), "A request for the console names another host.");
            let told = "This is another host's name. Ask by an address, by a loopback name, or name the host in allowed_hosts.";
            return page::sentence(StatusCode::MISDIRECTED_REQUEST, told);
        }
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        let is_posted = head.method == Method::POST;
        if is_posted && !Door::is_own_page(target, headers) {
            warn!(origin = ?headers.get(http::header::ORIGIN), "Another page posted to the console.");
            return page::sentence(
                StatusCode::FORBIDDEN,
                "Forms are sent from the console's own pages only.",
            );
        }
        let asked = Asked::of(target.query().unwrap_or_default().as_bytes());
        match target.path() {
            sign_in::PATH if is_posted => return self.sign_in(headers, body).await,
            sign_in::PATH if is_read && !self.door.lets_in(headers) => {
                return sign_in::form(StatusCode::OK, asked.text("to"), None);
            }
            sign_in::PATH if is_read => return page::see_other("/", None),
            _ => {}
        }
        if !self.door.lets_in(headers) {
            if is_read && wants_page(headers) {
                let to = target.path_and_query().map_or("/", |target| target.as_str());
                return page::see_other(&sign_in::link(to), None);
            }
            return super::operators::stranger(target.path());
        }
        match target.path() {
            "/console/sign-out" if is_posted => {
                page::see_other(sign_in::PATH, Some(&self.door.sign_out(headers)))
            }
            _ if !is_read => {
                page::sentence(StatusCode::METHOD_NOT_ALLOWED, "Pages are read, and nothing else.")
            }
            path => match timeout(TURN, self.turns.acquire()).await {
                Ok(_turn) => self.page(path, &asked).await,
                Err(_elapsed) => page::sentence(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Too many pages are asked for. Try again.",
                ),
            },
        }
    }

    /// A page for somebody who may see it.
    async fn page(&self, path: &str, asked: &Asked) -> Response<Body> {
        match (path, path.strip_prefix(ROWS).and_then(|id| id.parse().ok())) {
            ("/", _) => self.overview(asked).await,
            ("/console/search", _) => self.search(asked).await,
            ("/console/story", _) => self.story(asked).await,
            ("/console/policy", _) => {
                let body = policy::body(&self.sights.policies, &self.sights.in_force.status());
                self.answer_with(Here::Policy, "Policy", None, body, StatusCode::OK)
            }
            (_, Some(id)) => self.row(id, asked).await,
            _ => self.nothing_here(),
        }
    }

    async fn search(&self, asked: &Asked) -> Response<Body> {
        let search = Search::of(asked);
        let filter = search.filter(&self.sights.service);
        let (now, found) = tokio::join!(self.now(), self.sights.store.events(&filter));
        let now = now.ok();
        self.answer_with(Here::Search, "Search", now, search.body(&found, now), StatusCode::OK)
    }

    async fn row(&self, id: Uuid, asked: &Asked) -> Response<Body> {
        let filter = AuditFilter {
            id: Some(id),
            tenant: asked.text("tenant").map(str::to_owned),
            service: Some(self.sights.service.clone()),
            within: Some(PATIENCE),
            limit: 1,
            ..AuditFilter::default()
        };
        let (now, found) = tokio::join!(self.now(), self.sights.store.events(&filter));
        let body = match (now, found) {
            (Ok(now), Ok(found)) => match found.first() {
                Some(row) => {
                    let body = rows::body(row, now);
                    return self.answer_with(Here::Elsewhere, "Row", Some(now), body, StatusCode::OK);
                }
                None => return self.nothing_here(),
            },
            (Err(fault), _) | (_, Err(fault)) => html! { h1 { "Row" } (overview::missing(&fault)) },
        };
        self.answer_with(Here::Elsewhere, "Row", None, body, StatusCode::OK)
    }

    async fn story(&self, asked: &Asked) -> Response<Body> {
        let text = |name: &str| asked.text(name).map(str::to_owned);
        let Some(key) = text("key") else { return self.nothing_here() };
        let own = |service: &String| self.sights.policies.iter().any(|ruled| ruled.service == *service);
        let service = text("service").filter(own).unwrap_or_else(|| self.sights.service.clone());
        let of = Of { tenant: text("tenant"), service: Some(service), tool: text("tool"), key };
        let told = stories(&*self.sights.store, &of).await;
        let now = told.as_ref().ok().and_then(|told| told.first()).map(|story| story.now);
        let body = story::body(&of, &told, &self.sights.policies);
        self.answer_with(Here::Elsewhere, "Story", now, body, StatusCode::OK)
    }

    async fn overview(&self, asked: &Asked) -> Response<Body> {
        let Sights { service, store, drain, .. } = &self.sights;
        let range = Range::from_word(asked.text("range"));
        let (step, steps) = range.pieces();
        let tally = TallyOf { service: service.clone(), step, steps, within: PATIENCE };
        let of = |status| ClaimFilter {
            service: Some(service.clone()),
            status: Some(status),
            oldest_first: true,
            within: Some(PATIENCE),
            limit: claims::SHOWN,
            ..ClaimFilter::default()
        };
        let (unknown, running) = (of(Status::Unknown), of(Status::InFlight));
        let counts = join_all(self.sights.policies.iter().map(|ruled| store.open_counts(&ruled.service)));
        let (now, counted, unknown, running, counts) = tokio::join!(
            self.now(),
            store.tally(&tally),
            store.claims(&unknown),
            store.claims(&running),
            counts
        );
        let counts: Result<Vec<_>, _> = counts.into_iter().collect();
        let overview = Overview {
            range,
            refreshes: asked.text("refresh") == Some("on"),
            now,
            counted,
            unknown,
            running,
            open: counts.map(|counts| counts.concat()),
            standing: drain.standing(),
            in_force: &self.sights.in_force.status(),
            policies: &self.sights.policies,
        };
        Page {
            service,
            here: Here::Overview,
            title: "Overview",
            now: overview.now.as_ref().ok().copied(),
            refreshes: overview.refreshes,
            body: overview.body(),
        }
        .answer(StatusCode::OK)
    }

    /// The store's time.
    async fn now(&self) -> Result<Timestamp, StoreError> {
        let nobody = String::new;
        let id =
            ClaimId { tenant: nobody(), service: self.sights.service.clone(), tool: nobody(), key: nobody() };
        self.sights.store.read(&id).await.map(|seen| seen.now)
    }

    fn nothing_here(&self) -> Response<Body> {
        let body = html! {
            h1 { "There is no such page" }
            p { "What you look for may be on the " a href="/" { "overview" } ", or found by a " a href="/console/search" { "search" } "." }
        };
        self.answer_with(Here::Elsewhere, "No such page", None, body, StatusCode::NOT_FOUND)
    }

    fn answer_with(
        &self,
        here: Here,
        title: &str,
        now: Option<Timestamp>,
        body: maud::Markup,
        status: StatusCode,
    ) -> Response<Body> {
        Page { service: &self.sights.service, here, title, now, refreshes: false, body }.answer(status)
    }

    async fn sign_in(&self, headers: &HeaderMap, body: Incoming) -> Response<Body> {
        let read = timeout(FORM_TIME, Limited::new(body, FORM_BYTES).collect()).await;
        let Ok(Ok(form)) = read else {
            return page::sentence(StatusCode::BAD_REQUEST, "The form did not come whole.");
        };
        let form = Asked::of(&form.to_bytes());
        match self.door.sign_in(form.text("token").unwrap_or_default().trim(), headers) {
            SignedIn::Yes(cookie) => page::see_other(sign_in::way_back(form.text("to")), Some(&cookie)),
            SignedIn::Wrong => {
                warn!("Somebody tried to sign in at the console with a wrong token.");
                let told = "That is not the admin token. It stands in the file that admin_token_file names.";
                sign_in::form(StatusCode::UNAUTHORIZED, form.text("to"), Some(told))
            }
            SignedIn::Later(wait) => {
                warn!("Too many wrong tokens were tried at the console.");
                let told = format!(
                    "Too many wrong tokens were tried. Try again in {} s.",
                    wait.as_secs().saturating_add(1)
                );
                sign_in::form(StatusCode::TOO_MANY_REQUESTS, form.text("to"), Some(&told))
            }
        }
    }
}

impl Asked {
    fn of(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// What stands first under a name, where it is not empty.
    fn text(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }
}

/// The operation that a claim is of, where the policy still names it.
fn operation(policies: &[Ruled], service: &str, tool: &str) -> Option<Arc<Operation>> {
    let ruled = policies.iter().find(|ruled| ruled.service == service)?;
    ruled.policy.load().of_name(tool).cloned()
}

/// Whether somebody with a browser asks, rather than a program.
fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}
