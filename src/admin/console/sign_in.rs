//! The page on which the token is asked for.
//!
//! Promises: it says nothing of the gate, not even its name; the token is posted, and never stands in a URL; afterwards it
//! leads to a page of the console, and to no other place.

use http::{Response, StatusCode};
use maud::html;

use super::page::bare;
use super::{PREFIX, words};
use crate::wire::envelope::Body;

/// Where it is.
pub(super) const PATH: &str = "/console/sign-in";

/// Where it is, for somebody who wants to see another page.
pub(super) fn link(to: &str) -> String {
    words::link(PATH, [("to", if way_back(Some(to)) == "/" { "" } else { to })])
}

/// Where somebody wanted to go, if that is a page of the console.
pub(super) fn way_back(to: Option<&str>) -> &str {
    let is_own = |to: &&str| {
        let path = to.split('?').next().unwrap_or_default();
        let plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        plain && (path == "/" || path.starts_with(PREFIX) && path != PATH)
    };
    to.filter(is_own).unwrap_or("/")
}

/// The form, with what is wrong.
pub(super) fn form(status: StatusCode, to: Option<&str>, wrong: Option<&str>) -> Response<Body> {
    let body = html! {
        form class="sign-in" method="post" action=(PATH) {
            h1 { "Sign in" }
            @if let Some(wrong) = wrong { p class="warn" role="alert" id="wrong" { (wrong) } }
            // There is one operator. Password managers want a name all the same, and browsers say so.
            input type="text" name="username" value="operator" autocomplete="username" readonly hidden;
            label for="token" { "Admin token" }
            input id="token" name="token" type="password" required autofocus autocomplete="current-password"
                spellcheck="false" autocapitalize="off" aria-describedby=[wrong.map(|_| "wrong")];
            input type="hidden" name="to" value=(way_back(to));
            button { "Sign in" }
        }
    };
    bare(status, "Sign in", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_signs_in_comes_to_a_page_of_the_console_and_to_no_other_place() {
        for to in ["/", "/?range=7d", "/console/search?q=a%26b", "/console/story?key=k"] {
            assert_eq!(way_back(Some(to)), to);
        }
        for to in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "/drain",
            "/console/sign-in",
            "/console/\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
        ] {
            assert_eq!(way_back(Some(to)), "/", "{to}");
        }
        assert_eq!(link("/"), PATH);
        assert_eq!(link("/console/search?q=a"), "/console/sign-in?to=%2Fconsole%2Fsearch%3Fq%3Da");
    }
}
