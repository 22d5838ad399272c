//! For which tenants a caller may call that no JWT names: a service with its token, the pod itself.
//!
//! Promises: a call is for one tenant, and for one that was allowed to its caller; where several are allowed the call
//! names one, and no default stands in for it.

use std::collections::BTreeSet;

/// Those that a caller may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// Always this one; nothing need be named.
    Fixed(String),
    /// One of these, which each call names.
    These(BTreeSet<String>),
    /// Whichever each call names.
    Any,
}

/// Why it is not known for whom a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantFault {
    /// It names none.
    #[error("no tenant is named")]
    Unnamed,
    /// It names more than one.
    #[error("more than one tenant is named")]
    Several,
    /// The one that it names is not open to its caller.
    #[error("the tenant is not one of the caller's")]
    Foreign,
}

impl Tenants {
    /// The tenants of a list, where `*` stands for any.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.into_iter().collect();
        if names.contains("*") { Self::Any } else { Self::These(names) }
    }

    /// The tenant of a call that names these.
    pub fn choose<'a>(&'a self, named: impl IntoIterator<Item = &'a str>) -> Result<&'a str, TenantFault> {
        let mut named = named.into_iter();
        let (one, another) = (named.next(), named.next());
        if another.is_some() {
            return Err(TenantFault::Several);
        }
        match (self, one) {
            (Self::Fixed(own), None) => Ok(own),
            (Self::Fixed(own), Some(named)) => {
                if own == named {
                    Ok(named)
                } else {
                    Err(TenantFault::Foreign)
                }
            }
            (Self::These(_) | Self::Any, None) => Err(TenantFault::Unnamed),
            (Self::These(own), Some(named)) => {
                if own.contains(named) {
                    Ok(named)
                } else {
                    Err(TenantFault::Foreign)
                }
            }
            (Self::Any, Some(named)) => Ok(named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tenants: &Tenants, named: &[&str], expected: Result<&str, TenantFault>) {
        assert_eq!(tenants.choose(named.iter().copied()), expected, "{tenants:?} {named:?}");
    }

    #[test]
    fn a_call_is_for_one_tenant_of_its_callers() {
        let these = Tenants::of(["acme".to_owned(), "globex".to_owned()]);
        let any = Tenants::of(["*".to_owned()]);
        let fixed = Tenants::Fixed("acme".to_owned());
        for tenants in [&these, &any] {
            check(tenants, &[], Err(TenantFault::Unnamed));
            check(tenants, &["acme"], Ok("acme"));
        }
        check(&fixed, &[], Ok("acme"));
        check(&fixed, &["acme"], Ok("acme"));
        check(&fixed, &["globex"], Err(TenantFault::Foreign));
        check(&these, &["initech"], Err(TenantFault::Foreign));
        check(&these, &["*"], Err(TenantFault::Foreign));
        check(&any, &["initech"], Ok("initech"));
        for tenants in [&these, &any, &fixed] {
            check(tenants, &["acme", "acme"], Err(TenantFault::Several));
        }
    }
}
