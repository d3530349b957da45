use futures::TryStreamExt;
use leasehold::Record;

use super::open;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

pub(super) async fn perform(url: Option<&str>, prefix: &str, json: bool) -> Result<Exit, Failure> {
    let store = open(url).await?;
    let mut records: Vec<Record> = store.list(prefix).try_collect().await?;
    records.sort_by(|one, other| one.key.cmp(&other.key));
    if json {
        let lines: String = records.iter().map(output::json).collect();
        return output::print(&lines);
    }
    output::print(&output::table(&records))
}
