#!/bin/sh
# Gates the current commit against BASE (a tag, a branch or a commit), in any pipeline:
#   BASE=origin/main BUILD='make server' SERVE='./server {port}' WORKLOAD=http docs/ci/gate.sh
# Ends with the status of `thunderherd gate`: 0 not slower, 1 slower, 125 undecided, 128 and more if the gate failed.
set -u

failed() {
    echo "gate.sh: $1" >&2
    exit 128
}

[ -n "${BASE:-}" ] || failed "no BASE: the revision to compare with, such as origin/main"
[ -n "${SERVE:-}" ] || failed "no SERVE: the command of the server, with {port}"
command -v thunderherd >/dev/null || failed "no program thunderherd"

# A shallow clone lacks the base.
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
    git fetch --quiet --unshallow --tags || failed "git fetch"
fi

set -- --base-rev "$BASE" --serve "$SERVE" --markdown gate.md --junit gate.xml
[ -z "${BUILD:-}" ] || set -- "$@" --build "$BUILD"
[ -z "${WORKLOAD:-}" ] || set -- "$@" --workload "$WORKLOAD"
[ -z "${MARGIN:-}" ] || set -- "$@" --margin "$MARGIN"
[ -z "${BUDGET:-}" ] || set -- "$@" --budget "$BUDGET"
exec thunderherd gate "$@"
