//! Tokens of services: who has one, and whom it makes its holder.

use oncegate::auth::{Service, ServiceFault, Services};
use oncegate::domain::tenants::{TenantFault, Tenants};

fn services() -> Services {
    let acme = Tenants::of(["acme".to_owned()]);
    let scopes = || vec!["jobs:refund".to_owned()];
    Services::new([
        Service::new("worker".to_owned(), ["the-new-token", "the-old-token"], scopes(), acme),
        Service::new("app".to_owned(), ["the-token-of-the-app"], scopes(), Tenants::Any),
    ])
}

#[test]
fn a_token_is_its_services_and_no_other_text_is() {
    let services = services();
    let holder = |token: &str| services.holder(token).map(|service| service.name().to_owned());
    assert_eq!(holder("the-new-token").as_deref(), Some("worker"));
    assert_eq!(holder("the-old-token").as_deref(), Some("worker"));
    assert_eq!(holder("the-token-of-the-app").as_deref(), Some("app"));
    for other in ["", "the-new-toke", "the-new-token ", "THE-NEW-TOKEN", "worker"] {
        assert_eq!(holder(other), None, "{other:?}");
    }
    assert!(Services::default().is_empty() && Services::default().holder("").is_none());
}

#[test]
fn a_service_is_an_actor_for_the_tenants_that_it_may_speak_for() {
    let services = services();
    let worker = services.holder("the-new-token").expect("a service");
    let actor = worker.actor(["acme"]).expect("an actor");
    assert_eq!((actor.tenant(), actor.user(), actor.session()), ("acme", "worker", None));
    assert_eq!(actor.scopes_joined(), "jobs:refund");
    assert_eq!(worker.actor(["globex"]), Err(ServiceFault::Tenant(TenantFault::Foreign)));
    assert_eq!(worker.actor([]), Err(ServiceFault::Tenant(TenantFault::Unnamed)));
    let app = services.holder("the-token-of-the-app").expect("a service");
    assert_eq!(app.actor(["globex"]).map(|actor| actor.tenant().to_owned()), Ok("globex".to_owned()));
    for nobody in ["", " acme", "a\nb"] {
        assert!(matches!(app.actor([nobody]), Err(ServiceFault::NoActor(_))), "{nobody:?}");
    }
}
