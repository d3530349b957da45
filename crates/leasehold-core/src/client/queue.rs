use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::outcome::HeldBy;
use crate::{Key, LeaseState};

/// Who of this process may talk to the store about a key: one at a time, first come, first served.
///
/// Whoever has the [`Turn`] waits at the store or holds the lease; everybody else waits here and costs the
/// store nothing.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue {
    slots: Mutex<HashMap<Key, Shelved>>,
}

#[derive(Debug)]
struct Shelved {
    slot: Arc<Slot>,
    /// How many have a place. Not the slot's reference count, which two who leave at once lower too late.
    places: usize,
}

#[derive(Debug)]
struct Slot {
    turn: Arc<Semaphore>,
    seen: Mutex<Option<HeldBy>>,
}

/// A place in the queue for a key; the last one to leave takes the slot away.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<LocalQueue>,
    key: Key,
    slot: Arc<Slot>,
}

/// The right to talk to the store about a key, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    // Dropped before the place is: whoever is next must find the permit free.
    _permit: OwnedSemaphorePermit,
    place: Place,
}

impl LocalQueue {
    pub(crate) fn place(self: &Arc<Self>, key: &Key) -> Place {
        let mut slots = self.slots();
        let shelved = slots.entry(key.clone()).or_insert_with(|| Shelved {
            slot: Arc::new(Slot {
                turn: Arc::new(Semaphore::new(1)),
                seen: Mutex::new(None),
            }),
            places: 0,
        });
        shelved.places += 1;
        let slot = Arc::clone(&shelved.slot);
        drop(slots);
        Place {
            queue: Arc::clone(self),
            key: key.clone(),
            slot,
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Shelved>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits for the turn. Cancel safe: who leaves the queue loses their place and nothing else.
    pub(crate) async fn turn(self) -> Turn {
        let turn = Arc::clone(&self.slot.turn).acquire_owned().await;
        // Nothing ever closes the semaphore.
        let permit = turn.unwrap_or_else(|_| unreachable!("the local queue was closed"));
        Turn {
            _permit: permit,
            place: self,
        }
    }

    /// The turn if it is free.
    ///
    /// # Errors
    /// What the one whose turn it is last learned of the lease.
    pub(crate) fn try_turn(self) -> Result<Turn, HeldBy> {
        match Arc::clone(&self.slot.turn).try_acquire_owned() {
            Ok(permit) => Ok(Turn {
                _permit: permit,
                place: self,
            }),
            Err(_) => Err(self.seen().unwrap_or(HeldBy {
                state: LeaseState::Leased,
                holder: None,
                token: None,
                remaining: None,
            })),
        }
    }

    /// What was last learned of the lease by anybody of this process.
    pub(crate) fn seen(&self) -> Option<HeldBy> {
        let seen = self
            .slot
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

impl Turn {
    pub(crate) fn note(&self, held_by: HeldBy) {
        let mut seen = self
            .place
            .slot
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *seen = Some(held_by);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut slots = self.queue.slots();
        if let Entry::Occupied(mut shelved) = slots.entry(self.key.clone()) {
            shelved.get_mut().places -= 1;
            if shelved.get().places == 0 {
                shelved.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn key() -> Key {
        Key::new("k").unwrap()
    }

    #[tokio::test]
    async fn turns_are_given_first_come_first_served_and_nothing_is_left_behind() {
        let queue = Arc::new(LocalQueue::default());
        let first = queue.place(&key()).turn().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..5 {
            let (place, order) = (queue.place(&key()), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _turn = place.turn().await;
                order.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        assert!(queue.place(&key()).try_turn().is_err());
        waiting.remove(2).abort();
        drop(first);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 3, 4]);
        assert!(queue.slots().is_empty());
    }

    #[test]
    fn two_who_leave_at_once_leave_nothing_behind() {
        const ROUNDS: usize = 50_000;
        let queue = Arc::new(LocalQueue::default());
        let arrived = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        let place = queue.place(&Key::new(round.to_string()).unwrap());
                        // Spinning at first, for a barrier lets one go much sooner than the other.
                        arrived.fetch_add(1, Ordering::SeqCst);
                        for spins in 0.. {
                            if arrived.load(Ordering::SeqCst) >= 2 * round {
                                break;
                            }
                            if spins > 1000 {
                                std::thread::yield_now();
                            }
                        }
                        drop(place);
                    }
                });
            }
        });
        assert!(queue.slots().is_empty());
    }
}
