mod history;
mod racer;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::outcome::{Acquire, Write};
use leasehold_core::{Key, LeaseState, LeaseStore, Precondition};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;

use super::case::{Case, holder_of, note};
use super::situation::Free;
use history::History;
use racer::{Course, Racer};

const AT_ONCE: usize = 16;
const RACERS: usize = 24;
const TRACKS: usize = 4;

impl Case {
    /// Runs the same thing many times at once, on threads of the runtime, each on the next client.
    async fn at_once<T, Run>(&self, run: impl Fn(Arc<dyn LeaseStore>) -> Run) -> Vec<T>
    where
        T: Send + 'static,
        Run: Future<Output = T> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        for number in 0..AT_ONCE {
            let client = &self.clients[number % self.clients.len()];
            tasks.spawn(run(Arc::clone(client)));
        }
        tasks.join_all().await
    }

    /// Every one of these ids asks for the lease at once.
    async fn acquire_at_once(&self, key: &Key, one_id: bool) -> Vec<Acquire> {
        let (first, term) = (self.id(), self.long());
        self.at_once(|store| {
            let id = if one_id { first } else { self.id() };
            let key = key.clone();
            async move {
                let answer = store.acquire(&key, id, term.into(), &holder_of(id)).await;
                answer.unwrap_or_else(|error| panic!("acquire of {key} among many: {error}"))
            }
        })
        .await
    }
}

pub(super) async fn of_one_id_with_itself_grants_every_time(case: &Case) {
    let was = case.free(Free::Absent).await;
    let answers = case.acquire_at_once(&was.key, true).await;
    let mut tokens = Vec::new();
    for answer in answers {
        match answer {
            Acquire::Granted(record) => tokens.push(record.token),
            Acquire::Held(held_by) => {
                panic!("{}: its own holder was told {held_by:?}", was.key)
            }
        }
    }
    let greatest = tokens.into_iter().max().flatten();
    case.record(&was.key, "leased with the greatest token given", |record| {
        record.state == LeaseState::Leased && record.token == greatest
    })
    .await;
}

pub(super) async fn of_many_ids_grants_just_one(case: &Case) {
    for situation in Free::ALL {
        let was = case.free(situation).await;
        let limit = case.clock.now() + case.slack;
        let granted = loop {
            let answers = case.acquire_at_once(&was.key, false).await;
            let granted = answers.into_iter().filter_map(|answer| match answer {
                Acquire::Granted(record) => Some(record),
                Acquire::Held(_) => None,
            });
            let granted: Vec<_> = granted.collect();
            // What has expired may be let go of late; everything else is free at once.
            let late = situation == Free::Expired && case.clock.now() < limit;
            if !(granted.is_empty() && late) {
                break granted;
            }
            case.pause(case.shortest()).await;
        };
        assert_eq!(
            granted.len(),
            1,
            "{situation:?}: of {AT_ONCE} at once there has to be one grant; got {granted:?}"
        );
        case.expect_greater(&granted[0], was.token);
        case.expect_unchanged(&granted[0]).await;
    }
}

pub(super) async fn of_conditional_writes_lets_just_one_win(case: &Case) {
    let key = case.key("writes");
    let mut precondition = Precondition::IfAbsent;
    for round in 0..4 {
        let answers = case
            .at_once(|store| {
                let (key, precondition) = (key.clone(), precondition.clone());
                let metadata = note(&format!("{round} {:x}", case.random()));
                async move { store.write(&key, &metadata, &precondition, None).await }
            })
            .await;
        let mut written = Vec::new();
        for answer in answers {
            match answer {
                Ok(Write::Written(version)) => written.push(version),
                Ok(Write::Conflict(_)) => {}
                other => panic!("write of {key} among many: got {other:?}"),
            }
        }
        assert_eq!(
            written.len(),
            1,
            "of {AT_ONCE} writes of {key} at once if {precondition:?} one has to win; got {written:?}"
        );
        precondition = Precondition::IfVersion(written.remove(0));
    }
}

pub(super) async fn of_updates_loses_none(case: &Case) {
    const EACH: usize = 4;
    let key = case.key("counter");
    case.write(&key, &note("0"), Precondition::Any, None)
        .await
        .written();
    case.at_once(|store| {
        let key = key.clone();
        async move {
            let mut left = EACH;
            while left > 0 {
                let read = store.read(&key).await.expect("a read among many");
                let record = read.expect("a record that nobody deletes");
                let count: usize = record
                    .metadata
                    .get("note")
                    .and_then(|count| count.parse().ok())
                    .expect("the count");
                let next = note(&(count + 1).to_string());
                let if_unmodified = Precondition::IfVersion(record.version);
                match store.write(&key, &next, &if_unmodified, None).await {
                    Ok(Write::Written(_)) => left -= 1,
                    // Not at once: where reads may be stale, time has to pass.
                    Ok(Write::Conflict(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
                    other => panic!("write of {key} among many: got {other:?}"),
                }
            }
        }
    })
    .await;
    let all = note(&(EACH * AT_ONCE).to_string());
    case.record(&key, &format!("{all:?}"), |record| record.metadata == all)
        .await;
}

/// The last and hardest: many tasks on few keys take, hold, renew, repeat, let go of, abandon, break and delete,
/// as chance will have it. On each key tokens grow in the order of the grants, and no two hold at once.
pub(super) async fn of_everybody_for_everything_keeps_holds_apart(case: &Case) {
    let keys: Vec<_> = (0..TRACKS)
        .map(|track| case.key(&format!("track {track}")))
        .collect();
    let course = Arc::new(Course::new(case, keys.clone()));
    let mut racers = JoinSet::new();
    for number in 0..RACERS {
        let racer = Racer {
            course: Arc::clone(&course),
            store: Arc::clone(&case.clients[number % case.clients.len()]),
            generator: StdRng::seed_from_u64(case.random()),
            history: History::default(),
        };
        racers.spawn(racer.run());
    }
    let mut history = History::default();
    for part in racers.join_all().await {
        history.append(part);
    }
    for (track, key) in keys.iter().enumerate() {
        let greatest = history.check(track, key, case.capabilities().fencing);
        let (record, _) = case.take_over(key, case.id(), case.shortest()).await;
        case.expect_greater(&record, greatest);
    }
}
