use std::time::Duration;

use futures::StreamExt;
use leasehold_core::{Hints, Key, Precondition, Record};

use super::case::{Case, note};
use super::situation::Leased;

impl Case {
    /// Starts to watch; `None` where the store gives no hints, and says so.
    async fn watch(&self, key: &Key) -> Option<Hints> {
        let request = self.store().watch(key);
        let answer = self.answer(format!("watch of {key}"), request).await;
        let hints = answer
            .got
            .unwrap_or_else(|error| panic!("{}: got the error {error}", answer.asked));
        assert_eq!(
            hints.is_some(),
            self.capabilities().watch,
            "watch of {key}: hints or none, against what the capabilities say"
        );
        hints
    }

    /// What a waiter does: looks, and at each hint looks again, until the key is as awaited.
    async fn hinted(
        &self,
        hints: &mut Hints,
        key: &Key,
        what: &str,
        done: impl Fn(Option<&Record>) -> bool,
    ) {
        let limit = self.clock.now() + self.slack;
        loop {
            let left = limit.saturating_duration_since(self.clock.now());
            let Ok(hint) = tokio::time::timeout(left, hints.next()).await else {
                panic!("no hint of {what} on {key} within {:?}", self.slack);
            };
            assert!(
                hint.is_some(),
                "the hints on {key} ended before that of {what}"
            );
            // A hint may be needless, or older than what is awaited.
            let found = self.read(key).await.ok();
            if done(found.as_ref()) {
                return;
            }
        }
    }

    /// Watches a leased key, lets something be done to it before the first look at the hints, and waits for one.
    async fn hinted_of(
        &self,
        what: &str,
        act: impl AsyncFnOnce(&Leased),
        done: impl Fn(Option<&Record>) -> bool,
    ) {
        let leased = self.leased(what).await;
        if let Some(mut hints) = self.watch(&leased.key).await {
            act(&leased).await;
            self.hinted(&mut hints, &leased.key, what, done).await;
        }
    }
}

fn is_free(found: Option<&Record>) -> bool {
    found.is_some_and(|record| !record.state.is_held())
}

pub(super) async fn hints_of_a_release(case: &Case) {
    let release = async |leased: &Leased| case.release(&leased.key, leased.id).await.released();
    case.hinted_of("release", release, is_free).await;
}

pub(super) async fn hints_of_a_break(case: &Case) {
    let end = async |leased: &Leased| {
        let at_once = Some(Duration::ZERO);
        case.break_lease(&leased.key, at_once).await.broken();
    };
    case.hinted_of("break", end, is_free).await;
}

pub(super) async fn hints_of_a_deletion(case: &Case) {
    let delete = async |leased: &Leased| {
        let under = Some(leased.id);
        case.delete(&leased.key, Precondition::Any, under)
            .await
            .deleted();
    };
    case.hinted_of("deletion", delete, |found| found.is_none())
        .await;
}

pub(super) async fn hints_of_a_write(case: &Case) {
    let write = async |leased: &Leased| {
        let under = Some(leased.id);
        case.write(&leased.key, &note("new"), Precondition::Any, under)
            .await
            .written();
    };
    let is_new =
        |found: Option<&Record>| found.is_some_and(|record| record.metadata == note("new"));
    case.hinted_of("write", write, is_new).await;
}

pub(super) async fn hints_while_somebody_already_waits(case: &Case) {
    let leased = case.leased("waiting").await;
    let Some(mut hints) = case.watch(&leased.key).await else {
        return;
    };
    let release = async {
        case.pause(case.shortest()).await;
        case.release(&leased.key, leased.id).await.released();
    };
    let wait = case.hinted(&mut hints, &leased.key, "release", is_free);
    futures::join!(wait, release);
}

pub(super) async fn hints_on_a_key_that_has_no_record_yet(case: &Case) {
    let key = case.key("absent");
    let Some(mut hints) = case.watch(&key).await else {
        return;
    };
    case.write(&key, &note("first"), Precondition::IfAbsent, None)
        .await
        .written();
    case.hinted(&mut hints, &key, "the first write", |found| found.is_some())
        .await;
}

pub(super) async fn hints_to_everybody_who_watches(case: &Case) {
    let leased = case.leased("many").await;
    let mut watching = Vec::new();
    for _ in 0..5 {
        watching.extend(case.watch(&leased.key).await);
    }
    // One that went away takes nothing from the others.
    watching.pop();
    case.release(&leased.key, leased.id).await.released();
    for mut hints in watching {
        case.hinted(&mut hints, &leased.key, "release", is_free)
            .await;
    }
}

pub(super) async fn hints_again_and_again(case: &Case) {
    let key = case.key("again");
    let Some(mut hints) = case.watch(&key).await else {
        return;
    };
    for _ in 0..20 {
        let id = case.id();
        case.acquire(&key, id, case.long()).await.granted();
        case.release(&key, id).await.released();
        case.hinted(&mut hints, &key, "release", is_free).await;
    }
}
