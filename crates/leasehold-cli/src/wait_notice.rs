use std::convert::Infallible;
use std::future::pending;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use leasehold::{Key, LeaseStore};

/// How long nothing is said: most waits are over before.
const SAY_NOTHING_FOR: Duration = Duration::from_millis(300);

/// How often it is looked who holds the key.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Tells people whom we wait for: a spinner where stderr is a terminal, else a line in the log.
#[derive(Clone, Debug)]
pub(crate) struct WaitNotice {
    key: Key,
    bar: ProgressBar,
}

impl WaitNotice {
    pub(crate) fn new(key: &Key) -> Self {
        Self {
            key: key.clone(),
            bar: ProgressBar::hidden(),
        }
    }

    /// Whether somebody sits in front of stderr.
    pub(crate) fn is_for_people() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Shows the notice until the future is done or the notice is hidden.
    pub(crate) async fn show_during<F: Future>(
        self,
        store: &dyn LeaseStore,
        waiting: F,
    ) -> F::Output {
        // However this ends, also when it is dropped, the line is cleared.
        let _cleared = ClearOnDrop(&self.bar);
        tokio::select! {
            biased;
            output = waiting => output,
            never = self.show(store) => match never {},
        }
    }

    /// Takes it away for good.
    pub(crate) fn hide(&self) {
        self.bar.finish_and_clear();
    }

    async fn show(&self, store: &dyn LeaseStore) -> Infallible {
        if !Self::is_for_people() && !tracing::enabled!(tracing::Level::INFO) {
            return pending().await;
        }
        tokio::time::sleep(SAY_NOTHING_FOR).await;
        let mut shown = None;
        while !self.bar.is_finished() {
            // Nothing depends on it: a store that fails is dealt with by who waits.
            let record = store.read(&self.key).await.ok().flatten();
            let held = record.filter(|record| record.state.is_held());
            let holder = held.and_then(|record| record.holder);
            if shown != Some(holder.clone()) && !self.bar.is_finished() {
                self.say(holder.as_ref().map(leasehold::Holder::as_str));
                shown = Some(holder);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        pending().await
    }

    fn say(&self, holder: Option<&str>) {
        let key = &self.key;
        let message = match holder {
            Some(holder) => format!("waiting for {key}, held by {holder}"),
            None => format!("waiting for {key}"),
        };
        if !Self::is_for_people() {
            tracing::info!("{message}");
            return;
        }
        if self.bar.is_hidden() {
            self.bar
                .set_draw_target(indicatif::ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
            self.bar
                .set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            self.bar.enable_steady_tick(Duration::from_millis(120));
        }
        self.bar.set_message(message);
    }
}

struct ClearOnDrop<'a>(&'a ProgressBar);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
