//! What a page shows, held against what came.
//!
//! Promises: what differs in every run is masked on both sides (ids, times, how long something took); `…` in a page
//! stands for anything in its line, and for any lines where it stands alone. All else must be the same, word for word;
//! only the width of gaps is nobody's business.

/// How much of what came the page shows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shows {
    All,
    /// These lines in this order, with others between and behind: a terminal that runs on.
    Some,
}

/// The first line of the page that did not come.
pub(super) fn missing(page: &str, came: &str, shows: Shows) -> Option<String> {
    let page: Vec<_> = page.lines().map(masked).filter(|line| !line.is_empty()).collect();
    let came: Vec<_> = came.lines().map(masked).filter(|line| !line.is_empty()).collect();
    let mut at = 0;
    let mut skips = shows == Shows::Some;
    for line in &page {
        if line == "…" {
            skips = true;
            continue;
        }
        let ahead = came.get(at..).unwrap_or_default();
        let found = ahead.iter().position(|came| fits(line, came));
        match found {
            Some(skipped) if skips || skipped == 0 => at += skipped + 1,
            Some(_) | None => {
                return Some(format!(
                    "{line}\n  where there was\n{}",
                    ahead.first().map_or("the end", |line| line)
                ));
            }
        }
        skips = shows == Shows::Some;
    }
    match came.get(at) {
        Some(more) if !skips => Some(format!("the end\n  where there was\n{more}")),
        Some(_) | None => None,
    }
}

/// Whether the line is the page's, whose `…` stand for anything.
fn fits(page: &str, came: &str) -> bool {
    let Some((begin, rest)) = page.split_once('…') else { return page == came };
    let Some(mut came) = came.strip_prefix(begin) else { return false };
    let mut pieces = rest.split('…').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return came.ends_with(piece);
        }
        let Some(at) = came.find(piece) else { return false };
        came = came.get(at + piece.len()..).unwrap_or_default();
    }
    true
}

/// A line with one blank for every gap, and names for what differs in each run.
fn masked(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let timed = words.iter().any(|word| is_time(word));
    // In a row of a table a bare number is a count of milliseconds, or of bytes.
    let words = words.into_iter().map(|word| {
        if timed && word.bytes().all(|byte| byte.is_ascii_digit()) {
            "‹n›".to_owned()
        } else {
            masked_word(word)
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A word's parts between its punctuation, each masked where it is of a kind that differs.
fn masked_word(word: &str) -> String {
    let inside = |c: char| c.is_ascii_alphanumeric() || ['-', '.', ':', 'µ'].contains(&c);
    let mut out = String::new();
    let mut rest = word;
    while let Some(begin) = rest.find(inside) {
        let (before, from) = rest.split_at(begin);
        let (part, after) = from.split_at(from.find(|c| !inside(c)).unwrap_or(from.len()));
        let bare = part.trim_end_matches(['.', ':']);
        out.push_str(before);
        if is_time(bare) {
            out.push_str("‹time›");
        } else {
            out.push_str(
                &bare.split(':').map(|piece| mask(piece).unwrap_or(piece)).collect::<Vec<_>>().join(":"),
            );
        }
        out.push_str(part.get(bare.len()..).unwrap_or_default());
        rest = after;
    }
    out + rest
}

fn mask(piece: &str) -> Option<&'static str> {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups: Vec<_> = piece.split('-').map(str::len).collect();
    if groups == [8, 4, 4, 4, 12] && hex(&piece.replace('-', "")) {
        return Some("‹id›");
    }
    if piece.len() >= 12 && hex(piece) {
        return Some("‹hex›");
    }
    // A token: three long pieces of base64 with points between them.
    if piece.starts_with("eyJ") {
        return Some("‹token›");
    }
    is_span(piece).then_some("‹span›")
}

/// `2026-12-01T14:11:37.476000Z`, `14:11:37`.
fn is_time(word: &str) -> bool {
    let word = word.trim_matches(['"', ',', '(', ')']);
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("0000-00-00T00:00") || shape == "00:00:00"
}

/// `41ms`, `1.5s`, `23h59m`.
fn is_span(piece: &str) -> bool {
    let units: String = piece.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
    piece.starts_with(|c: char| c.is_ascii_digit())
        && ["µs", "ms", "s", "m", "h", "d", "hm", "ms", "dh", "hms"].contains(&units.as_str())
}

#[test]
fn what_differs_in_every_run_is_no_difference() {
    let page = "AT  KEY\n2026-12-01T14:11:37.476000Z one  6 yes\nid 5d0e2e52-1717-4016-90c9-9f0102ffbaef in 6ms … end";
    let came = "AT KEY\n2027-01-01T00:00:00.000001Z   one 17 yes\nid 00000000-1717-4016-90c9-9f0102ffbaef in 1.5s or so, end\n";
    assert_eq!(missing(page, came, Shows::All), None);
    assert!(missing(page, &came.replace("yes", "no"), Shows::All).is_some());
    assert!(missing(page, &format!("{came}more"), Shows::All).is_some());
    assert_eq!(missing(page, &format!("first\n{came}more"), Shows::Some), None);
    assert_eq!(missing("a\n…\nc", "a\nb\nb\nc", Shows::All), None);
    assert!(missing("a\nc", "a\nb\nc", Shows::All).is_some());
}
