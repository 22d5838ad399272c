//! Text that is shown as it is.
//!
//! Promises: a stored value is shown, never obeyed. Control characters, those that cannot be seen and those that change
//! the direction of writing come out escaped, whatever key or tool name somebody once sent.
//!
//! Absent on purpose: what a page or a shell needs besides. Markup and quotes are theirs.

/// A text that a terminal, or a page, shows as it is.
pub fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut plain, character| {
        if is_obeyed(character) {
            plain.extend(character.escape_unicode());
        } else {
            plain.push(character);
        }
        plain
    })
}

/// Whether a terminal, or a reader's eye, would follow this character rather than see it.
pub fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}')
}
