//! Records as people and programs read them, on stdout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use leasehold::{Key, LeaseState, Metadata, Record};
use serde::Serialize;
use serde_json::Number;

use crate::duration::short;
use crate::exit::Exit;
use crate::failure::Failure;

/// Writes all of it to stdout. Whoever reads it may stop at any time (`| head`): then we are done.
pub(crate) fn print(text: &str) -> Result<Exit, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("writing to stdout", &error))
        }
        _ => Ok(Exit::DONE),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    key: &'a str,
    state: &'static str,
    holder: Option<&'a str>,
    fencing_token: Option<u64>,
    term_seconds: Option<Number>,
    version: Option<&'a str>,
    metadata: BTreeMap<&'a str, &'a str>,
}

/// The object of section 6 of the design, in one line.
pub(crate) fn json(record: &Record) -> String {
    let term = record.term.and_then(leasehold::Term::duration);
    line(&Json {
        key: record.key.as_str(),
        state: record.state.as_str(),
        holder: record.holder.as_ref().map(leasehold::Holder::as_str),
        fencing_token: record.token.map(leasehold::FencingToken::get),
        term_seconds: term.and_then(seconds),
        version: Some(record.version.as_str()),
        metadata: record.metadata.iter().collect(),
    })
}

/// The same for a key that has no record.
pub(crate) fn json_of_nothing(key: &Key) -> String {
    line(&Json {
        key: key.as_str(),
        state: LeaseState::Available.as_str(),
        holder: None,
        fencing_token: None,
        term_seconds: None,
        version: None,
        metadata: BTreeMap::new(),
    })
}

fn line(json: &Json<'_>) -> String {
    // Strings and numbers only: nothing in there can fail.
    let mut text = serde_json::to_string(json).unwrap_or_default();
    text.push('\n');
    text
}

/// Whole where it is whole.
fn seconds(length: Duration) -> Option<Number> {
    if length.subsec_nanos() == 0 {
        return Some(length.as_secs().into());
    }
    Number::from_f64(length.as_secs_f64())
}

/// One record, a line a fact.
pub(crate) fn in_full(record: &Record) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<10} {value}");
    };
    let term = record.term.map(|term| term.to_string());
    fact("key", record.key.as_str());
    fact("state", record.state.as_str());
    fact("holder", &holder(record));
    fact("token", &token(record));
    fact("term", term.as_deref().unwrap_or("-"));
    fact("remaining", &remaining(record));
    fact("version", record.version.as_str());
    text.push_str(&metadata(&record.metadata));
    text
}

fn metadata(metadata: &Metadata) -> String {
    let mut text = String::new();
    let width = metadata.iter().map(|(name, _)| name.len()).max();
    for (name, value) in metadata {
        let name_width = width.unwrap_or_default();
        let _ = writeln!(text, "  {name:<name_width$}  {}", printable(value));
    }
    if !text.is_empty() {
        text.insert_str(0, "metadata\n");
    }
    text
}

/// Values may hold anything; a terminal obeys some of it.
fn printable(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// A line a record, under a heading.
pub(crate) fn table(records: &[Record]) -> String {
    let mut rows = vec![["KEY", "STATE", "HOLDER", "TOKEN", "REMAINING"].map(String::from)];
    rows.extend(records.iter().map(|record| {
        [
            record.key.to_string(),
            record.state.to_string(),
            holder(record),
            token(record),
            remaining(record),
        ]
    }));
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..4).map(width).collect();
    let mut text = String::new();
    for [key, state, holder, token, remaining] in &rows {
        let _ = writeln!(
            text,
            "{key:<w0$}  {state:<w1$}  {holder:<w2$}  {token:>w3$}  {remaining}",
            w0 = widths[0],
            w1 = widths[1],
            w2 = widths[2],
            w3 = widths[3],
        );
    }
    text
}

fn holder(record: &Record) -> String {
    or_dash(record.holder.as_ref())
}

fn token(record: &Record) -> String {
    or_dash(record.token)
}

fn remaining(record: &Record) -> String {
    or_dash(record.remaining.map(short))
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use leasehold::{FencingToken, Holder, Term, Version};

    use super::*;

    fn record() -> Record {
        let mut metadata = Metadata::new();
        metadata.set("note", "a\u{1b}[2J\nb").unwrap();
        Record {
            key: Key::new("deploy").unwrap(),
            state: LeaseState::Leased,
            holder: Some(Holder::new("ann").unwrap()),
            token: Some(FencingToken::new(7)),
            term: Some(Term::Finite(Duration::from_millis(1500))),
            remaining: Some(Duration::from_millis(1200)),
            metadata,
            version: Version::new("3"),
        }
    }

    #[test]
    fn the_json_has_just_the_keys_of_the_design() {
        assert_eq!(
            json(&record()),
            "{\"key\":\"deploy\",\"state\":\"leased\",\"holder\":\"ann\",\"fencing_token\":7,\
             \"term_seconds\":1.5,\"version\":\"3\",\"metadata\":{\"note\":\"a\\u001b[2J\\nb\"}}\n"
        );
        assert_eq!(
            json_of_nothing(&Key::new("k").unwrap()),
            "{\"key\":\"k\",\"state\":\"available\",\"holder\":null,\"fencing_token\":null,\
             \"term_seconds\":null,\"version\":null,\"metadata\":{}}\n"
        );
    }

    #[test]
    fn a_term_that_is_infinite_or_whole_is_written_so() {
        let mut record = record();
        record.term = Some(Term::Infinite);
        assert!(json(&record).contains("\"term_seconds\":null"));
        record.term = Some(Term::DEFAULT);
        assert!(json(&record).contains("\"term_seconds\":60,"));
    }

    #[test]
    fn what_people_see_holds_no_control_characters() {
        let text = in_full(&record());
        assert!(text.contains("note  a\\u{1b}[2J\\nb\n"), "{text}");
    }

    #[test]
    fn the_tables_columns_line_up() {
        let mut free = record();
        (free.state, free.holder, free.remaining) = (LeaseState::Available, None, None);
        free.key = Key::new("a/long/key").unwrap();
        assert_eq!(
            table(&[free, record()]),
            "KEY         STATE      HOLDER  TOKEN  REMAINING\n\
             a/long/key  available  -           7  -\n\
             deploy      leased     ann         7  1.2s\n"
        );
    }
}
