#!/usr/bin/env bash
# The same scripted requests to Apache Kafka and to Moldau, answers compared field by field. usage: test/differential.sh [DIRECTORY-OF-BINARIES]
#
# First one broker of each on loopback, then three, all new, with the same settings where both have them: one partition and one replica for a topic that is made without
# numbers, no delay before a group's first rebalance; the single brokers make topics when they are asked for, the others do not. test/differential does the rest; it fails on a
# difference that docs/kafka-differences.md does not have.
#
# Environment: ONLY=part of a script's name; BROKERS=1 or 3 for that cluster alone; TRACE=1 prints every answer; KAFKA_HEAP="-Xmx512m"; KAFKA_LIBS and BENCH_CACHE as in test/kafka-libs.sh; FIRST_PORT=the first of
# the ports that are used, 24 of them (otherwise free ones are looked for); LOGS=folder for the brokers' logs. Needs java 17 and, unless KAFKA_LIBS is set, mvn. Takes about
# two minutes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../bin}
# shellcheck source=test/brokers.sh
. "$here/brokers.sh"
# shellcheck source=test/kafka-libs.sh
. "$here/kafka-libs.sh"

next=${FIRST_PORT:-}
port() {
  if [ -n "$next" ]; then at=$next && next=$((next + 1)); else at=$(free_port); fi
  taken="$taken $at"
  at=127.0.0.1:$at
}

# As little of the JVM as a short run needs.
jvm=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$libs/*")

# start_kafka COUNT AUTO-CREATE
start_kafka() {
  local i voters="" controllers=() addresses=()
  for ((i = 0; i < $1; i++)); do
    port && addresses[i]=$at
    port && controllers[i]=$at
    voters="$voters${voters:+,}$i@${controllers[i]}"
  done
  kafka=$(IFS=,; echo "${addresses[*]}")
  for ((i = 0; i < $1; i++)); do
    cat >"$dir/kafka-$i.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$voters
listeners=PLAINTEXT://${addresses[i]},CONTROLLER://${controllers[i]}
advertised.listeners=PLAINTEXT://${addresses[i]}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/kafka-$i
auto.create.topics.enable=$2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
    java -Xmx256m "${jvm[@]}" kafka.tools.StorageTool format -t bW9sZGF1LWJlbmNoLTAwMA -c "$dir/kafka-$i.properties" >"$dir/broker-1.log" 2>&1 || fail "format of Kafka's directory"
  done
  for ((i = 0; i < $1; i++)); do
    # shellcheck disable=SC2086 # heap is several words
    java ${KAFKA_HEAP:--Xmx512m} "${jvm[@]}" kafka.Kafka "$dir/kafka-$i.properties" >"$dir/broker-1.log" 2>&1 &
    others+=($!)
  done
}

# start_moldau COUNT AUTO-CREATE
start_moldau() {
  local i seeds="" addresses=() peers=() join=()
  for ((i = 0; i < $1; i++)); do
    port && addresses[i]=$at
    port && peers[i]=$at
    seeds="$seeds${seeds:+,}${peers[i]}"
  done
  moldau=$(IFS=,; echo "${addresses[*]}")
  [ "$1" -gt 1 ] && join=(--seeds "$seeds" --bootstrap-expect "$1")
  for ((i = 0; i < $1; i++)); do
    "$bin/moldau" server --id "$i" --data "$dir/moldau-$i" "${join[@]}" --kafka-addr "${addresses[i]}" --peer-addr "${peers[i]}" --grpc-addr 127.0.0.1:0 --http-addr 127.0.0.1:0 \
      --topic-auto-create="$2" --topic-partitions 1 --topic-replication-factor 1 >"$dir/broker-0.log" 2>&1 &
    others+=($!)
  done
}

# answer waits until somebody listens at each of the addresses.
answer() {
  local address deadline=$((SECONDS + 60))
  for address in ${1//,/ }; do
    until (exec 3<>"/dev/tcp/${address/://}") 2>/dev/null; do
      [ $SECONDS -lt $deadline ] || fail "nobody listens on $address"
      sleep 0.1
    done
  done
}

# compare COUNT SCRIPTS AUTO-CREATE [FLAG...] runs scripts against new clusters.
compare() {
  local count=$1 scripts=$2 create=$3 p
  shift 3
  start_kafka "$count" "$create"
  start_moldau "$count" "$create"
  answer "$moldau"
  answer "$kafka"
  "$bin/differential" -kafka "$kafka" -moldau "$moldau" -scripts "$here/differential/testdata/$scripts" -list "$here/../docs/kafka-differences.md" -only "${ONLY:-}" \
    -carry "$dir/counts" ${TRACE:+-trace} "$@"
  status=$?
  [ -n "${LOGS:-}" ] && cp "$dir"/broker-*.log "$LOGS"/
  for p in "${others[@]}"; do kill -9 "$p" 2>/dev/null; done
  wait 2>/dev/null
  others=()
  rm -rf "$dir"/kafka-* "$dir"/moldau-*
}

echo "Apache Kafka $kafka_version and $("$bin/moldau" version -o name)" >&2
case ${BROKERS:-} in
  1) compare 1 one true -more ;;
  3) compare 3 three false -more ;;
  *)
    compare 1 one true -more
    compare 3 three false
    ;;
esac
exit $status
