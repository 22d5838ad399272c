//! The frame of every page, and the headers of every answer.
//!
//! Promises: nothing on a page runs, and nothing comes from another host: the policy that goes with it allows this style,
//! by its hash, and forms that lead here, and no more. No answer is kept by any cache, or read by another site's page.
//!
//! Absent on purpose: scripts. What they would do here, links and forms do.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::words;
use crate::domain::time::Timestamp;
use crate::wire::envelope::{Body, full};

const STYLE: &str = include_str!("style.css");

/// A small picture for the browser's tab: a gate's bar, and a dot that has passed it.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect \
    width='16' height='16' rx='4' fill='%231f5f8b'/%3E%3Cpath d='M4 3v10M12 3v10' stroke='white' \
    stroke-width='2'/%3E%3Ccircle cx='8' cy='8' r='2' fill='white'/%3E%3C/svg%3E";

/// How often a page that refreshes itself does so, in seconds.
const REFRESH: u32 = 30;

static CONTENT_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let text = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; form-action 'self'; frame-ancestors 'none'; \
         base-uri 'none'"
    );
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Which page it is, for the way about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    /// What goes on.
    Overview,
    /// The audit.
    Search,
    /// The policy in force.
    Policy,
    /// None of these.
    Elsewhere,
}

/// A page for somebody who is signed in.
pub(super) struct Page<'a> {
    /// The gate's `service`.
    pub(super) service: &'a str,
    /// Its place.
    pub(super) here: Here,
    /// Its name.
    pub(super) title: &'a str,
    /// The store's time; none where the store did not say it.
    pub(super) now: Option<Timestamp>,
    /// Whether it comes anew by itself.
    pub(super) refreshes: bool,
    /// What is on it.
    pub(super) body: Markup,
}

impl Page<'_> {
    /// The answer.
    pub(super) fn answer(self, status: StatusCode) -> Response<Body> {
        let link = |here: Here, to: &str, name: &str| {
            html! { a href=(to) aria-current=[(self.here == here).then_some("page")] { (name) } }
        };
        let body = html! {
            a class="skip" href="#main" { "Skip to the content" }
            header class="top" {
                p class="brand" { a href="/" { "Oncegate" } " " span class="service" { (words::value(self.service)) } }
                nav aria-label="Pages" {
                    (link(Here::Overview, "/", "Overview"))
                    (link(Here::Search, "/console/search", "Search"))
                    (link(Here::Policy, "/console/policy", "Policy"))
                }
                form method="post" action="/console/sign-out" { button class="quiet" { "Sign out" } }
            }
            main id="main" tabindex="-1" { (self.body) }
            footer {
                @if let Some(now) = self.now { "Seen at " (words::clock(now)) " UTC by the store's clock. " }
                "Read-only. Times are UTC."
            }
        };
        whole(status, &format!("{} · {} · Oncegate", self.title, self.service), self.refreshes, &body)
    }
}

/// A page for a stranger: it says nothing of the gate.
pub(super) fn bare(status: StatusCode, title: &str, body: &Markup) -> Response<Body> {
    whole(status, title, false, &html! { main id="main" class="bare" { (body) } })
}

fn whole(status: StatusCode, title: &str, refreshes: bool, body: &Markup) -> Response<Body> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex, nofollow";
                @if refreshes { meta http-equiv="refresh" content=(REFRESH); }
                title { (words::plain(title)) }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    answer(status, HeaderValue::from_static("text/html; charset=utf-8"), page.into_string())
}

/// Goes on at another page, with a cookie or without.
pub(super) fn see_other(to: &str, cookie: Option<&str>) -> Response<Body> {
    let mut response =
        answer(StatusCode::SEE_OTHER, HeaderValue::from_static("text/plain; charset=utf-8"), String::new());
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/")));
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()) {
        headers.insert(http::header::SET_COOKIE, cookie);
    }
    response
}

/// A sentence, for whoever is refused before anything is known of him.
pub(super) fn sentence(status: StatusCode, text: &str) -> Response<Body> {
    answer(status, HeaderValue::from_static("text/plain; charset=utf-8"), format!("{text}\n"))
}

fn answer(status: StatusCode, kind: HeaderValue, text: String) -> Response<Body> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not no-referrer: with that, browsers say of a form's origin only `null`, and a stranger's says that too.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_SECURITY_POLICY, CONTENT_POLICY.clone());
    response
}
