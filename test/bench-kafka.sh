#!/usr/bin/env bash
# The product beside Apache Kafka, in turn, on the same machine, both through Kafka's protocol. usage: test/bench-kafka.sh [DIRECTORY-OF-BINARIES]
#
# Three brokers on loopback (Kafka: KRaft, broker and controller in one process), replication factor 3, min.insync.replicas 2, 6 partitions, acks=all, batches of 500, 8
# batches in flight per partition. Four variants, A B A B, never two at a time, each on a fresh cluster for each record size:
#   kafka-shipped  as shipped, which flushes nothing         moldau-os      flush.policy=os, the same promise
#   kafka-flush    flush.messages=1: flush before the answer moldau-always  flush.policy=always, as shipped
# Per cluster: the time from exec until every broker answers with all three; a load to warm up, without which a JVM is several times slower; then
#   produce_piped   the bare client (whole batches, sent again and again): 6 connections with 8 in flight
#   produce_spread  the same with 48 connections with 1 in flight: a Kafka broker works on one request of a connection at a time. Compare the better of the two
#   produce_franz   franz-go, 6 clients
# and of the variants as shipped, drains of one backlog: drain_batch (bare client) and drain_franz from the page cache, drain_cold (bare client) from the disk.
#
# Environment: ROUNDS=1; SIZES="100 1024"; WARM=20 (seconds of warming, at 50 MB/s); SECONDS_PER_RUN=5; DRAIN_MB=500 (megabytes of values in the backlog);
# KAFKA_HEAP="-Xms1g -Xmx1g", as shipped; KAFKA_LIBS=folder of jars (otherwise test/bench-kafka.pom.xml is fetched with mvn, once, into BENCH_CACHE). Needs java 17, 20 GB of
# disk under TMPDIR, and about 8 minutes a round. Prints one JSON document; progress goes to standard error.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../bin}
rounds=${ROUNDS:-1}
sizes=${SIZES:-100 1024}
warm=${WARM:-20}
seconds=${SECONDS_PER_RUN:-5}
drain_mb=${DRAIN_MB:-500}
heap=${KAFKA_HEAP:--Xms1g -Xmx1g}
in_flight=8 partitions=6 batch=500 clients=6
# shellcheck source=test/brokers.sh
. "$here/brokers.sh"

# shellcheck source=test/kafka-libs.sh
. "$here/kafka-libs.sh"
# As bin/kafka-run-class.sh runs a broker, without its logs of garbage collection.
jvm=(-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$libs/*")

# start_kafka formats three data directories and starts their brokers.
start_kafka() {
  local i voters="" controllers=()
  for i in 0 1 2; do
    controllers[i]=127.0.0.1:$(free_port)
    taken="$taken ${controllers[i]#*:}"
    voters="$voters${voters:+,}$i@${controllers[i]}"
  done
  for i in 0 1 2; do
    mkdir -p "$dir/data-$i"
    cat >"$dir/kafka-$i.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$voters
listeners=PLAINTEXT://${kafka[i]},CONTROLLER://${controllers[i]}
advertised.listeners=PLAINTEXT://${kafka[i]}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data-$i
default.replication.factor=3
min.insync.replicas=2
PROPERTIES
    java -Xmx256m "${jvm[@]}" kafka.tools.StorageTool format -t bW9sZGF1LWJlbmNoLTAwMA -c "$dir/kafka-$i.properties" >"$dir/format-$i.log" 2>&1 \
      || { cat "$dir/format-$i.log" >&2; fail "format of Kafka's broker $i"; }
  done
  started=$(date +%s%N)
  for i in 0 1 2; do
    # shellcheck disable=SC2086 # heap is several words
    java $heap "${jvm[@]}" kafka.Kafka "$dir/kafka-$i.properties" >"$dir/broker-$i.log" 2>&1 &
    pids[i]=$!
  done
}

start_moldau() {
  local i
  started=$(date +%s%N)
  for i in 0 1 2; do start_broker "$i" --log-level warn --kafka-addr "${kafka[i]}"; done
}

# start VARIANT leaves a cluster that is ready, and notes how long that took and how much memory each idle broker holds.
start() {
  local i pid
  taken=""
  choose_ports
  for i in 0 1 2; do
    kafka[i]=127.0.0.1:$(free_port)
    taken="$taken ${kafka[i]#*:}"
  done
  servers=${kafka[0]},${kafka[1]},${kafka[2]}
  case $1 in kafka-*) start_kafka ;; *) start_moldau ;; esac
  "$bin/bench" ready --server "$servers" --timeout 60s >/dev/null || fail "$1 did not become ready"
  note start_ms "$1" "$2" $((($(date +%s%N) - started) / 1000000))
  for pid in "${pids[@]}"; do
    note idle_rss_mb "$1" "$2" "$(awk '/^VmRSS:/ { printf "%.1f", $2 / 1000 * 1.024 }' "/proc/$pid/status")"
  done
}

# end stops the cluster in an orderly way, and removes its data. A process that does not end within 30 s is killed.
end() {
  local pid deadline=$((SECONDS + 30))
  kill "${pids[@]}" 2>/dev/null
  for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    kill -9 "$pid" 2>/dev/null
  done
  wait "${pids[@]}" 2>/dev/null
  pids=()
  rm -rf "$dir"/data-*
}

# note METRIC VARIANT SIZE VALUE keeps one figure.
note() { echo "$1 $2 $3 $4" >>"$dir/figures"; }

# value SECTION KEY FILE prints every KEY within a top-level SECTION of bench's indented JSON, one a line.
value() {
  awk -v section="\"$1\":" -v key="\"$2\":" '
    /^  "/ { inside = ($1 == section) }
    inside { for (i = 1; i < NF; i++) if ($i == key) { gsub(/[^0-9.e+-]/, "", $(i + 1)); print $(i + 1) } }' "$3"
}
total() { awk '{ sum += $1 } END { printf "%.4f", sum }'; }

# load NAME VARIANT SIZE KIND ARGUMENT... runs bench against the cluster and notes its figures under NAME.
load() {
  local name=$1 variant=$2 size=$3 kind=$4 file=$dir/run-$round-$2-$3-$1.json
  shift 4
  "$bin/bench" "$kind" --protocol kafka --server "$servers" --broker-pids "${pids[0]},${pids[1]},${pids[2]}" -o json "$@" >"$file" || fail "$variant: bench $kind $*"
  note "${name}_krec_s" "$variant" "$size" "$(value "$kind" records_per_second "$file" | awk '{ printf "%.1f", $1 / 1000 }')"
  note "${name}_brokers_us_a_record" "$variant" "$size" "$(value brokers cpu_us_per_record "$file" | total)"
  note "${name}_client_us_a_record" "$variant" "$size" "$(value client cpu_us_per_record "$file")"
  [ "$(value "$kind" errors "$file")" = 0 ] || echo "$variant: bench $kind $*: $(value "$kind" errors "$file") errors" >&2
  if [ "$kind" = produce ]; then
    note "${name}_p99_ms" "$variant" "$size" "$(value produce p99 "$file")"
  else
    note "${name}_brokers_cpu_s_a_gb" "$variant" "$size" "$(awk '$1 == "\"brokers_cpu_seconds_per_gb\":" { gsub(/[^0-9.e+-]/, "", $2); print $2 }' "$file")"
  fi
}

# run VARIANT SIZE
run() {
  local variant=$1 size=$2 flush rss
  echo "round $round: $variant, $size B" >&2
  case $variant in
    kafka-shipped) flush=() ;;
    kafka-flush) flush=(-c flush.messages=1) ;;
    moldau-os) flush=(-c flush.policy=os) ;;
    moldau-always) flush=(-c flush.policy=always) ;;
  esac
  start "$variant" "$size"
  local produce=(--partitions $partitions --replication-factor 3 -c min.insync.replicas=2 "${flush[@]}" --acks isr --size "$size" --batch $batch)
  local piped=(--api batch --prebuilt --connections $clients --in-flight $in_flight) spread=(--api batch --prebuilt --connections $((partitions * in_flight)) --in-flight 1)
  local timed=(--warmup 2s --duration "${seconds}s")
  load warm "$variant" "$size" produce --topic warm "${produce[@]}" "${spread[@]}" --rate $((50000000 / size)) --warmup 0s --duration "${warm}s"
  load produce_piped "$variant" "$size" produce --topic piped "${produce[@]}" "${piped[@]}" "${timed[@]}"
  load produce_spread "$variant" "$size" produce --topic spread "${produce[@]}" "${spread[@]}" "${timed[@]}"
  load produce_franz "$variant" "$size" produce --topic franz "${produce[@]}" --api records --connections $clients --in-flight $in_flight "${timed[@]}"
  case $variant in
    kafka-shipped | moldau-always)
      load fill "$variant" "$size" produce --topic backlog "${produce[@]}" "${piped[@]}" --count $((drain_mb * 1000000 / size))
      load drain_first "$variant" "$size" consume --topic backlog --connections $clients
      load drain_batch "$variant" "$size" consume --topic backlog --connections $clients
      load drain_franz "$variant" "$size" consume --topic backlog --connections $clients --api records
      load drain_cold "$variant" "$size" consume --topic backlog --connections $clients --cold --broker-data "$dir/data-0,$dir/data-1,$dir/data-2"
      ;;
  esac
  for rss in $(value brokers rss_peak_bytes "$(ls -t "$dir"/run-"$round-$variant-$size"-*.json | head -n 1)"); do
    note peak_rss_mb "$variant" "$size" "$(awk -v n="$rss" 'BEGIN { printf "%.1f", n / 1e6 }')"
  done
  end
}

for round in $(seq 1 "$rounds"); do
  for size in $sizes; do
    for variant in kafka-shipped moldau-os kafka-flush moldau-always; do run "$variant" "$size"; done
  done
done

# median METRIC VARIANT SIZE; null where nothing was measured.
median() {
  awk -v metric="$1" -v variant="$2" -v size="$3" '$1 == metric && $2 == variant && $3 == size && $4 != "" { print $4 }' "$dir/figures" | sort -g \
    | awk '{ v[NR] = $1 } END { if (NR) printf "%.4g", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2; else printf "null" }'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a == "null" || b == "null" || b + 0 == 0) printf "null"; else printf "%.3f", a / b }'; }

echo '{'
echo "  \"machine\": \"$(uname -srm), $(nproc) CPUs\", \"rounds\": $rounds, \"moldau\": \"$("$bin/moldau" version -o name)\", \"kafka\": \"$kafka_version\","
echo "  \"java\": \"$(java -version 2>&1 | head -n 1 | tr -d '\"')\", \"kafka_heap\": \"$heap\", \"in_flight_per_partition\": $in_flight, \"batch_records\": $batch,"
echo "  \"partitions\": $partitions, \"replication_factor\": 3, \"min_insync_replicas\": 2, \"warm_seconds\": $warm, \"seconds\": $seconds, \"drain_mb\": $drain_mb,"
echo '  "note": "medians; brokers_us is CPU of all three brokers; memory is of each broker; the backlog is drained once before drain_batch; flushes are as fast as this disk",'
echo '  "results": ['
comma=""
for size in $sizes; do
  # Every metric once, in the order in which it first came.
  for metric in $(awk '!seen[$1]++ && $1 !~ /^(warm|fill|drain_first)_/ { print $1 }' "$dir/figures"); do
    shipped=$(median "$metric" kafka-shipped "$size") flushed=$(median "$metric" kafka-flush "$size")
    os=$(median "$metric" moldau-os "$size") always=$(median "$metric" moldau-always "$size")
    printf '%s    {"metric": "%s", "record_bytes": %s, "kafka_shipped": %s, "kafka_flush": %s, "moldau_os": %s, "moldau_always": %s, "both_flush": %s, "neither_flushes": %s, "as_shipped": %s}' \
      "$comma" "$metric" "$size" "$shipped" "$flushed" "$os" "$always" "$(ratio "$always" "$flushed")" "$(ratio "$os" "$shipped")" "$(ratio "$always" "$shipped")"
    comma=$',\n'
  done
done
printf '\n  ],\n  "runs": [\n'
comma=""
for f in "$dir"/run-*.json; do
  printf '%s    {"name": "%s", "run":\n' "$comma" "$(basename "$f" .json)"
  sed 's/^/    /' "$f"
  printf '    }'
  comma=$',\n'
done
printf '\n  ]\n}\n'
