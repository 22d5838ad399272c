//! A member's name as the most lenient reader takes it.
//!
//! Promises: two names that some backend reads as one fold to one: Go's reader compares names without regard to case
//! (by Unicode's simple folding, so that `paramſ` is `params`), and some C programs read up to a NUL.
//!
//! Absent on purpose: any use of it to read a message. The gate's own reading is exact; this finds what others may
//! read differently.

/// The name without case, up to a NUL.
pub fn folded(name: &str) -> String {
    // Up and down again: some letters (`ſ`, the kelvin sign) share a partner in one direction only.
    let letters = name.chars().take_while(|letter| *letter != '\0');
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}
