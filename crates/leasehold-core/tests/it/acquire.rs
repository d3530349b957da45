//! Acquiring: waiting for one's turn, giving up half way, and stores that do not answer.

mod cancelled;
mod contention;
mod queue;
mod unanswered;
