//! Where the pages lead.
//!
//! Promises: a link to a file of this repository finds it, and one to a heading finds that. Others' pages are not asked.

use std::collections::HashSet;
use std::path::Path;

use super::page::Page;

pub(super) fn faults(pages: &[Page]) -> Vec<String> {
    let headings = |name: &str| pages.iter().find(|page| page.name == name).map(anchors);
    let mut faults = Vec::new();
    for page in pages {
        let folder = Path::new(&page.name).parent().unwrap_or(Path::new(""));
        for target in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") || file.contains(char::is_whitespace) {
                continue;
            }
            let name = if file.is_empty() { page.name.clone() } else { joined(folder, file) };
            let found = match headings(&name) {
                Some(headings) => anchor.is_empty() || headings.contains(anchor),
                None => super::root().join(&name).exists(),
            };
            if !found {
                faults.push(format!("{}: the link to {target} leads nowhere", page.name));
            }
        }
    }
    faults
}

/// Pages that the index in `docs/` does not lead to.
pub(super) fn unlisted(pages: &[Page]) -> Vec<String> {
    let index = pages.iter().find(|page| page.name == "docs/README.md").expect("the index of the pages");
    let listed = |page: &&Page| index.text.contains(&format!("]({})", page.name.trim_start_matches("docs/")));
    let others = pages.iter().filter(|page| page.name.starts_with("docs/") && page.name != index.name);
    others
        .filter(|page| !listed(page))
        .map(|page| format!("{} is not in docs/README.md", page.name))
        .collect()
}

/// A path from the root, without the steps up.
fn joined(folder: &Path, file: &str) -> String {
    let mut parts: Vec<_> = folder.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part.to_owned()),
        }
    }
    parts.join("/")
}

/// The names that headings are linked by, as forges make them.
fn anchors(page: &Page) -> HashSet<String> {
    let mut fenced = false;
    let mut names = HashSet::new();
    for line in page.text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            names.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    names
}
