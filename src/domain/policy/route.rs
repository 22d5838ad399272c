//! Which operation a plain request is: by its path first, then by its method.
//!
//! Promises: a path belongs to the most specific template that fits it, and to no other, whatever the method; a path
//! that some app takes for one of a more specific template belongs to nobody. So neither another spelling nor another
//! method turns a guarded request into one that an open prefix lets through.
//!
//! Absent on purpose: method overrides, which are refused before anybody looks here.

mod path;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

pub use path::{NormalPath, PathFault};
pub use template::Template;

use super::Policy;
use super::operation::{Effect, Operation};

/// What an operation has that is called by plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub(super) methods: BTreeSet<String>,
    pub(super) template: Template,
    pub(super) key: KeyRule,
}

/// Whether a mutation runs without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyRule {
    /// It is refused.
    #[default]
    Required,
    /// It runs, unclaimed.
    Optional,
}

impl Route {
    /// The methods that it answers, sorted.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.methods.iter().map(String::as_str)
    }

    /// Its path as the policy writes it.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Whether a mutation of it needs a key.
    pub fn key(&self) -> KeyRule {
        self.key
    }
}

/// What a plain request is.
#[derive(Clone, Debug)]
pub enum Routed<'a> {
    /// This operation.
    Matched {
        /// It.
        operation: &'a Arc<Operation>,
        /// What stands in the path for each name in the template, its escapes taken away.
        parameters: Vec<(String, String)>,
    },
    /// The path is known, with other methods.
    OtherMethod {
        /// Those, as the header `Allow` has them.
        allow: String,
    },
    /// Some app takes the path for one of another route, which says it more narrowly than the one that fits.
    Lookalike,
    /// No route's path.
    Unmatched,
}

/// Every route, by the shape of its path.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes(Vec<Served>);

/// The routes of one path.
#[derive(Clone, Debug)]
struct Served {
    template: Template,
    routes: Vec<Arc<Operation>>,
}

impl Routes {
    pub(super) fn of<'a>(operations: impl Iterator<Item = &'a Arc<Operation>>) -> Self {
        let mut by_shape: BTreeMap<String, Vec<Arc<Operation>>> = BTreeMap::new();
        for operation in operations {
            if let Some(route) = operation.route() {
                by_shape.entry(route.template.shape()).or_default().push(Arc::clone(operation));
            }
        }
        let served = by_shape.into_values().filter_map(|routes| {
            let template = routes.first()?.route()?.template.clone();
            Some(Served { template, routes })
        });
        Self(served.collect())
    }
}

impl Served {
    /// The route that answers this method. A read by GET answers HEAD; an app runs a mutation by GET for HEAD too, so
    /// that is nobody's unless it is named.
    fn of_method(&self, method: &str) -> Option<&Arc<Operation>> {
        let named = |wanted: &str| {
            self.routes.iter().find(|one| one.route().is_some_and(|route| route.methods.contains(wanted)))
        };
        named(method).or_else(|| {
            let by_get = named("GET").filter(|_| method == "HEAD")?;
            (by_get.effect() != Effect::Mutation).then_some(by_get)
        })
    }

    /// What may be asked of it, apart from what nobody may.
    fn allow(&self) -> BTreeSet<&str> {
        let open = self.routes.iter().filter(|one| one.effect() != Effect::Deny);
        let mut methods: BTreeSet<&str> =
            open.filter_map(|one| one.route()).flat_map(Route::methods).collect();
        if self.of_method("HEAD").is_some_and(|one| one.effect() != Effect::Deny) {
            methods.insert("HEAD");
        }
        methods
    }
}

impl Policy {
    /// Which operation a request with this method and path is.
    pub fn route(&self, method: &str, path: &NormalPath) -> Routed<'_> {
        let count = path.segments.len();
        let fitting = self.routes.0.iter().filter(|served| served.template.fits(path));
        let own = fitting.max_by(|one, other| one.template.specificity(&other.template, count));
        let Some(own) = own else { return Routed::Unmatched };
        if self.routes.0.iter().any(|other| other.template.is_meant_instead_of(&own.template, path)) {
            return Routed::Lookalike;
        }
        if let Some(operation) = own.of_method(method) {
            let route = operation.route();
            let parameters = route.map(|route| route.template.parameters(path)).unwrap_or_default();
            return Routed::Matched { operation, parameters };
        }
        let allow: Vec<&str> = own.allow().into_iter().collect();
        if allow.is_empty() { Routed::Unmatched } else { Routed::OtherMethod { allow: allow.join(", ") } }
    }

    /// Whether it names any plain route.
    pub fn has_routes(&self) -> bool {
        !self.routes.0.is_empty()
    }
}
