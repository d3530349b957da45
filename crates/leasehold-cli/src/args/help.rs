//! The longer help texts: what stands at the end of each, with examples, and what names variables.

pub(super) const STORE: &str = "\
Where the leases are kept: sqlite:PATH, azure://CONTAINER[/PREFIX] or memory: (of this process \
alone). Unless given, the file leasehold/leases.db in $XDG_STATE_HOME, or in ~/.local/state.

The account of azure: is in AZURE_STORAGE_CONNECTION_STRING, or its name in AZURE_STORAGE_ACCOUNT \
with a key in AZURE_STORAGE_KEY or a shared access signature in AZURE_STORAGE_SAS_TOKEN";

pub(super) const VERBOSE: &str = "\
Say on stderr what is going on; -vv says more. LEASEHOLD_LOG chooses in detail: leasehold=debug";

pub(super) const PROGRAM: &str = "\
Examples:
  leasehold run backup -- /usr/local/bin/backup --all
  leasehold once deploy-42/migrate -- ./migrate.sh
  leasehold list

Exit codes:
  CMD's own, or 128+N if signal N killed it
  1    not acquired in the time allowed (or the code given with -E)
  2    wrong usage
  69   the store cannot be reached or refuses us
  70   this program failed
  75   the lease was lost while CMD ran, and CMD was stopped
  126  CMD cannot be executed
  127  CMD was not found

Durations are seconds (90, 0.5) or say what they are (90s, 5m, 1h 30m).";

pub(super) const RUN: &str = "\
Examples:
  leasehold run backup -- /usr/local/bin/backup --all
  leasehold run -n cron/report -- ./report.sh        exit 1 if it runs elsewhere
  leasehold run -w 5m -E 42 deploy -- make deploy    wait five minutes, then exit 42
  leasehold run db -- sh -c 'psql -v token=$LEASEHOLD_FENCING_TOKEN -f change.sql'

CMD finds LEASEHOLD_KEY, LEASEHOLD_HOLDER, LEASEHOLD_LEASE_ID (a secret: whoever knows it can release the \
lease) and LEASEHOLD_FENCING_TOKEN (greater for every new holder) in its environment. INT, TERM and HUP are \
passed on to it, and the lease is held until it is gone.

CMD runs in a process group of its own. When the lease is lost, the whole group gets TERM, then KILL, even \
if leasehold itself was killed or stopped; processes that CMD moved to groups of their own are not reached. \
What CMD leaves in the background when it ends by itself is left alone, and runs without the lease.

While a whole machine is paused nothing on it can be stopped. What must not be overtaken compares the token.";

pub(super) const ONCE: &str = "\
Examples:
  leasehold once deploy-42/migrate -- ./migrate.sh
  leasehold once -w 10m init -- sh -c 'createdb app && load-fixtures'
  leasehold once --attempts 3 deploy-43/migrate -- ./migrate.sh
  leasehold show deploy-42/migrate        who did it, when, at which attempt

Whoever comes first runs CMD; all others wait, and exit 0 when it is done. It stays done: later calls with \
the same key exit 0 at once, so put what makes it new (a version, a date) into the key.

If CMD fails, its caller exits with CMD's code and the next caller runs it again. If its caller crashes, CMD \
is ended, and the next caller runs it again after the term. CMD must therefore bear being run again. With \
--attempts or --give-up, all callers exit 1 (or the code given with -E) once that many have failed.

CMD's environment and how it is stopped are as for `leasehold run`.";

pub(super) const SHOW: &str = "\
Examples:
  leasehold show deploy
  leasehold --json show deploy | jq -r .state

The states: available (nobody holds it), leased, breaking (ending after somebody broke it), broken and \
expired (free; it ended without a release). A key that was never used is available.";

pub(super) const LIST: &str = "\
Examples:
  leasehold list
  leasehold list deploy-42/
  leasehold --json list | jq -r 'select(.state == \"leased\") | .key'";

pub(super) const BREAK: &str = "\
Examples:
  leasehold break deploy              not renewed any more: free when its term is over
  leasehold break deploy --after 0    free at once

Its holder notices at its next renewal, and stops. Until then two may run: break a lease at once only if you \
know that its holder is gone.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh > ~/.zfunc/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";
