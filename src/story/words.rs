//! Times and names as a person, and a shell, read them.

use std::time::Duration;

use crate::domain::ledger::ClaimId;
use crate::domain::time::Timestamp;

/// RFC 3339, in UTC, to the microsecond.
pub fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros()).map_or_else(|_| "?".to_owned(), |at| format!("{at:.6}"))
}

/// A time for a person: its two largest units.
pub fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    let units: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let Some(first) = units.iter().position(|(_, size)| seconds >= *size) else { return "0s".to_owned() };
    let mut rest = seconds;
    let mut text = String::new();
    for (unit, size) in units.iter().skip(first).take(2) {
        if rest / size > 0 {
            text.extend([(rest / size).to_string().as_str(), *unit]);
        }
        rest %= size;
    }
    text
}

/// `text`, as a shell takes it whole.
pub fn word(text: &str) -> String {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "-_.:/@%+,".contains(character);
    if !text.is_empty() && text.chars().all(is_safe) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What names this claim in a command, and no other.
pub fn named(id: &ClaimId) -> String {
    format!("--key={} {}", word(&id.key), beside_the_key(id))
}

/// What names it where several have its key.
pub fn beside_the_key(ClaimId { tenant, service, tool, .. }: &ClaimId) -> String {
    let [tenant, service, tool] = [tenant, service, tool].map(|name| word(name));
    format!("--tenant={tenant} --service={service} --tool={tool}")
}

/// `text`, cut where it is longer than `most` characters.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_their_two_largest_units() {
        for (seconds, told) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3_725, "1h2m"), (90_000, "1d1h"), (86_459, "1d")]
        {
            assert_eq!(about(Duration::from_secs(seconds)), told);
        }
    }
}
