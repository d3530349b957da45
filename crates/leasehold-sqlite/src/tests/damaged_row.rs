use futures::StreamExt;
use leasehold_core::{Effect, ErrorKind, Holder, Key, LeaseStore, Precondition, Term};
use rusqlite::Connection;

use super::{HandClock, id, open};

#[tokio::test]
async fn a_damaged_record_is_told_as_such_and_leaves_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let store = open(&path, &HandClock::at_seconds(5), "boot").await;
    let holder = Holder::new("holder").unwrap();
    let keys = ["a", "b", "c"].map(|name| Key::new(name).unwrap());
    for key in &keys {
        store
            .acquire(key, id(1), Term::DEFAULT, &holder)
            .await
            .unwrap();
    }
    for (column, value) in [
        ("status", "9"),
        ("token", "-1"),
        ("id", "x'00'"),
        ("holder", "''"),
        ("until_ns", "NULL"),
        ("metadata", "'[]'"),
    ] {
        let outside = Connection::open(&path).unwrap();
        outside
            .execute_batch(&format!(
                "CREATE TEMP TABLE kept AS SELECT {column} FROM lease WHERE key = 'b';
                 UPDATE lease SET {column} = {value} WHERE key = 'b'"
            ))
            .unwrap();

        let error = store
            .acquire(&keys[1], id(1), Term::DEFAULT, &holder)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{column}: {error}");
        assert_eq!(error.effect(), Effect::NotApplied);
        let message = error.to_string();
        assert!(message.contains("acquiring b in "), "{message}");
        assert!(message.contains("leases.db"), "{message}");

        let batch = keys.clone().map(|key| (key, id(1)));
        let renewed = store.renew_many(&batch).await;
        assert!(
            renewed[0].is_ok() && renewed[2].is_ok(),
            "{column}: {renewed:?}"
        );

        let listed: Vec<_> = store.list("").collect().await;
        let good: Vec<_> = listed.iter().flatten().map(|found| &found.key).collect();
        assert_eq!(good, [&keys[0], &keys[2]], "{column}");
        assert_eq!(listed.len(), 3, "{column}");

        outside
            .execute_batch(&format!(
                "UPDATE lease SET {column} = (SELECT {column} FROM kept) WHERE key = 'b'"
            ))
            .unwrap();
    }
    let deleted = store
        .delete(&keys[1], &Precondition::Any, Some(id(1)))
        .await;
    deleted.unwrap();
}
