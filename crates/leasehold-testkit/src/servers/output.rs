use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How many of the last lines are kept to be shown when a test fails.
const KEPT: usize = 200;

/// What a server prints: read to its end, so that the server never waits for us, and its last lines kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Output(Arc<Mutex<VecDeque<String>>>);

impl Output {
    /// Reads from these; the receiver gets each line of the first as it comes, until it is dropped.
    pub(super) fn read(
        &self,
        first: impl Read + Send + 'static,
        second: impl Read + Send + 'static,
    ) -> Receiver<String> {
        let (sender, receiver) = channel();
        self.read_one(first, Some(sender));
        self.read_one(second, None);
        receiver
    }

    fn read_one(&self, from: impl Read + Send + 'static, tell: Option<Sender<String>>) {
        let output = self.clone();
        // Ends when the server does.
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if let Some(sender) = &tell {
                    let _ = sender.send(line.clone());
                }
                let mut kept = output.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
    }

    /// The last lines.
    pub(super) fn tail(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = kept.iter().map(String::as_str).collect();
        lines.join("\n")
    }
}
