use leasehold_core::{Metadata, Precondition};

use super::case::Case;
use super::situation::Free;

const AWKWARD: &[&str] = &[
    "",
    " ",
    "  leading and trailing  ",
    "\n",
    "line\nline\r\nline\r",
    "\t",
    "\0",
    "nul\0within",
    "\u{1}\u{1b}\u{7f}\u{85}",
    "%20%0A+&=;,",
    "'\"`\\",
    "{\"json\":[null,true,1e3]}",
    "<xml/>&amp;",
    "null",
    "é e\u{301} ß İ ı",
    "锁🔒\u{10ffff}",
    "\u{feff}\u{200b}\u{a0}\u{fffd}",
    "=?UTF-8?B?w6k=?=",
];

fn metadata(values: impl IntoIterator<Item = (String, String)>) -> Metadata {
    let mut metadata = Metadata::new();
    for (name, value) in values {
        metadata.set(name, value).expect("allowed metadata");
    }
    metadata
}

/// Metadata as awkward and as large as is allowed.
fn all() -> Vec<Metadata> {
    let awkward = AWKWARD.iter().enumerate();
    let longest_name = "n".repeat(Metadata::MAX_NAME_BYTES);
    let whole = Metadata::MAX_BYTES;
    vec![
        Metadata::new(),
        metadata(awkward.map(|(number, value)| (format!("v{number}"), (*value).to_owned()))),
        metadata([("a".into(), "x".repeat(whole - 1))]),
        metadata([("a".into(), "锁".repeat((whole - 1) / 3))]),
        metadata([("a".into(), "\n".repeat(whole - 1))]),
        metadata([(longest_name, "\"".repeat(whole - Metadata::MAX_NAME_BYTES))]),
        metadata(
            (0..whole / 8).map(|number| (format!("n{number:05}"), format!("{}", number % 10))),
        ),
        metadata(["a", "a_", "a_b", "a0", "ab"].map(|name| (name.into(), name.to_uppercase()))),
    ]
}

pub(super) async fn comes_back_as_it_was_written(case: &Case) {
    let (key, id) = (case.key("round trip"), case.id());
    for metadata in all() {
        case.write(&key, &metadata, Precondition::Any, None)
            .await
            .written();
        let as_written = |record: &leasehold_core::Record| record.metadata == metadata;
        let expected = format!("{metadata:?}");
        case.record(&key, &expected, as_written).await;
        let record = case.acquire(&key, id, case.long()).await.granted();
        assert_eq!(record.metadata, metadata, "in the record of the grant");
        let listed = case.list(key.as_str()).await.ok();
        if case.capabilities().linearizable_reads {
            assert_eq!(listed[0].metadata, metadata, "in the list");
        }
        case.release(&key, id).await.released();
    }
}

pub(super) async fn is_kept_by_every_lease_operation(case: &Case) {
    let (key, id, new) = (case.key("kept"), case.id(), case.id());
    let kept = metadata([("a".into(), "\n锁".into()), ("b".into(), String::new())]);
    let expect_kept = async |after: &str| {
        let expected = format!("the metadata unchanged after {after}");
        case.record(&key, &expected, |record| record.metadata == kept)
            .await;
    };
    case.write(&key, &kept, Precondition::Any, None)
        .await
        .written();
    case.acquire(&key, id, case.long()).await.granted();
    expect_kept("acquire").await;
    case.acquire(&key, case.id(), case.long()).await.held();
    expect_kept("a refused acquire").await;
    case.acquire(&key, id, case.long()).await.granted();
    expect_kept("a repeated acquire").await;
    case.renew(&key, id).await.renewed();
    expect_kept("renew").await;
    case.change(&key, id, new).await.changed();
    expect_kept("change").await;
    case.release(&key, new).await.released();
    expect_kept("release").await;
    case.acquire(&key, id, case.long()).await.granted();
    case.break_lease(&key, Some(case.long() / 2))
        .await
        .breaking();
    expect_kept("break").await;
    case.break_lease(&key, Some(std::time::Duration::ZERO))
        .await
        .broken();
    expect_kept("the end of the break").await;
}

pub(super) async fn survives_expiry_and_the_next_holder(case: &Case) {
    let (key, id) = (case.key("expiry"), case.id());
    let kept = metadata([("progress".into(), "half".into())]);
    case.acquire(&key, id, case.short()).await.granted();
    case.write(&key, &kept, Precondition::Any, Some(id))
        .await
        .written();
    let record = case.until_free(&key, case.short()).await;
    assert_eq!(record.metadata, kept);
    let (record, _) = case.take_over(&key, case.id(), case.short()).await;
    assert_eq!(record.metadata, kept);
}

pub(super) async fn of_a_new_record_is_empty(case: &Case) {
    let was = case.free(Free::Absent).await;
    let record = case.acquire(&was.key, was.id, case.long()).await.granted();
    assert!(record.metadata.is_empty(), "{record:?}");
    let written = metadata([("old".into(), "life".into())]);
    case.write(&was.key, &written, Precondition::Any, Some(was.id))
        .await
        .written();
    case.delete(&was.key, Precondition::Any, Some(was.id))
        .await
        .deleted();
    let record = case.acquire(&was.key, was.id, case.long()).await.granted();
    assert!(record.metadata.is_empty(), "{record:?}");
}
