#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, one after another. usage: test/fuzz.sh TIME, such as 30s
set -euo pipefail
time=${1:-30s}
cd "$(dirname "$0")/.."
go=${GO:-go}
count=0
targets=$(git grep -E '^func Fuzz[A-Za-z0-9_]+\(' -- '*_test.go' | sed -E 's/^([^:]+):func (Fuzz[A-Za-z0-9_]+)\(.*/\1 \2/')
while read -r file target; do
  echo "== $file $target for $time"
  "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")"
  count=$((count + 1))
done <<<"$targets"
echo "$count fuzz targets, no failure"
