//! Lines of plain numbers, read on all threads.
//!
//! Most tables are nothing but numbers between separators, and a general parser takes several times as long for them. Pieces
//! of the file that are whole lines of finite numbers without quotes or spaces are parsed here, each thread some of the
//! lines. The first piece that has anything else (lines that end in a carriage return, too), and all that follows, is left
//! to the general parser: what is accepted, and what is said about the rest, is the same.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use rayon::prelude::*;

use super::file::{TableFile, TableReader};
use crate::error::{Error, Result};
use crate::linalg::threads_are_free;
use crate::memory;

/// Bytes that a thread parses at a time.
const PART: usize = 1 << 19;
/// Bytes of memory that a byte of text takes at most while it is parsed: itself, and half a number of 8 bytes.
const ROOM: u64 = 6;

/// How the lines of a file are cut into cells.
pub(super) struct Layout<'a> {
    pub(super) separator: u8,
    /// The number of cells of a line.
    pub(super) cells: usize,
    /// The cells that are read, in ascending order.
    pub(super) kept: &'a [usize],
}

/// A file that is read in pieces of whole lines.
pub(super) struct Pieces<'a> {
    path: &'a Path,
    file: TableReader,
    /// What has been read and not been parsed.
    text: Vec<u8>,
    /// How much is read at a time.
    length: usize,
}

/// Some lines: their kept cells one after another, their number, and how many bytes they take.
pub(super) struct PlainLines {
    pub(super) values: Vec<Vec<f64>>,
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl<'a> Pieces<'a> {
    /// The rest of a file from here on; `None` where there is no room for a piece.
    pub(super) fn open(file: &'a TableFile, from: u64) -> Result<Option<Self>> {
        let threads = if threads_are_free() { rayon::current_num_threads() } else { 1 };
        let length = PART * threads;
        if memory::room() / 4 < ROOM * length as u64 {
            return Ok(None);
        }
        let (path, mut file) = (file.path(), file.reader()?);
        file.seek(SeekFrom::Start(from)).map_err(Error::io(path))?;
        Ok(Some(Self { path, file, text: Vec::new(), length }))
    }

    /// The next lines; `None` at the end of the file, and where something else than plain numbers comes next.
    pub(super) fn next(&mut self, layout: &Layout<'_>) -> Result<Option<PlainLines>> {
        let more = self.length.saturating_sub(self.text.len()) as u64;
        self.file.by_ref().take(more).read_to_end(&mut self.text).map_err(Error::io(self.path))?;
        let bytes = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let Some(Ok(text)) = self.text.get(..bytes).map(std::str::from_utf8) else { return Ok(None) };
        if text.is_empty() || has(text, b'"') || has(text, b'\r') {
            return Ok(None);
        }
        let parsed: Option<Vec<(Vec<f64>, usize)>> = match parts(text, PART) {
            parts if parts.len() == 1 => parts.into_iter().map(|part| parse_lines(part, layout)).collect(),
            parts => parts.into_par_iter().map(|part| parse_lines(part, layout)).collect(),
        };
        let Some(parsed) = parsed else { return Ok(None) };
        self.text.drain(..bytes);
        let count = parsed.iter().map(|(_, count)| count).sum();
        Ok(Some(PlainLines { values: parsed.into_iter().map(|(values, _)| values).collect(), count, bytes }))
    }
}

/// Whether a byte occurs in a text.
fn has(text: &str, byte: u8) -> bool {
    text.as_bytes().chunks(4096).any(|chunk| chunk.iter().fold(false, |found, other| found | (*other == byte)))
}

/// Whole lines of about this many bytes.
fn parts(text: &str, length: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let tail = rest.as_bytes().get(length..).unwrap_or_default();
        let end = tail.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| length + end + 1);
        // A line ends between two characters.
        let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        parts.push(part);
        rest = after;
    }
    parts
}

/// The kept cells of some lines and the number of lines, where these are all plain.
fn parse_lines(text: &str, layout: &Layout<'_>) -> Option<(Vec<f64>, usize)> {
    // As many as there can be, if cells are no shorter than these.
    let mut values = Vec::with_capacity(text.len() / 4);
    let mut count = 0;
    for line in text.split_terminator('\n') {
        parse_line(line, layout, &mut values)?;
        count += 1;
    }
    Some((values, count))
}

/// Adds the kept cells of a line.
fn parse_line(line: &str, layout: &Layout<'_>, values: &mut Vec<f64>) -> Option<()> {
    let (bytes, mut kept) = (line.as_bytes(), layout.kept.iter().copied().peekable());
    let (mut start, mut cell) = (0, 0);
    loop {
        let rest = bytes.get(start..)?;
        let length = if kept.next_if_eq(&cell).is_some() {
            let (value, length) = match short_decimal(rest, layout.separator) {
                Some(read) => read,
                None => {
                    let length = cell_length(rest, layout.separator);
                    (line.get(start..start + length)?.parse().ok().filter(|value: &f64| value.is_finite())?, length)
                }
            };
            values.push(value);
            length
        } else {
            cell_length(rest, layout.separator)
        };
        cell += 1;
        if start + length >= bytes.len() {
            // An ignored cell may be empty at the end of a line, after its separator.
            return (cell == layout.cells).then_some(());
        }
        start += length + 1;
    }
}

/// The bytes before the next separator.
fn cell_length(rest: &[u8], separator: u8) -> usize {
    rest.iter().position(|byte| *byte == separator).unwrap_or(rest.len())
}

/// A number of at most 15 digits, with a sign and a point or without, and its length. It is the nearest one in f64: both the
/// digits as an integer and the power of ten are exact, and their quotient is rounded once.
fn short_decimal(rest: &[u8], separator: u8) -> Option<(f64, usize)> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let negative = rest.first() == Some(&b'-');
    let (mut digits, mut decimals, mut mantissa, mut point) = (0_usize, 0_usize, 0_u64, false);
    let mut length = usize::from(negative);
    for byte in rest.get(length..)? {
        match *byte {
            digit @ b'0'..=b'9' => {
                mantissa = 10 * mantissa + u64::from(digit - b'0');
                digits += 1;
                decimals += usize::from(point);
                if digits > 15 {
                    return None;
                }
            }
            b'.' if !point => point = true,
            other if other == separator => break,
            _ => return None,
        }
        length += 1;
    }
    if digits == 0 {
        return None;
    }
    let value = mantissa as f64 / POWERS.get(decimals)?;
    Some((if negative { -value } else { value }, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_decimals_are_those_of_the_standard_library() {
        let mut texts: Vec<String> =
            ["0", "-0", "00", "1.", ".5", "-.5", "123456789012345", "0.00000000000001"].map(str::to_string).into();
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (number, decimals) = (state >> 20, (state % 8) as usize);
            texts.push(format!("{}.{:0decimals$}", number % 10_000_000, number / 7 % 10_u64.pow(decimals as u32)));
            texts.push(format!("-0.{:015}", number % 10_u64.pow(15)));
        }
        for text in texts {
            let expected: Option<f64> = text.parse().ok();
            let longer = format!("{text};x");
            for (text, length) in [(text.as_str(), text.len()), (longer.as_str(), text.len())] {
                if let Some((value, end)) = short_decimal(text.as_bytes(), b';') {
                    assert_eq!((Some(value.to_bits()), end), (expected.map(f64::to_bits), length), "{text}");
                } else {
                    assert!(length > 15, "{text}");
                }
            }
        }
        for text in ["", "-", ".", "-.", "1e3", "+1", " 1", "1 ", "nan", "1.2.3", "--1", "1234567890123456"] {
            assert!(short_decimal(text.as_bytes(), b',').is_none(), "{text}");
        }
    }

    #[test]
    fn only_lines_of_plain_numbers_are_read() {
        let layout = Layout { separator: b',', cells: 3, kept: &[0, 2] };
        let read = |text: &str| parse_lines(text, &layout);
        assert_eq!(read("1,a,2\n-3.5,,1e2\n"), Some((vec![1.0, 2.0, -3.5, 100.0], 2)));
        for text in ["1,2\n", "1,2,3,4\n", "1,2,\n", ",2,3\n", "1,2,x\n", "1,2,nan\n", "1, 2, 3\n", "\n", "1,2,1e999\n"]
        {
            assert_eq!(read(text), None, "{text:?}");
        }
        let layout = Layout { separator: b';', cells: 2, kept: &[0] };
        assert_eq!(parse_lines("1;\n2;b\n", &layout), Some((vec![1.0, 2.0], 2)));
        assert_eq!(parse_lines("1\n", &layout), None);
        assert_eq!(parse_lines("1;2;\n", &layout), None);
    }

    #[test]
    fn parts_are_whole_lines() {
        let text = "1,2\n3,4\n55,66\n7,8\n";
        for length in 1..30 {
            let parts = parts(text, length);
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| part.ends_with('\n')));
        }
    }
}
