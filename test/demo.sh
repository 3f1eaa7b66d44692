#!/usr/bin/env bash
# Three brokers, a topic, records produced with acks=isr, a group of two, and the leader of a partition killed in the middle: nothing that was
# acknowledged is missing. usage: test/demo.sh DIRECTORY-OF-BINARIES
set -uo pipefail
bin=${1:?usage: test/demo.sh DIRECTORY-OF-BINARIES}
records=${DEMO_RECORDS:-400000}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/brokers.sh
. "$here/brokers.sh"
moldau() { "$bin/moldau" "$@"; }
say() { printf '\n== %s\n' "$*"; }

say "three brokers"
choose_ports
for i in 0 1 2; do start_broker "$i"; done
moldau cluster health --exit-when-healthy --timeout 20s >/dev/null || fail "the cluster did not become healthy"
moldau cluster status

say "a topic with 6 partitions and 3 replicas"
moldau topic create demo -p 6 -r 3 || fail "the topic could not be created"
moldau cluster health --exit-when-healthy --timeout 20s >/dev/null || fail "the replicas did not come into sync"
moldau topic describe demo

say "$records records with acks=isr, and a group of two members"
# The producer is held to a pace, so that the kill comes in the middle.
pace() { seq 1 "$records" | while IFS= read -r -d '' -n 65536 chunk || [ -n "$chunk" ]; do printf '%s' "$chunk"; sleep 0.05; done; }
pace | "$bin/moldau" produce demo --acks isr -o json >"$dir/produced.json" 2>"$dir/produced.log" &
producer=$! # the pid of the last process of the pipe
others+=("$producer")
members=()
for m in 1 2; do
  "$bin/moldau" consume demo -g demo-group >"$dir/member-$m" 2>"$dir/member-$m.log" &
  members+=($!)
  others+=($!)
done

# Wait until some records have come through, then kill whoever leads partition 0.
for _ in $(seq 1 200); do
  [ "$(cat "$dir"/member-[12] | wc -l)" -ge $((records / 10)) ] && break
  sleep 0.05
done
leader=$(moldau cluster partitions --topic demo -o jsonl | sed -n 's/.*"partition":0,"leader":\([0-9]*\).*/\1/p')
[ -n "$leader" ] || fail "partition 0 has no leader"
before=$(cat "$dir"/member-[12] | wc -l)
kill -9 "${pids[leader]}"
wait "${pids[leader]}" 2>/dev/null
say "broker $leader, the leader of partition 0, was killed (kill -9) after $before records had been consumed"

wait "$producer" || fail "the producer failed: $(cat "$dir/produced.log")"
acknowledged=$(sed -n 's/.*"acknowledged": \([0-9]*\).*/\1/p' "$dir/produced.json")
cat "$dir/produced.log"

# Every record that was acknowledged is a different number: count the different ones that the group has printed.
for _ in $(seq 1 300); do
  consumed=$(cat "$dir"/member-[12] | sort -u | wc -l)
  [ "$consumed" -ge "$acknowledged" ] && break
  sleep 0.1
done
say "the group, with broker $leader still dead"
for _ in $(seq 1 50); do # members commit every second
  [ "$(moldau group describe demo-group -o jsonl | sed -n 's/.*"coordinator":[0-9]*,"lag":\([0-9]*\).*/\1/p')" = 0 ] && break
  sleep 0.1
done
moldau group describe demo-group
moldau cluster health

say "broker $leader comes back"
start_broker "$leader"
moldau cluster health --exit-when-healthy --timeout 30s >/dev/null || fail "the cluster did not become healthy again"
for p in "${members[@]}"; do kill -TERM "$p"; done
for p in "${members[@]}"; do wait "$p" || fail "a member of the group failed: $(cat "$dir"/member-*.log)"; done
cat "$dir"/member-*.log
moldau topic describe demo

seq 1 "$records" | sort >"$dir/want"
cat "$dir"/member-[12] | sort -u >"$dir/got"
missing=$(comm -23 "$dir/want" "$dir/got" | wc -l)
lines=$(cat "$dir"/member-[12] | wc -l)
distinct=$(wc -l <"$dir/got")
say "consumed $distinct records, $((lines - distinct)) of them more than once because the group moved while the leader was gone"
echo "acknowledged $acknowledged, missing $missing"
[ "$acknowledged" -eq "$records" ] && [ "$missing" -eq 0 ] && [ "$distinct" -eq "$records" ] || fail "acknowledged $acknowledged of $records, missing $missing"
