//! Where the rows of a long CSV file begin, and what its columns are.
//!
//! The file is read once, to count its rows, to note where every 4,096th begins, and to see what the cells of each column are.
//! Where a team shares the work, each rank does this for its part of the file: the records that begin in its share of the
//! bytes. It looks for the first line break there, which might be within quotes; so when the parts are put together each
//! must end where the next begins, and a part that began wrongly is read again from the right place.

use std::io::{BufReader, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use super::Pieces;
use super::file::TableFile;
use super::profile::{Codes, Profile};
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
    /// The rows before it, those that are left out included.
    pub(super) record: u64,
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
    pub(super) profiles: Vec<Profile>,
}

/// A place in a file.
pub(super) fn at(byte: u64, line: u64) -> csv::Position {
    let mut position = csv::Position::new();
    position.set_byte(byte).set_line(line);
    position
}

/// The parts of a file whose header has been read, in order. For each column that is read, `codes` says whether its different
/// numbers are collected.
pub(super) fn scan(table: &mut OpenTable, codes: &[Codes], team: &Team) -> Result<Vec<Part>> {
    let file = table.file.clone();
    let length = file.length();
    let body = table.position();
    let body = after_breaks(&file, body)?;
    let first = body.byte();
    let bytes = usize::try_from(length.saturating_sub(first)).unwrap_or(usize::MAX);
    let own = team.share(bytes);
    let limit = first + own.end as u64;
    let mut start = match team.is_first() {
        true => first,
        false => next_line(&file, first + own.start as u64)?,
    };
    // The first part knows its line, the others count from 1.
    let line = if team.is_first() { body.line() } else { 1 };
    let mut mine = match scan_part(table, codes, at(start, line), limit) {
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
            mine = scan_part(table, codes, at(start, 1), limit)?;
        }
    }
}

/// Reads the records that begin before a byte.
fn scan_part(table: &mut OpenTable, codes: &[Codes], start: csv::Position, limit: u64) -> Result<Part> {
    let profiles = vec![Profile::default(); codes.len()];
    let mut part = Part { start: start.byte(), end: table.file.length(), profiles, ..Default::default() };
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
            let record = part.rows + part.dropped;
            part.marks.push(Mark { row: part.rows, byte: place.byte(), line: place.line(), record });
        }
        for ((profile, codes), text) in part.profiles.iter_mut().zip(codes).zip(table.texts()) {
            profile.see_text(place.line(), text, table.style, *codes);
        }
        part.rows += 1;
    }
    Ok(part)
}

/// The byte after the first line break at or after the byte before this one.
fn next_line(file: &TableFile, byte: u64) -> Result<u64> {
    let mut feed = csv::Position::new();
    feed.set_byte(find(file, byte.saturating_sub(1), |value| value == b'\n')?.0);
    Ok(after_breaks(file, feed)?.byte())
}

/// The first place from here on that is no line break.
fn after_breaks(file: &TableFile, mut place: csv::Position) -> Result<csv::Position> {
    let (byte, feeds) = find(file, place.byte(), |value| value != b'\n' && value != b'\r')?;
    let line = place.line() + feeds;
    place.set_byte(byte).set_line(line);
    Ok(place)
}

/// The first byte from here on with some property, or the length of the file; and the line feeds before it.
fn find(file: &TableFile, from: u64, property: impl Fn(u8) -> bool) -> Result<(u64, u64)> {
    let (path, mut file) = (file.path(), file.reader()?);
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
