//! The text of a cell as a number, a missing value or a word; dates as days, yes and no as 1 and 0.
//!
//! Accepted numbers: `1.5`, `-2e3`, `12 %` (which is 0.12), thousands in groups of three (`1,234.5`, `1 234.5`, `1'234.5`),
//! and in files that semicolons or tabs separate the decimal comma (`1.234,5`). Which of point and comma is the decimal
//! mark of such a file is decided once, from the cells that can be read in one way only.

/// What a cell says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    /// A finite number.
    Number(f64),
    /// Nothing, or that nothing is known.
    Missing,
    /// Anything else.
    Word(&'a str),
}

/// Texts that stand for a missing value, besides an empty cell.
const MISSING: [&str; 12] = ["NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "n/a", "na", "<NA>", "#N/A"];

/// Words for no and yes, in lower case.
const BOOLEANS: [[&str; 2]; 5] = [["false", "true"], ["no", "yes"], ["f", "t"], ["n", "y"], ["off", "on"]];

/// How a file writes its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberStyle {
    Point,
    Comma,
}

impl NumberStyle {
    /// The style of a file, from how it begins.
    pub(super) fn of(start: &[u8], separator: u8) -> Self {
        let mut lines = start.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.next();
        if separator == b',' || !start.contains(&b',') {
            return NumberStyle::Point;
        }
        // Cells with a point or comma that can only be the decimal mark, and those with one that groups thousands or not.
        let (mut point, mut comma, mut open_point, mut open_comma) = (false, false, false, false);
        for cell in lines.flat_map(|line| line.split(|byte| *byte == separator)) {
            match mark_of(cell) {
                Some((b'.', true)) => point = true,
                Some((b',', true)) => comma = true,
                Some((b'.', false)) => open_point = true,
                Some((_, false)) => open_comma = true,
                Some(_) | None => {}
            }
        }
        let comma_decides = if point || comma { comma && !point } else { open_comma && !open_point };
        if comma_decides { NumberStyle::Comma } else { NumberStyle::Point }
    }

    fn mark(self) -> char {
        match self {
            NumberStyle::Point => '.',
            NumberStyle::Comma => ',',
        }
    }

    /// Whether a cell is a number, told without computing it; `false` where that takes more.
    pub(super) fn is_short_number(self, text: &str) -> bool {
        let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
        let (mut count, mut points) = (0, 0);
        for byte in digits {
            match byte {
                b'0'..=b'9' => count += 1,
                b'.' => points += 1,
                _ => return false,
            }
        }
        // No sum of so few digits is beyond f64; with a decimal comma, a point groups thousands.
        (1..300).contains(&count) && points <= usize::from(self == NumberStyle::Point)
    }

    /// What a cell says.
    pub(super) fn read(self, text: &str) -> Cell<'_> {
        if self == NumberStyle::Point
            && let Ok(value) = text.parse::<f64>()
            && value.is_finite()
        {
            return Cell::Number(value);
        }
        if is_missing(text) {
            return Cell::Missing;
        }
        match self.number(text) {
            Some(value) => Cell::Number(value),
            None => Cell::Word(text),
        }
    }

    /// A number with a percent sign, groups of thousands or a decimal comma.
    fn number(self, text: &str) -> Option<f64> {
        let (text, percent) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let plain = match grouped(digits, self.mark()) {
            Some(whole) => format!("{sign}{whole}"),
            None => {
                let (whole, rest) = digits.split_once(self.mark()).unwrap_or((digits, ""));
                let has_digit = digits.bytes().any(|byte| byte.is_ascii_digit());
                let is_whole = whole.bytes().all(|byte| byte.is_ascii_digit());
                let whole = if is_whole { Some(whole.to_string()) } else { grouped(whole, self.mark()) };
                // An exponent may follow whole digits, without a mark.
                match whole {
                    Some(whole) if has_digit => format!("{sign}{whole}.{rest}"),
                    _ if !digits.contains(self.mark()) && digits.starts_with(|c: char| c.is_ascii_digit()) => {
                        format!("{sign}{digits}")
                    }
                    _ => return None,
                }
            }
        };
        let value = plain.parse::<f64>().ok().filter(|value| value.is_finite())?;
        Some(if percent { value / 100.0 } else { value })
    }
}

/// Whether a cell has no value.
pub(super) fn is_missing(text: &str) -> bool {
    text.is_empty() || (text.len() <= 4 && MISSING.contains(&text))
}

/// The digits of a whole number whose thousands are grouped. The decimal mark groups where it occurs more than once.
fn grouped(text: &str, decimal: char) -> Option<String> {
    let mark = text.chars().find(|character| !character.is_ascii_digit())?;
    if !matches!(mark, ',' | '.' | ' ' | '\'' | '’' | '\u{a0}' | '\u{202f}') {
        return None;
    }
    let groups: Vec<&str> = text.split(mark).collect();
    let (first, rest) = groups.split_first()?;
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let whole = matches!(first.len(), 1..=3) && digits(first) && *first != "0";
    let least = if mark == decimal { 2 } else { 1 };
    (whole && rest.len() >= least && rest.iter().all(|group| group.len() == 3 && digits(group)))
        .then(|| groups.concat())
}

/// The decimal mark that a cell may have, and whether it cannot be anything else.
fn mark_of(cell: &[u8]) -> Option<(u8, bool)> {
    let text = cell.trim_ascii();
    let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    let text = text.strip_suffix(b"%").unwrap_or(text).trim_ascii();
    let text = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let place = text.iter().rposition(|byte| matches!(byte, b'.' | b','))?;
    let (mark, before, after) = (*text.get(place)?, text.get(..place)?, text.get(place + 1..)?);
    if !after.iter().all(u8::is_ascii_digit) || before.contains(&mark) {
        return None;
    }
    if !before.iter().all(u8::is_ascii_digit) {
        // Both marks: the last is the decimal one, where the other groups thousands.
        let other = if mark == b'.' { ',' } else { '.' };
        let groups = std::str::from_utf8(before).ok().filter(|text| text.contains(other))?;
        return grouped(groups, char::from(mark)).map(|_| (mark, true));
    }
    let may_group = after.len() == 3 && matches!(before.len(), 1..=3) && before != b"0";
    Some((mark, !may_group))
}

/// 1 for yes, 0 for no, in any of the usual words.
pub(super) fn boolean(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    BOOLEANS.iter().find_map(|pair| pair.iter().position(|word| **word == lower)).map(|place| place as f64)
}

/// Whether these words are those of one pair of yes and no.
pub(super) fn are_booleans<'a>(words: impl Iterator<Item = &'a String> + Clone) -> bool {
    BOOLEANS.iter().any(|pair| words.clone().all(|word| pair.contains(&word.to_ascii_lowercase().as_str())))
}

/// An ISO date or one as 31.12.2024, with a time or without, as days since the beginning of 1970 (UTC).
pub(super) fn date(text: &str) -> Option<f64> {
    let (day, time) = match text.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = match whole_numbers(day, '.', [2, 2, 4]) {
        // Dots have one order; with slashes the day or the month may be first.
        Some([day, month, year]) => [year, month, day],
        None => whole_numbers(day, if day.contains('/') { '/' } else { '-' }, [4, 2, 2])?,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    if !(1..=length).contains(&day) {
        return None;
    }
    let days = days_before_year(year) - days_before_year(1970)
        + lengths.iter().take(month as usize - 1).sum::<i64>()
        + (day - 1);
    Some(days as f64 + time.map_or(Some(0.0), seconds)? / 86_400.0)
}

/// The days from the beginning of year 1 (of the Gregorian calendar, continued) to that of a year.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    365 * past + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400)
}

/// A time of the day, with the offset of its zone or without, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let (time, offset) = match text.strip_suffix('Z') {
        Some(time) => (time, 0.0),
        None => match text.rfind(['+', '-']) {
            Some(place) => {
                let (time, zone) = text.split_at_checked(place)?;
                let [hours, minutes] = whole_numbers(zone.get(1..)?, ':', [2, 2])?;
                let offset = (3600 * hours + 60 * minutes) as f64;
                (time, if zone.starts_with('-') { -offset } else { offset })
            }
            None => (text, 0.0),
        },
    };
    let (clock, fraction) = match time.split_once('.') {
        Some((clock, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            (clock, format!("0.{digits}").parse::<f64>().ok()?)
        }
        Some(_) => return None,
        None => (time, 0.0),
    };
    let [hours, minutes, seconds] = match whole_numbers(clock, ':', [2, 2]) {
        Some([hours, minutes]) => [hours, minutes, 0],
        None => whole_numbers(clock, ':', [2, 2, 2])?,
    };
    (hours < 24 && minutes < 60 && seconds < 61)
        .then(|| (3600 * hours + 60 * minutes + seconds) as f64 + fraction - offset)
}

/// Whole numbers with these numbers of digits.
fn whole_numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_their_file_writes_them() {
        for (text, expected) in [
            ("1.5", 1.5),
            ("-2e3", -2000.0),
            ("12 %", 0.12),
            ("-3%", -0.03),
            ("1,234", 1234.0),
            ("1,234,567.5", 1_234_567.5),
            ("1 234.5", 1234.5),
            ("1'234'567", 1_234_567.0),
            ("1.234.567", 1_234_567.0),
            ("+7", 7.0),
        ] {
            assert_eq!(NumberStyle::Point.read(text), Cell::Number(expected), "{text}");
        }
        for (text, expected) in [
            ("1,5", 1.5),
            ("0,125", 0.125),
            ("1.234,5", 1234.5),
            ("1.234", 1234.0),
            ("-12", -12.0),
            (",5", 0.5),
            ("2e3", 2000.0),
            ("1,5e-2", 0.015),
            ("12,5 %", 0.125),
        ] {
            assert_eq!(NumberStyle::Comma.read(text), Cell::Number(expected), "{text}");
        }
        for text in ["1,5", "1,23,456", "0,123", "1,2345", "inf", "1e999", "A12", "-", "%", "1.2.3", "12-34", "1 23"] {
            assert_eq!(NumberStyle::Point.read(text), Cell::Word(text), "{text}");
        }
        for text in ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"] {
            assert_eq!(NumberStyle::Point.read(text), Cell::Missing, "{text}");
            assert_eq!(NumberStyle::Comma.read(text), Cell::Missing, "{text}");
        }
    }

    #[test]
    fn the_decimal_mark_is_the_one_that_some_cell_can_only_mean() {
        for (text, separator, style) in [
            ("x,y\n\"1,5\",2\n", b',', NumberStyle::Point),
            ("x;y\n1,5;2\n", b';', NumberStyle::Comma),
            ("x;y\n1.234,5;2\n", b';', NumberStyle::Comma),
            ("x\ty\n0,123\t1.234\n", b'\t', NumberStyle::Comma),
            ("x;y\n1,234;0.5\n", b';', NumberStyle::Point),
            ("x;y\n1,234.5;1\n", b';', NumberStyle::Point),
            ("x;y\n1,234;1\n", b';', NumberStyle::Comma),
            ("x;y\n1.234;1\n", b';', NumberStyle::Point),
            ("a,b;y\n1.234;1\n", b';', NumberStyle::Point),
            ("x;y\n0,5;0.5\n", b';', NumberStyle::Point),
            ("", b';', NumberStyle::Point),
        ] {
            assert_eq!(NumberStyle::of(text.as_bytes(), separator), style, "{text:?}");
        }
    }

    #[test]
    fn dates_are_days_since_1970() {
        for (text, expected) in [
            ("1970-01-01", 0.0),
            ("1970/01/02", 1.0),
            ("1969-12-31", -1.0),
            ("2000-03-01", 11_017.0),
            ("2024-02-29 12:00", 19_782.5),
            ("2024-02-29T06:00:00Z", 19_782.25),
            ("2024-02-29T06:00:00.000+06:00", 19_782.0),
            ("1900-03-01", -25_508.0),
            ("02.01.1970", 1.0),
            ("29.02.2024 12:00", 19_782.5),
        ] {
            assert_eq!(date(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "31.13.2024",
            "1.2.2024",
            "03/01/2024",
            "2024-01-01T25:00",
            "20240101",
            "a-b-c",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn yes_and_no_have_many_names() {
        assert_eq!([boolean("True"), boolean("no"), boolean("maybe")], [Some(1.0), Some(0.0), None]);
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(are_booleans(words(&["TRUE", "False"]).iter()));
        assert!(!are_booleans(words(&["yes", "false"]).iter()));
    }
}
