use std::process::ExitCode;

/// How the program ends; the table of the exit codes is in the help and in section 6 of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const DONE: Self = Self(0);
    pub(crate) const USAGE: Self = Self(2);
    /// `EX_UNAVAILABLE` of sysexits.
    pub(crate) const STORE: Self = Self(69);
    /// `EX_SOFTWARE` of sysexits.
    pub(crate) const INTERNAL: Self = Self(70);
    /// `EX_TEMPFAIL` of sysexits.
    pub(crate) const LEASE_LOST: Self = Self(75);
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// This very code: a command's own, or the one chosen with `-E`.
    pub(crate) fn code(code: u8) -> Self {
        Self(code)
    }

    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// What a shell says of a command that was killed by this signal.
    pub(crate) fn signal(number: i32) -> Self {
        Self(u8::try_from(128 + number).unwrap_or(u8::MAX))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.0.into()
    }
}
