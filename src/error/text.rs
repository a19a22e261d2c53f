//! Text from files in messages: made visible and kept short.
//!
//! A cell or a name may hold what a terminal obeys (escape sequences, reversed writing) or millions of letters. In a
//! message it is shown with such characters escaped, and cut.

use std::fmt::Write;

/// The most characters of a name or a cell.
const NAME: usize = 80;
/// The most characters of a sentence that quotes names or cells.
const SENTENCE: usize = 2000;

/// A name or a cell, for a message.
pub(crate) fn shown(text: &str) -> String {
    cut(text, NAME)
}

/// A sentence in which names or cells occur, for a message.
pub fn printable(text: &str) -> String {
    cut(text, SENTENCE)
}

/// Whether a terminal obeys a character rather than showing it: controls, and what changes the direction of writing or
/// breaks lines.
fn is_obeyed(character: char) -> bool {
    let invisible = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    character.is_control() || invisible
}

fn cut(text: &str, most: usize) -> String {
    let mut visible = String::with_capacity(text.len().min(4 * most));
    for character in text.chars().take(most) {
        if is_obeyed(character) {
            // Writing to a string cannot fail.
            let _ = write!(visible, "{}", character.escape_default());
        } else {
            visible.push(character);
        }
    }
    let left_out = text.chars().count().saturating_sub(most);
    if left_out > 0 {
        let _ = write!(visible, "… ({left_out} more characters)");
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_what_is_long_is_cut() {
        assert_eq!(shown("Größe \"x\" \\ J\u{303} 1"), "Größe \"x\" \\ J\u{303} 1");
        assert_eq!(shown("\u{1b}[31mred\r\n\u{7}\u{202e}"), "\\u{1b}[31mred\\r\\n\\u{7}\\u{202e}");
        assert_eq!(shown(&"q".repeat(NAME)), "q".repeat(NAME));
        assert_eq!(shown(&"ü".repeat(3_000_000)), "ü".repeat(NAME) + "… (2999920 more characters)");
        assert!(printable(&"\u{1b}".repeat(1_000_000)).len() < 8 * SENTENCE);
    }
}
