use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use leasehold_core::{Key, LeaseState, Precondition, Record};

use super::case::{Case, note};
use super::situation::Free;

impl Case {
    /// What is listed under this prefix, once it is just these keys.
    async fn listed(&self, prefix: &str, expected: &[&Key]) -> Vec<Record> {
        let expected: BTreeSet<_> = expected.iter().map(|key| key.as_str()).collect();
        let limit = self.clock.now() + self.slack;
        loop {
            let records = self.list(prefix).await.ok();
            let found: BTreeSet<_> = records.iter().map(|record| record.key.as_str()).collect();
            if found == expected && records.len() == expected.len() {
                return records;
            }
            let stale = !self.capabilities().linearizable_reads && self.clock.now() < limit;
            assert!(
                stale,
                "list of {prefix:?}: expected {expected:?}, got {} records of {found:?}",
                records.len()
            );
            self.pause(self.shortest()).await;
        }
    }

    async fn written(&self, name: &str) -> Key {
        let key = self.key(name);
        self.write(&key, &note(name), Precondition::Any, None)
            .await
            .written();
        key
    }
}

pub(super) async fn has_every_record_whatever_its_state(case: &Case) {
    let leased = case.leased("leased").await;
    let breaking = case.breaking("breaking").await;
    let mut keys = vec![leased.key.clone(), breaking.key.clone()];
    for situation in Free::ALL {
        let was = case.free(situation).await;
        if situation != Free::Absent {
            keys.push(was.key);
        }
    }
    let records = case
        .listed(case.key("").as_str(), &keys.iter().collect::<Vec<_>>())
        .await;
    for listed in records {
        let read = case.read(&listed.key).await.ok();
        // What remains differs with the moment.
        let read = read.map(|read| Record {
            remaining: listed.remaining,
            ..read
        });
        assert_eq!(
            read.as_ref(),
            Some(&listed),
            "list and read of {} differ",
            listed.key
        );
    }
    assert_eq!(leased.record.state, LeaseState::Leased);
}

pub(super) async fn has_no_deleted_record(case: &Case) {
    let (kept, deleted) = (case.written("kept").await, case.written("deleted").await);
    case.delete(&deleted, Precondition::Any, None)
        .await
        .deleted();
    case.listed(case.key("").as_str(), &[&kept]).await;
}

pub(super) async fn of_nothing_is_empty(case: &Case) {
    case.listed(case.key("nothing").as_str(), &[]).await;
}

pub(super) async fn takes_the_prefix_literally(case: &Case) {
    for (prefix, inside, outside) in [
        ("a_", ["a_1", "a_"], ["ax1", "a%1"]),
        ("b%", ["b%1", "b%%"], ["bx1", "b_1"]),
        ("c*", ["c*1", "c**"], ["cx1", "c"]),
        ("d?", ["d?1", "d??"], ["dx1", "d"]),
        ("e[x]", ["e[x]", "e[x]1"], ["ex", "e["]),
        ("f\\", ["f\\1", "f\\_"], ["f1", "f_"]),
        ("g/", ["g/1", "g/x/y"], ["g", "g1"]),
        ("h", ["h", "h/1"], ["H", "H/1"]),
        ("i'", ["i'", "i'' OR 1"], ["i", "i\""]),
        ("j.", ["j.1", "j.."], ["jx1", "j"]),
        ("k^$", ["k^$", "k^$1"], ["k", "k^"]),
        ("löä", ["löä", "löä/锁"], ["lö", "loa"]),
        ("m{}", ["m{}", "m{}1"], ["m", "m{"]),
        ("n ", ["n  1", "n x"], ["n", "n1"]),
    ] {
        let mut inside_keys = Vec::new();
        for name in inside {
            inside_keys.push(case.written(name).await);
        }
        for name in outside {
            case.written(name).await;
        }
        let prefix = case.key(prefix).to_string();
        case.listed(&prefix, &inside_keys.iter().collect::<Vec<_>>())
            .await;
    }
}

pub(super) async fn of_a_whole_key_has_it_and_those_it_begins(case: &Case) {
    let short = case.written("key").await;
    let long = case.written("key and more").await;
    case.listed(short.as_str(), &[&short, &long]).await;
    case.listed(long.as_str(), &[&long]).await;
}

pub(super) async fn of_the_empty_prefix_has_everything(case: &Case) {
    let key = case.written("everything").await;
    let limit = case.clock.now() + case.slack;
    loop {
        let all = case.list("").await.ok();
        if all.iter().any(|record| record.key == key) {
            return;
        }
        let stale = !case.capabilities().linearizable_reads && case.clock.now() < limit;
        assert!(stale, "the list of everything lacks {key}");
        case.pause(Duration::ZERO).await;
    }
}

pub(super) async fn has_hundreds_of_records_each_once(case: &Case) {
    let keys: Vec<_> = stream::iter((0..300).map(|number| format!("{number:03}")))
        .map(|name| async move { case.written(&name).await })
        .buffered(32)
        .collect()
        .await;
    case.listed(case.key("").as_str(), &keys.iter().collect::<Vec<_>>())
        .await;
}
