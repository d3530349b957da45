use std::time::Duration;

use leasehold::Key;
use leasehold::outcome::Break;

use super::open;
use crate::duration::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

pub(super) async fn perform(
    url: Option<&str>,
    key: String,
    after: Option<Duration>,
    json: bool,
) -> Result<Exit, Failure> {
    let key = Key::new(key)?;
    let store = open(url).await?;
    let outcome = store.break_lease(&key, after).await?;
    if json {
        return output::print(&match store.read(&key).await? {
            Some(record) => output::json(&record),
            None => output::json_of_nothing(&key),
        });
    }
    output::print(&match outcome {
        Break::Breaking(left) => format!("{key} is breaking: free in {}\n", short(left)),
        Break::Broken => format!("{key} is broken: free now\n"),
        Break::NotHeld => format!("{key} was not held: there was nothing to break\n"),
    })
}
