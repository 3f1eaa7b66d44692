#!/usr/bin/env bash
# The same scripted requests to Apache Kafka and to Moldau, answers compared field by field. usage: test/differential.sh [DIRECTORY-OF-BINARIES]
#
# One broker of each on loopback, both new, with the same settings where both have them: one partition and one replica for a topic that is made without numbers, topics made
# when they are asked for, no delay before a group's first rebalance. test/differential does the rest; it fails on a difference that docs/kafka-differences.md does not have.
#
# Environment: ONLY=part of a script's name; TRACE=1 prints every answer; KAFKA_HEAP="-Xmx512m"; KAFKA_LIBS and BENCH_CACHE as in test/kafka-libs.sh; FIRST_PORT=the first of
# the ports that are used, 6 of them (otherwise free ones are looked for). Needs java 17 and, unless KAFKA_LIBS is set, mvn. Takes about two minutes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../bin}
# shellcheck source=test/brokers.sh
. "$here/brokers.sh"
# shellcheck source=test/kafka-libs.sh
. "$here/kafka-libs.sh"

port() {
  if [ -n "${FIRST_PORT:-}" ]; then echo $((FIRST_PORT + $1)); else free_port; fi
}
for i in 0 1 2 3 4 5; do
  at[i]=127.0.0.1:$(port "$i")
  taken="$taken ${at[i]#*:}"
done
kafka=${at[0]} moldau=${at[2]}

cat >"$dir/kafka.properties" <<PROPERTIES
process.roles=broker,controller
node.id=0
controller.quorum.voters=0@${at[1]}
listeners=PLAINTEXT://$kafka,CONTROLLER://${at[1]}
advertised.listeners=PLAINTEXT://$kafka
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
jvm=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$libs/*")
java -Xmx256m "${jvm[@]}" kafka.tools.StorageTool format -t bW9sZGF1LWJlbmNoLTAwMA -c "$dir/kafka.properties" >"$dir/broker-1.log" 2>&1 || fail "format of Kafka's directory"
# shellcheck disable=SC2086 # heap is several words
java ${KAFKA_HEAP:--Xmx512m} "${jvm[@]}" kafka.Kafka "$dir/kafka.properties" >"$dir/broker-1.log" 2>&1 &
others+=($!)
"$bin/moldau" server --id 0 --data "$dir/moldau" --kafka-addr "$moldau" --peer-addr "${at[3]}" --grpc-addr "${at[4]}" --http-addr "${at[5]}" \
  --topic-auto-create --topic-partitions 1 --topic-replication-factor 1 >"$dir/broker-0.log" 2>&1 &
others+=($!)

# answers ADDRESS waits until somebody listens there.
answers() {
  local deadline=$((SECONDS + 60))
  until (exec 3<>"/dev/tcp/${1/://}") 2>/dev/null; do
    [ $SECONDS -lt $deadline ] || fail "nobody listens on $1"
    sleep 0.1
  done
}
answers "$moldau"
answers "$kafka"
echo "Apache Kafka $kafka_version and $("$bin/moldau" version -o name)" >&2
"$bin/differential" -kafka "$kafka" -moldau "$moldau" -scripts "$here/differential/testdata" -list "$here/../docs/kafka-differences.md" -only "${ONLY:-}" ${TRACE:+-trace}
status=$?
[ -n "${LOGS:-}" ] && cp "$dir"/broker-*.log "$LOGS"/
exit $status
