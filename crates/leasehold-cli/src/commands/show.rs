use leasehold::Key;

use super::open;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

pub(super) async fn perform(url: Option<&str>, key: String, json: bool) -> Result<Exit, Failure> {
    let key = Key::new(key)?;
    let record = open(url).await?.read(&key).await?;
    match (record, json) {
        (Some(record), false) => output::print(&output::in_full(&record)),
        (Some(record), true) => output::print(&output::json(&record)),
        (None, true) => output::print(&output::json_of_nothing(&key)),
        (None, false) => output::print(&format!(
            "{key} is available: the store has no record of it\n"
        )),
    }
}
