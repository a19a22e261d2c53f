//! Where a record begins, after the line breaks before it.
//!
//! The parser gives the place where it started to look for a record. That is before the line feed where lines end with a
//! carriage return and a line feed, as those of Windows do, and before blank lines: the line of the record itself is then a
//! later one. So the reader below the parser notes every run of line breaks that is longer than the one that ends a record.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};

/// A reader that knows where its line breaks are.
#[derive(Debug)]
pub(super) struct Breaks<R> {
    inner: R,
    /// Where reading began, and where it is.
    began: u64,
    at: u64,
    /// A run that has not ended yet.
    open: Option<Run>,
    /// Runs that the parser may not have passed: it reads a little ahead of its records.
    closed: VecDeque<Run>,
}

/// Line breaks without anything else between them.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    /// Line feeds at its first byte, and after it.
    first: u64,
    rest: u64,
}

impl<R> Breaks<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, began: 0, at: 0, open: None, closed: VecDeque::new() }
    }

    /// Where the record begins that the parser looked for from this place on. Places come in ascending order.
    pub(super) fn after(&mut self, mut place: csv::Position) -> csv::Position {
        while self.closed.front().is_some_and(|run| run.end <= place.byte()) {
            self.closed.pop_front();
        }
        // The parser has read the break that ended the record before, if there was one.
        if let Some(run) = self.closed.front().filter(|run| run.start <= place.byte()) {
            let first = if run.start == place.byte() { run.first } else { 0 };
            let line = place.line() + first + run.rest;
            place.set_byte(run.end).set_line(line);
        }
        place
    }

    fn note(&mut self, bytes: &[u8]) {
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        for group in bytes.chunk_by(|one, next| is_break(one) == is_break(next)) {
            if group.first().is_some_and(is_break) {
                let feeds = group.iter().filter(|byte| **byte == b'\n').count() as u64;
                let first = u64::from(group.starts_with(b"\n"));
                match &mut self.open {
                    Some(run) => run.rest += feeds,
                    None => self.open = Some(Run { start: self.at, end: self.at, first, rest: feeds - first }),
                }
            } else if let Some(run) = self.open.take() {
                let matters = self.at - run.start > 1 || run.start == self.began;
                self.closed.extend(Some(Run { end: self.at, ..run }).filter(|_| matters));
            }
            self.at += group.len() as u64;
        }
    }
}

impl<R: Read> Read for Breaks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.note(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<R: Seek> Seek for Breaks<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let at = self.inner.seek(position)?;
        (self.began, self.at, self.open) = (at, at, None);
        self.closed.clear();
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// The lines and bytes at which the parser's records begin, read in pieces of so many bytes.
    fn places(text: &str, piece: usize) -> Vec<(u64, u64)> {
        let breaks = Breaks::new(Cursor::new(text.as_bytes().to_vec()));
        let mut reader = csv::ReaderBuilder::new().has_headers(false).buffer_capacity(piece).from_reader(breaks);
        let (mut record, mut places) = (csv::StringRecord::new(), Vec::new());
        while reader.read_record(&mut record).unwrap() {
            let place = reader.get_mut().after(record.position().unwrap().clone());
            places.push((place.line(), place.byte()));
        }
        places
    }

    /// Lines that are not blank; no cell has a line break.
    fn expected(text: &str) -> Vec<(u64, u64)> {
        let (mut places, mut byte) = (Vec::new(), 0);
        for (index, line) in text.split('\n').enumerate() {
            if !line.trim_end_matches('\r').is_empty() {
                places.push((index as u64 + 1, byte));
            }
            byte += line.len() as u64 + 1;
        }
        places
    }

    #[test]
    fn records_begin_after_the_breaks_before_them() {
        for text in [
            "a,b\n1,2\n3,4\n",
            "a,b\r\n1,2\r\n3,4\r\n",
            "\na,b\n\n\n1,2\n3,4",
            "\r\n\r\na,b\r\n\r\n1,2\r\n\n\r\n3,4\r\n\r\n",
            "\r\na,b\n1,2\r\n3,4\n",
        ] {
            for piece in [1, 2, 3, 5, 8192] {
                assert_eq!(places(text, piece), expected(text), "{text:?} in pieces of {piece}");
            }
        }
        let quoted = "a,b\r\n\"1\r\n\r\n\",2\r\n3,4\r\n";
        assert_eq!(places(quoted, 3), [(1, 0), (2, 5), (5, 16)]);
    }

    #[test]
    fn reading_can_go_on_at_any_record_or_break() {
        let text = "a,b\r\n1,2\r\n\r\n3,4\r\n";
        for (byte, line, expected) in [(5, 2, (2, 5)), (9, 2, (4, 12)), (10, 3, (4, 12)), (12, 4, (4, 12))] {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .from_reader(Breaks::new(Cursor::new(text.as_bytes().to_vec())));
            let mut start = csv::Position::new();
            start.set_byte(byte).set_line(line);
            reader.seek(start).unwrap();
            let mut record = csv::StringRecord::new();
            assert!(reader.read_record(&mut record).unwrap());
            let place = reader.get_mut().after(record.position().unwrap().clone());
            assert_eq!((place.line(), place.byte()), expected, "from {byte}");
        }
    }
}
