//! What operators type, where a gate has ways out.

use std::fs;
use std::process::Output;

use super::scene::{POLICY, scene};
use crate::harness::setup::Home;

fn said(output: &Output) -> (Option<i32>, String) {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

#[tokio::test]
async fn the_policies_of_listeners_are_checked_with_the_gates_own() {
    let mut scene = scene(Home::Sqlite).await;
    let (code, both) = said(&scene.gate.run(&["policy", "check"]).await);
    assert_eq!((code, both.lines().count()), (Some(0), 2), "{both}");
    let (code, one) = said(&scene.gate.run(&["policy", "check", "--listener", "stripe"]).await);
    assert!(code == Some(0) && one.lines().count() == 1 && one.contains("routes 3"), "{one}");
    let (code, none) = said(&scene.gate.run(&["policy", "check", "--listener", "strype"]).await);
    assert!(code == Some(2) && none.contains("there is no listener \"strype\""), "{none}");
    let cases = "[[case]]\nname = \"it refunds\"\nactor = { tenant = \"acme\", user = \"u\", scopes = [\"stripe:refund\"] }\n\
                 call = { request = \"POST /v1/refunds\", key = \"k1\" }\nexpect = \"allowed\"\n";
    fs::write(scene.folder.path().join("out/a.cases.toml"), cases).expect("cases");
    let (code, tested) = said(&scene.gate.run(&["policy", "test", "--listener", "stripe"]).await);
    assert!(code == Some(0) && tested.contains("holds  it refunds"), "{tested}");

    let wrong = format!("{POLICY}\n[tools.refund_order]\neffect = \"deny\"\n");
    let wrong = wrong.replace(
        "path = \"/v1/payouts\"",
        "path = \"/v1/payouts\"\nreconcile = { get = \"/v1/x/{key}\", completed = { a = 1 } }",
    );
    fs::write(scene.folder.path().join("out/provider.toml"), wrong).expect("a policy");
    assert_eq!(scene.gate.stop().await, Some(0));
    for command in [&["policy", "check"][..], &["policy", "check", "--listener", "stripe"], &["serve"]] {
        let (code, told) = said(&scene.gate.run(command).await);
        assert_eq!(code, Some(78), "{command:?}: {told}");
        for mistake in [
            "\"refund_order\" is a tool: a listener carries routes only; name it in the policy of policy.dir",
            "nobody can be asked about \"pay_out\": the gate has no access of its own there; take reconcile out",
        ] {
            assert!(told.contains(mistake), "{command:?}: {told}");
        }
    }
}

#[tokio::test]
async fn claims_and_rows_say_to_which_listener_they_belong() {
    let scene = scene(Home::Sqlite).await;
    assert_eq!(scene.form("POST /v1/refunds", "k1", "a=1").send().await.status(), 200);
    for command in [&["claims", "list"][..], &["audit"], &["audit", "--service", "billing:stripe"]] {
        let (code, table) = said(&scene.gate.run(command).await);
        assert!(code == Some(0) && table.contains("create_refund (stripe)"), "{command:?}: {table}");
    }
    let (code, other) = said(&scene.gate.run(&["claims", "list", "--service", "bill", "--json"]).await);
    assert_eq!(
        (code, other.as_str()),
        (Some(0), ""),
        "a name that another one begins with is another service"
    );
    let (code, wrong) = said(&scene.gate.run(&["claims", "list", "--service", "billing:Stripe"]).await);
    assert!(code == Some(78) && wrong.contains("--service: \"Stripe\" cannot name a listener"), "{wrong}");
}
