use std::ffi::OsString;
use std::os::fd::RawFd;
use std::time::Duration;

use leasehold::clock::Instant;
use rustix::process::Pid;

use crate::wire::parse_instant;

const WORD: &str = "__watchdog";

/// What the holder of a lease asks of the watchdog: the arguments it is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The pipe it is told things through.
    pub(crate) read: RawFd,
    /// The pipe it answers through.
    pub(crate) write: RawFd,
    /// The holder's process group, whose place in the terminal's foreground may be lent to the command.
    pub(crate) lender: Pid,
    /// The first deadline.
    pub(crate) deadline: Instant,
    /// How long after TERM there will be KILL.
    pub(crate) kill_after: Duration,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

impl Order {
    /// Reads the arguments that [`to_args`](Self::to_args) made; `None` for any other, the first being the
    /// program's name.
    pub(crate) fn from_args(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter().skip(1);
        if args.next()? != WORD {
            return None;
        }
        let mut number = || args.next()?.into_string().ok();
        Some(Self {
            read: number()?.parse().ok()?,
            write: number()?.parse().ok()?,
            lender: Pid::from_raw(number()?.parse().ok()?)?,
            deadline: parse_instant(&number()?)?,
            kill_after: Duration::from_nanos(number()?.parse().ok()?),
            program: args.next()?,
            arguments: args.collect(),
        })
    }

    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![WORD.into()];
        let numbers = [
            self.read.to_string(),
            self.write.to_string(),
            self.lender.as_raw_nonzero().to_string(),
            self.deadline.since_origin().as_nanos().to_string(),
            self.kill_after.as_nanos().to_string(),
        ];
        args.extend(numbers.map(OsString::from));
        args.push(self.program.clone());
        args.extend(self.arguments.iter().cloned());
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_back_as_it_was_given() {
        let order = Order {
            read: 5,
            write: 8,
            lender: Pid::from_raw(77).unwrap(),
            deadline: Instant::from_origin(Duration::new(9, 1)),
            kill_after: Duration::from_millis(1500),
            program: "sh".into(),
            arguments: vec!["-c".into(), "--".into(), "".into()],
        };
        let mut args = vec![OsString::from("leasehold")];
        args.extend(order.to_args());
        assert_eq!(Order::from_args(args), Some(order));
    }

    #[test]
    fn what_people_type_is_no_order() {
        for words in [
            &["leasehold"][..],
            &["leasehold", "run", "k"],
            &["leasehold", WORD, "1"],
        ] {
            assert_eq!(Order::from_args(words.iter().map(OsString::from)), None);
        }
    }
}
