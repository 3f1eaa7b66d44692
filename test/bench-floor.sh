#!/usr/bin/env bash
# The product beside a yardstick, in turn, on the same machine. usage: FLOOR=SOURCE-OF-THE-YARDSTICK test/bench-floor.sh [DIRECTORY-OF-BINARIES]
#
# The yardstick is a Go program whose lines look like
#   produce 100 B acks=isr fsync=true window 8/partition    MIN / MEDIAN / MAX krec/s ...
#   consume 100 B x COUNT, sendfile                         MIN / MEDIAN / MAX krec/s ...
# Three broker processes, replication factor 3, 6 partitions, acks=isr, batches of 500, 8 in flight per partition; 100 B and 1 KiB; with fsync before
# the acknowledgement and without (flush.policy=os). Both are run ROUNDS times, A B A B. Prints one JSON document: medians, and ratios product/floor.
set -uo pipefail
floor=${FLOOR:?set FLOOR to the directory of the yardstick\'s source}
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../bin}
rounds=${ROUNDS:-2}
seconds=${SECONDS_PER_RUN:-5}
go=${GO:-go}
# shellcheck source=test/brokers.sh
. "$here/brokers.sh"

(cd "$floor" && "$go" build -o "$dir/floor" ./skel) || fail "the yardstick does not build"

# run_floor ROUND notes "floor KIND SIZE FSYNC krec/s" lines.
run_floor() {
  echo "floor, round $1" >&2
  (cd "$dir" && ./floor) >"$dir/floor-$1.txt" || fail "the yardstick failed"
  sed -nE 's#^produce ([0-9]+) B acks=isr fsync=(true|false) window 8/partition +[0-9.]+ / +([0-9.]+) / .*#floor produce \1 \2 \3#p
           s#^consume ([0-9]+) B x [0-9]+, sendfile +[0-9.]+ / +([0-9.]+) / .*#floor consume \1 true \2\nfloor consume \1 false \2#p' "$dir/floor-$1.txt" >>"$dir/figures"
}

# figure KIND FILE prints krec/s of a result.
figure() { awk -v kind="\"$1\":" '$1 == kind { in_it = 1 } in_it && /"records_per_second"/ { gsub(/[^0-9.e+]/, "", $2); printf "%.1f", $2 / 1000; exit }' "$2"; }

# run_product ROUND does every setting on a fresh cluster.
run_product() {
  local i size fsync policy topic
  for size in 100 1024; do
    for fsync in false true; do
      echo "product, round $1: $size B, fsync $fsync" >&2
      taken=""
      choose_ports
      for i in 0 1 2; do start_broker "$i" --log-level warn; done
      "$bin/moldau" cluster health --exit-when-healthy --timeout 30s >/dev/null || fail "the cluster did not become healthy"
      policy=always
      [ "$fsync" = false ] && policy=os
      topic=bench-$size-$fsync
      "$bin/bench" produce --topic "$topic" --partitions 6 --replication-factor 3 -c flush.policy=$policy --size "$size" --batch 500 --in-flight 8 \
        --warmup 1s --duration "${seconds}s" --broker-pids "${pids[0]},${pids[1]},${pids[2]}" -o json >"$dir/produce-$1-$size-$fsync.json" || fail "bench produce"
      "$bin/bench" consume --topic "$topic" --decode --broker-pids "${pids[0]},${pids[1]},${pids[2]}" -o json >"$dir/consume-$1-$size-$fsync.json" || fail "bench consume"
      for kind in produce consume; do
        echo "product $kind $size $fsync $(figure $kind "$dir/$kind-$1-$size-$fsync.json")" >>"$dir/figures"
      done
      kill "${pids[@]}"
      wait "${pids[@]}" 2>/dev/null
      pids=()
      rm -rf "$dir"/data-*
    done
  done
}

for round in $(seq 1 "$rounds"); do
  run_floor "$round"
  run_product "$round"
done

median() { awk -v who="$1" -v kind="$2" -v size="$3" -v fsync="$4" '$1 == who && $2 == kind && $3 == size && $4 == fsync { print $5 }' "$dir/figures" | sort -n | awk '{ v[NR] = $1 } END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2; else print 0 }'; }

echo '{'
echo "  \"machine\": \"$(uname -sm), $(nproc) CPUs\", \"rounds\": $rounds, \"version\": \"$("$bin/moldau" version -o name)\","
echo '  "note": "medians in thousand records a second; fsync figures are those of this disk",'
echo '  "results": ['
comma=""
for kind in produce consume; do
  for size in 100 1024; do
    for fsync in false true; do
      f=$(median floor $kind $size $fsync) p=$(median product $kind $size $fsync)
      printf '%s    {"kind": "%s", "record_bytes": %s, "fsync": %s, "floor_krec_s": %s, "product_krec_s": %s, "ratio": %s}' "$comma" $kind $size $fsync "$f" "$p" \
        "$(awk -v p="$p" -v f="$f" 'BEGIN { printf "%.3f", (f > 0 ? p / f : 0) }')"
      comma=$',\n'
    done
  done
done
printf '\n  ],\n  "runs": [\n'
comma=""
for f in "$dir"/produce-*.json "$dir"/consume-*.json; do
  printf '%s' "$comma"
  sed 's/^/    /' "$f"
  comma=','
done
printf '  ]\n}\n'
