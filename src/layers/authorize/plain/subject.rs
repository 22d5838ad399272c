//! What a plain request's rule is asked about: `path`, `query` and `body`, as its row has them.
//!
//! Promises: nothing is masked or shortened. A field of which some app reads another value than the one that stands here,
//! since a second one or another spelling is there as well, is unclear where the rule looks at it.

use std::sync::Arc;

use crate::domain::json::{Json, Object};
use crate::http::content::Content;
use crate::http::query::Query;
use crate::layers::plain::Matched;
use crate::layers::subject::Subject;

/// Of this request.
pub(super) fn of(matched: &Matched, query: &Query, content: Option<&Content>) -> Subject {
    let Some(rule) = matched.operation.argument_rule() else { return Subject::NotKept };
    let mut in_query = rule.fields("query");
    let mut in_body = rule.fields("body");
    let unclear = in_query.any(|(name, further)| !query.is_clear(name, further))
        || in_body.any(|(name, further)| content.is_some_and(|content| !content.is_clear(name, further)))
        || (content.is_none() && rule.looks_at("body"));
    if unclear {
        return Subject::Unclear;
    }
    let parameters = matched.parameters.iter();
    let path: Object = parameters.map(|(name, value)| (name.as_str(), Json::from(value.as_str()))).collect();
    let mut arguments = Object::new();
    arguments.insert("path", Json::Object(path));
    arguments.insert("query", query.told());
    if let Some(body) = content.and_then(Content::told) {
        arguments.insert("body", body);
    }
    Subject::Kept(Some(Arc::new(Json::Object(arguments))))
}
