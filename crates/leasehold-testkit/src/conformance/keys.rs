use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream;
use leasehold_core::{Key, LeaseState};

use super::case::Case;

/// What stores have stumbled over: separators, escapes, wildcards, folding, trimming, normalising.
const AWKWARD: &[&str] = &[
    "/",
    "//",
    "/.",
    "/..",
    ".",
    "..",
    "a",
    "A",
    "a/",
    "a/b",
    "a//b",
    "a/./b",
    "a/../b",
    "a.",
    "a..",
    " ",
    "  ",
    " a",
    "a ",
    "%",
    "%%",
    "%2F",
    "%2f",
    "%252F",
    "%00",
    "_",
    "__",
    "-",
    "--",
    "*",
    "?",
    "[a]",
    "{a}",
    "<a>",
    "(a)",
    "a'b",
    "a''b",
    "a\"b",
    "a`b",
    "a;b",
    "a,b",
    "a&b=c",
    "a+b",
    "a#b",
    "a:b",
    "a::b",
    "a@b",
    "a~b",
    "a^b",
    "a$b",
    "$a",
    "!a",
    "a|b",
    "a\\b",
    "a\\\\b",
    "\\x2f",
    "null",
    "true",
    "0",
    "00",
    "é",
    "e\u{301}",
    "É",
    "ß",
    "ss",
    "ı",
    "İ",
    "i",
    "锁",
    "🔒",
    "🔒🔒",
    "\u{feff}",
    "\u{200b}",
    "\u{a0}",
    "\u{202e}abc",
    "\u{fffd}",
    "\u{e000}",
    "\u{10ffff}",
];

impl Case {
    /// Keys as awkward as they come, each with this run's text in it.
    fn awkward_keys(&self) -> Vec<Key> {
        let run = format!("{}-{:08x}", self.run(), self.random());
        let mut texts = BTreeSet::new();
        for awkward in AWKWARD {
            texts.insert(format!("{awkward}{run}"));
            texts.insert(format!("{run}{awkward}"));
        }
        // Prefixes of each other.
        for length in 0..4 {
            texts.insert(format!("{run}-p{}", "p".repeat(length)));
        }
        // Of the greatest length: differing in the last byte only, and such that an escape makes many of one.
        for filler in ["x", "%", "/", " ", "锁", "🔒"] {
            let left = Key::MAX_BYTES - run.len() - 1;
            let filled = filler.repeat(left / filler.len());
            let rest = left - filled.len();
            for last in ["1", "2"] {
                texts.insert(format!("{run}{filled}{}{last}", "y".repeat(rest)));
            }
        }
        texts.into_iter().map(|text| self.raw_key(text)).collect()
    }
}

pub(super) async fn however_awkward_are_independent(case: &Case) {
    let keys = case.awkward_keys();
    let mut held: Vec<_> = stream::iter(keys.clone())
        .map(|key| async move {
            let id = case.id();
            let record = case.acquire(&key, id, case.long()).await.granted();
            assert_eq!(record.key, key);
            (key, id)
        })
        .buffered(16)
        .collect()
        .await;
    // Each let go leaves the others held: no two are one.
    while let Some((key, id)) = held.pop() {
        case.renew(&key, id).await.renewed();
        case.release(&key, id).await.released();
        for (other, other_id) in held.iter().rev().take(2) {
            case.renew(other, *other_id).await.renewed();
        }
    }
    for key in &keys {
        case.record(key, "it released", |record| {
            record.key == *key && record.state == LeaseState::Available
        })
        .await;
    }
}

pub(super) async fn however_awkward_are_listed_as_they_were_given(case: &Case) {
    let keys = case.awkward_keys();
    for key in &keys {
        let id = case.id();
        case.acquire(key, id, case.long()).await.granted();
        case.release(key, id).await.released();
    }
    let limit = case.clock.now() + case.slack;
    for key in &keys {
        loop {
            let listed = case.list(key.as_str()).await.ok();
            let times = listed.iter().filter(|record| record.key == *key).count();
            for record in &listed {
                assert!(
                    keys.contains(&record.key) && record.key.as_str().starts_with(key.as_str()),
                    "list of {key:?}: got {record:?}"
                );
            }
            if times == 1 {
                break;
            }
            let stale = !case.capabilities().linearizable_reads && case.clock.now() < limit;
            assert!(stale, "list of {key:?}: it is there {times} times");
            case.pause(case.shortest()).await;
        }
    }
}
