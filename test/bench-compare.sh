#!/usr/bin/env bash
# Micro-benchmarks of the work tree against another revision, ten runs each in turn, compared by benchstat.
# usage: test/bench-compare.sh [REVISION] [PACKAGE...]
set -euo pipefail
ref=${1:-HEAD~1}
[ $# -gt 0 ] && shift
cd "$(dirname "$0")/.."
go=${GO:-go}
packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(./record/... ./segment/... ./replication/... ./partition/... ./controller/... ./grpcapi/...)
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/old" 2>/dev/null || true; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/old" "$ref"
run() { (cd "$1" && "$go" test -run '^$' -bench . -benchmem -count 1 "${packages[@]}" 2>/dev/null || true) >>"$2"; }
for i in $(seq 1 "${RUNS:-10}"); do
  echo "run $i" >&2
  run "$dir/old" "$dir/old.txt"
  run . "$dir/new.txt"
done
"$go" tool -modfile=tools/go.mod benchstat "$ref=$dir/old.txt" "tree=$dir/new.txt"
