//! The servers that tests start.

use std::net::TcpStream;

use leasehold_testkit::servers::Azurite;

#[test]
#[ignore = "needs Azurite: cargo xtask test"]
fn each_azurite_is_its_own_and_gone_when_dropped() {
    let (first, second) = (Azurite::start(), Azurite::start());
    let address = |azurite: &Azurite| {
        let (_, rest) = azurite.endpoint().split_once("://").unwrap();
        rest.split_once('/').unwrap().0.to_owned()
    };
    let (dropped, kept) = (address(&first), address(&second));
    assert_ne!(dropped, kept);
    assert!(TcpStream::connect(&dropped).is_ok());
    drop(first);
    assert!(TcpStream::connect(&dropped).is_err());
    assert!(TcpStream::connect(&kept).is_ok());
}
