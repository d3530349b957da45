#!/bin/sh
# Four instances of a deployment start at once, and one initialization must be run exactly once: the main job
# of the `leasehold` program, on the embedded store. Run it from anywhere in a clone.
set -eu
cd "$(dirname "$0")/.."

echo "Building the program …"
cargo build --quiet --package leasehold-cli
leasehold="${CARGO_TARGET_DIR:-target}/debug/leasehold"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LEASEHOLD_STORE="sqlite:$folder/leases.db"

for instance in 1 2 3 4; do
    (
        "$leasehold" --verbose once deployment-42 -- \
            sh -c "echo 'initializing (takes 2 s) …'; sleep 2; echo initialized | tee -a '$folder/out'"
        echo "ready, exit code $?"
    ) 2>&1 | sed "s/^/[instance $instance] /" &
done
wait

echo
echo "Times it was done: $(wc -l < "$folder/out")"
echo "What is recorded:"
"$leasehold" show deployment-42
