use super::Completion;
use crate::{Effect, ErrorKind, Holder, Invalid, Metadata, Record, StoreError};

const PROGRESS: &str = "progress";
const ATTEMPT: &str = "attempt";
pub(super) const HOLDER: &str = "holder";
const STARTED: &str = "started";
pub(super) const FINISHED: &str = "finished";
const ERROR: &str = "error";
const RESULT: &str = "result";
const CHECKPOINTS: &str = "checkpoints";

/// The most that is kept of an error's text, in bytes.
const ERROR_BYTES: usize = 512;

/// How far something is that is to be done once: the metadata of its record, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How far the last attempt came.
    pub stage: Stage,
    /// The number of the last attempt, from 1.
    pub attempt: u32,
    /// Who made it, for people.
    pub holder: Option<String>,
    /// When it was begun, RFC 3339, by the wall clock of who made it; for people.
    pub started: Option<String>,
    /// When it ended; likewise.
    pub finished: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// What it gave as its result.
    pub result: Option<String>,
    /// What was reached by this and earlier attempts, in order.
    pub checkpoints: Vec<String>,
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Begun. When nobody holds the lease any more, it ended without a word.
    Running,
    /// Ended well: there is nothing left to do.
    Done,
    /// Ended badly.
    Failed,
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Failed]
            .into_iter()
            .find(|stage| stage.as_str() == text)
    }
}

impl Progress {
    /// Reads a record's metadata; `None` when nobody has begun.
    ///
    /// # Errors
    /// When it holds what this library does not write.
    pub fn of(record: &Record) -> Result<Option<Self>, StoreError> {
        let metadata = &record.metadata;
        let Some(stage) = metadata.get(PROGRESS) else {
            return Ok(None);
        };
        let attempt = metadata.get(ATTEMPT).unwrap_or_default();
        let (Some(stage), Ok(attempt)) = (Stage::parse(stage), attempt.parse()) else {
            return Err(StoreError::new(
                ErrorKind::Corrupt,
                Effect::NotApplied,
                format!(
                    "the record of {} holds progress {stage:?} and attempt {attempt:?}; \
                     expected running, done or failed, and a number",
                    record.key
                ),
            ));
        };
        let text = |name| metadata.get(name).map(Into::into);
        Ok(Some(Self {
            stage,
            attempt,
            holder: text(HOLDER),
            started: text(STARTED),
            finished: text(FINISHED),
            error: text(ERROR),
            result: text(RESULT),
            checkpoints: checkpoints(metadata).map(Into::into).collect(),
        }))
    }

    pub(super) fn completion(&self, performed_here: bool) -> Completion {
        Completion {
            performed_here,
            attempt: self.attempt,
            result: self.result.clone(),
            holder: self.holder.clone(),
            finished: self.finished.clone(),
        }
    }

    // What the four stages leave in the metadata. Names that are not ours are kept.

    pub(super) fn running(
        record: &Record,
        now: String,
        attempt: u32,
        holder: &Holder,
    ) -> Result<Metadata, Invalid> {
        let mut metadata = record.metadata.clone();
        for name in [FINISHED, ERROR, RESULT] {
            metadata.remove(name);
        }
        metadata.set(PROGRESS, Stage::Running.as_str())?;
        metadata.set(ATTEMPT, attempt.to_string())?;
        metadata.set(HOLDER, holder.as_str())?;
        metadata.set(STARTED, now)?;
        Ok(metadata)
    }

    pub(super) fn done(
        record: &Record,
        now: String,
        result: Option<&str>,
    ) -> Result<Metadata, Invalid> {
        let mut metadata = record.metadata.clone();
        metadata.set(PROGRESS, Stage::Done.as_str())?;
        metadata.set(FINISHED, now)?;
        if let Some(result) = result {
            metadata.set(RESULT, result)?;
        }
        Ok(metadata)
    }

    pub(super) fn failed(record: &Record, now: String, error: &str) -> Result<Metadata, Invalid> {
        let mut metadata = record.metadata.clone();
        metadata.set(PROGRESS, Stage::Failed.as_str())?;
        metadata.set(FINISHED, now)?;
        let mut kept = error;
        while kept.len() > ERROR_BYTES {
            let mut characters = kept.chars();
            characters.next_back();
            kept = characters.as_str();
        }
        metadata.set(ERROR, kept)?;
        Ok(metadata)
    }

    pub(super) fn reached(record: &Record, checkpoint: &str) -> Result<Metadata, Invalid> {
        check_name(checkpoint)?;
        let mut metadata = record.metadata.clone();
        if !checkpoints(&metadata).any(|name| name == checkpoint) {
            let mut names: Vec<_> = checkpoints(&metadata).collect();
            names.push(checkpoint);
            let names = names.join(" ");
            metadata.set(CHECKPOINTS, names)?;
        }
        Ok(metadata)
    }
}

pub(super) fn checkpoints(metadata: &Metadata) -> impl Iterator<Item = &str> {
    metadata
        .get(CHECKPOINTS)
        .unwrap_or_default()
        .split_ascii_whitespace()
}

fn check_name(checkpoint: &str) -> Result<(), Invalid> {
    let allowed = |c: char| !c.is_whitespace() && !c.is_control();
    if (1..=64).contains(&checkpoint.len()) && checkpoint.chars().all(allowed) {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "the checkpoint {checkpoint:?} is not allowed; it has 1 to 64 bytes without white space"
    )))
}
