//! Where the rows of a long CSV file begin, and which words its labels are.
//!
//! The file is read once, to count its rows, to note where every 4,096th begins, and to collect the words of its labels.
//! Where a team shares the work, each rank does this for its part of the file: the records that begin in its share of the
//! bytes. It looks for the first line break there, which might be within quotes; so when the parts are put together each
//! must end where the next begins, and a part that began wrongly is read again from the right place.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Pieces;
use super::reader::{Kept, OpenTable};
use crate::error::{Error, Result, TeamError};
use crate::team::Team;

/// There is a mark for each this many rows.
pub(super) const STRIDE: usize = Pieces::ROWS;

/// Where a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) row: u64,
    pub(super) byte: u64,
    pub(super) line: u64,
}

/// What was found in a part of a file. Rows and lines are counted from its beginning.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Part {
    /// The byte at which its first record begins, and that of the first record after it.
    start: u64,
    end: u64,
    pub(super) rows: u64,
    pub(super) lines: u64,
    pub(super) dropped: u64,
    pub(super) marks: Vec<Mark>,
    pub(super) labels: Vec<Labels>,
}

/// The labels of a column.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Labels {
    pub(super) words: BTreeSet<String>,
    /// The line of the first word.
    pub(super) word: Option<u64>,
    /// The line of the first number, and the number.
    pub(super) number: Option<(u64, f64)>,
}

impl Labels {
    fn see(&mut self, line: u64, text: &str) {
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => self.number = self.number.or(Some((line, value))),
            // What is no finite number is refused when it is read.
            Ok(_) => {}
            Err(_) => {
                self.word = self.word.or(Some(line));
                if !self.words.contains(text) {
                    self.words.insert(text.to_string());
                }
            }
        }
    }

    /// Adds those of a part that begins after this many lines.
    pub(super) fn add(&mut self, later: &Labels, lines: u64) {
        self.words.extend(later.words.iter().cloned());
        self.word = self.word.or(later.word.map(|line| line + lines));
        self.number = self.number.or(later.number.map(|(line, value)| (line + lines, value)));
    }
}

/// A place in a file.
pub(super) fn at(byte: u64, line: u64) -> csv::Position {
    let mut position = csv::Position::new();
    position.set_byte(byte).set_line(line);
    position
}

/// The parts of a file whose header has been read, in order. The labels of these columns are collected.
pub(super) fn scan(table: &mut OpenTable, labels: &[usize], team: &Team) -> Result<Vec<Part>> {
    let path = table.path.clone();
    let length = std::fs::metadata(&path).map_err(Error::io(&path))?.len();
    let body = table.position();
    let body = after_breaks(&path, body)?;
    let first = body.byte();
    let bytes = usize::try_from(length.saturating_sub(first)).unwrap_or(usize::MAX);
    let own = team.share(bytes);
    let limit = first + own.end as u64;
    let mut start = match team.is_first() {
        true => first,
        false => next_line(&path, first + own.start as u64)?,
    };
    // The first part knows its line, the others count from 1.
    let line = if team.is_first() { body.line() } else { 1 };
    let mut mine = match scan_part(table, labels, at(start, line), limit) {
        // A part that begins within quotes makes no sense, and is read again below.
        Err(_) if !team.is_first() => Part { start: u64::MAX, end: u64::MAX, ..Default::default() },
        part => part?,
    };
    loop {
        let message = serde_json::to_vec(&mine).map_err(|_| TeamError::Message)?;
        let parts: Vec<Part> = team
            .share_all(message)?
            .iter()
            .map(|message| serde_json::from_slice(message).map_err(|_| TeamError::Message.into()))
            .collect::<Result<_>>()?;
        let mut pairs = parts.iter().zip(parts.iter().skip(1)).enumerate();
        let Some((before, end)) =
            pairs.find_map(|(rank, (one, next))| (next.start != one.end).then_some((rank, one.end)))
        else {
            return Ok(parts);
        };
        if team.rank() == before + 1 {
            start = end;
            mine = scan_part(table, labels, at(start, 1), limit)?;
        }
    }
}

/// Reads the records that begin before a byte.
fn scan_part(table: &mut OpenTable, labels: &[usize], start: csv::Position, limit: u64) -> Result<Part> {
    let path = table.path.clone();
    let length = std::fs::metadata(&path).map_err(Error::io(&path))?.len();
    let labels_of = vec![Labels::default(); labels.len()];
    let mut part = Part { start: start.byte(), end: length, labels: labels_of, ..Default::default() };
    if start.byte() >= limit {
        return Ok(Part { end: start.byte(), ..part });
    }
    table.seek(start)?;
    while let Some((place, kept)) = table.advance()? {
        if place.byte() >= limit {
            (part.end, part.lines) = (place.byte(), place.line() - 1);
            break;
        }
        if kept == Kept::No {
            part.dropped += 1;
            continue;
        }
        if part.rows.is_multiple_of(STRIDE as u64) {
            part.marks.push(Mark { row: part.rows, byte: place.byte(), line: place.line() });
        }
        for (seen, &column) in part.labels.iter_mut().zip(labels) {
            seen.see(place.line(), table.cell(column));
        }
        part.rows += 1;
    }
    Ok(part)
}

/// The byte after the first line break at or after the byte before this one.
fn next_line(path: &Path, byte: u64) -> Result<u64> {
    let mut feed = csv::Position::new();
    feed.set_byte(find(path, byte.saturating_sub(1), |value| value == b'\n')?.0);
    Ok(after_breaks(path, feed)?.byte())
}

/// The first place from here on that is no line break.
fn after_breaks(path: &Path, mut place: csv::Position) -> Result<csv::Position> {
    let (byte, feeds) = find(path, place.byte(), |value| value != b'\n' && value != b'\r')?;
    let line = place.line() + feeds;
    place.set_byte(byte).set_line(line);
    Ok(place)
}

/// The first byte from here on with some property, or the length of the file; and the line feeds before it.
fn find(path: &Path, from: u64, property: impl Fn(u8) -> bool) -> Result<(u64, u64)> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    file.seek(SeekFrom::Start(from)).map_err(Error::io(path))?;
    let (mut place, mut feeds) = (from, 0);
    for value in BufReader::new(file).bytes() {
        let value = value.map_err(Error::io(path))?;
        if property(value) {
            break;
        }
        (place, feeds) = (place + 1, feeds + u64::from(value == b'\n'));
    }
    Ok((place, feeds))
}
