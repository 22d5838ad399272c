//! The page of settings, held against the table that the gate itself reads.
//!
//! Promises: every setting is on the page, in the order and in the words of `oncegate serve --help`, and no other is.

use std::fs;

use oncegate::config::SETTINGS;

const HEAD: &str = "| key | value | what it means, and what holds where it is not set |\n|---|---|---|\n";

#[test]
fn every_setting_is_on_its_page_as_the_help_has_it() {
    let line = |setting: &oncegate::config::Setting| {
        let many = if setting.many { ", or a list" } else { "" };
        format!("| `{}` | {}{many} | {} |\n", setting.key, setting.value, setting.help.replace('|', "\\|"))
    };
    let table: String = SETTINGS.iter().map(line).collect();
    let page = fs::read_to_string(super::root().join("docs/settings.md")).expect("the page of settings");
    let (_, listed) = page.split_once(HEAD).expect("the page has the table");
    let listed: String =
        listed.lines().take_while(|line| line.starts_with('|')).flat_map(|line| [line, "\n"]).collect();
    assert_eq!(listed, table, "docs/settings.md should say:\n{HEAD}{table}");
}
