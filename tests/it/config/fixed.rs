//! Which settings a reload puts into force, and which it only tells of.

use oncegate::config::{RELOADABLE, SETTINGS};

use super::Sources;

#[test]
fn every_setting_is_reloaded_or_is_named_as_one_that_waits_for_a_restart() {
    let fixed: Vec<String> = Sources::new().serve().fixed().settings().map(str::to_owned).collect();
    for setting in &SETTINGS {
        let key = setting.key;
        let reloaded = RELOADABLE.iter().any(|one| key == *one || one.ends_with('.') && key.starts_with(one));
        // What a file holds is told as what it holds.
        let waits = fixed.iter().any(|one| one == key || Some(one.as_str()) == key.strip_suffix("_file"));
        assert!(reloaded || waits, "{key} is neither");
    }
}

#[test]
fn the_page_of_reloading_names_what_is_reloaded() {
    let page = include_str!("../../../docs/reload.md");
    for key in RELOADABLE {
        assert!(
            page.contains(&format!("`{}", key.trim_end_matches('.'))),
            "docs/reload.md does not name {key}"
        );
    }
}
