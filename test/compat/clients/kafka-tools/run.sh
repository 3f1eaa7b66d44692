#!/usr/bin/env bash
# Apache Kafka's command-line tools: one capability per tool. Every one checks what the tool printed.
set -euo pipefail
home=$COMPAT_CACHE/kafka-tools
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
topic=${PREFIX:-}tools-${1:-}
group=$topic-group
boot=(--bootstrap-server "${BROKERS:-}")
t=org.apache.kafka.tools

# tool CLASS ARG... runs a tool within 60 s; what it printed is kept in $out/text and printed.
tool() {
  timeout 60 java -Xmx256m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$home/lib/*" "$@" >"$out/text" 2>"$out/err" || {
    cat "$out/text" "$out/err" >&2
    echo "$1 failed: $(cat "$out/err" "$out/text" | grep -m1 . || true)" >&2
    exit 1
  }
  cat "$out/text"
}

# want REGEX... fails unless every one matches a line of the last tool's output.
want() {
  local re
  for re in "$@"; do
    grep -Eq -- "$re" "$out/text" || { cat "$out/text" "$out/err" >&2; echo "no line matches: $re" >&2; exit 1; }
  done
}

create() { tool $t.TopicCommand "${boot[@]}" --create --topic "$topic" --partitions "$1" --replication-factor 3 >/dev/null; }
# fill N writes the records key-I:value-I, and takes their order from one partition.
fill() {
  seq "$1" | sed 's/.*/key-&:value-&/' >"$out/in"
  tool $t.ConsoleProducer "${boot[@]}" --topic "$topic" --reader-property parse.key=true --reader-property key.separator=: <"$out/in"
}
drain() {
  tool $t.consumer.ConsoleConsumer "${boot[@]}" --topic "$topic" --from-beginning --max-messages "$1" --timeout-ms 20000 --group "$group" \
    --formatter-property print.key=true --formatter-property key.separator=: >/dev/null
}
same() { diff "$out/in" "$out/text" >&2 || { echo "the records that came back are not those that were written" >&2; exit 1; }; }

topics() {
  create 3
  tool $t.TopicCommand "${boot[@]}" --list && want "^$topic\$"
  tool $t.TopicCommand "${boot[@]}" --describe --topic "$topic" && want 'PartitionCount: 3' 'ReplicationFactor: 3' 'Partition: 2.*Leader: [012]'
  tool $t.TopicCommand "${boot[@]}" --alter --topic "$topic" --partitions 5
  tool $t.TopicCommand "${boot[@]}" --describe --topic "$topic" && want 'PartitionCount: 5' 'Partition: 4'
  tool $t.TopicCommand "${boot[@]}" --delete --topic "$topic"
}
configs() {
  create 1
  tool $t.ConfigCommand "${boot[@]}" --alter --entity-type topics --entity-name "$topic" --add-config retention.ms=123456
  tool $t.ConfigCommand "${boot[@]}" --describe --entity-type topics --entity-name "$topic" && want 'retention.ms=123456'
  tool $t.ConfigCommand "${boot[@]}" --alter --entity-type topics --entity-name "$topic" --delete-config retention.ms
  tool $t.ConfigCommand "${boot[@]}" --describe --entity-type topics --entity-name "$topic"
  if grep -q 'retention.ms=123456' "$out/text"; then echo "the deleted config is still there" >&2; exit 1; fi
}
consumer-groups() {
  create 1 && fill 20 && drain 20
  tool $t.consumer.group.ConsumerGroupCommand "${boot[@]}" --list && want "^$group\$"
  tool $t.consumer.group.ConsumerGroupCommand "${boot[@]}" --describe --group "$group" && want "$topic +0 +20 +20 +0"
  tool $t.consumer.group.ConsumerGroupCommand "${boot[@]}" --reset-offsets --group "$group" --topic "$topic" --to-offset 5 --execute && want "$topic +0 +5"
  tool $t.consumer.group.ConsumerGroupCommand "${boot[@]}" --describe --group "$group" && want "$topic +0 +5 +20 +15"
}
console-producer() { create 1 && fill 50 && tool $t.GetOffsetShell "${boot[@]}" --topic "$topic" && want "^$topic:0:50\$" && drain 50 && same; }
console-consumer() { create 1 && fill 30 && drain 30 && same; }
producer-perf() {
  create 3
  tool $t.ProducerPerformance --topic "$topic" --num-records 5000 --record-size 100 --throughput -1 --producer-props "bootstrap.servers=$BROKERS" acks=all
  want '^5000 records sent'
  tool $t.GetOffsetShell "${boot[@]}" --topic "$topic"
  [ "$(awk -F: '{n += $3} END {print n}' "$out/text")" = 5000 ] || { echo "the log does not have 5000 records" >&2; exit 1; }
}
consumer-perf() {
  create 3
  tool $t.ProducerPerformance --topic "$topic" --num-records 5000 --record-size 100 --throughput -1 --producer-props "bootstrap.servers=$BROKERS"
  tool $t.ConsumerPerformance "${boot[@]}" --topic "$topic" --num-records 5000 --timeout 20000 && want ', 5000, '
}
verifiable-producer() { create 1 && tool $t.VerifiableProducer "${boot[@]}" --topic "$topic" --max-messages 500 --acks -1 && want '"sent":500.*"acked":500|"acked":500.*"sent":500'; }
verifiable-consumer() {
  create 1 && fill 100
  tool $t.VerifiableConsumer "${boot[@]}" --topic "$topic" --group-id "$group" --max-messages 100 --reset-policy earliest
  want '"name":"partitions_assigned"' '"name":"offsets_committed".*"offset":100' '"name":"shutdown_complete"'
}
get-offsets() {
  create 1 && fill 12
  tool $t.GetOffsetShell "${boot[@]}" --topic "$topic" --time earliest && want "^$topic:0:0\$"
  tool $t.GetOffsetShell "${boot[@]}" --topic "$topic" --time latest && want "^$topic:0:12\$"
}
delete-records() {
  create 1 && fill 12
  echo '{"version":1,"partitions":[{"topic":"'"$topic"'","partition":0,"offset":7}]}' >"$out/json"
  tool $t.DeleteRecordsCommand "${boot[@]}" --offset-json-file "$out/json" && want 'low_watermark: 7'
  tool $t.GetOffsetShell "${boot[@]}" --topic "$topic" --time earliest && want "^$topic:0:7\$"
}
log-dirs() { create 1 && fill 5 && tool $t.LogDirsCommand "${boot[@]}" --describe --topic-list "$topic" && want "\"partition\":\"$topic-0\",\"size\":[1-9]"; }
leader-election() { create 1 && tool $t.LeaderElectionCommand "${boot[@]}" --election-type preferred --topic "$topic" --partition 0 && want "lready|Valid replica already elected|[Ss]uccess"; }
reassign-partitions() {
  create 1 && fill 5
  echo '{"version":1,"partitions":[{"topic":"'"$topic"'","partition":0,"replicas":[2,1]}]}' >"$out/json"
  tool $t.reassign.ReassignPartitionsCommand "${boot[@]}" --reassignment-json-file "$out/json" --execute && want 'Successfully started'
  for _ in $(seq 8); do
    tool $t.reassign.ReassignPartitionsCommand "${boot[@]}" --reassignment-json-file "$out/json" --verify --preserve-throttles
    grep -q 'is completed' "$out/text" && break
  done
  want 'is completed'
  tool $t.TopicCommand "${boot[@]}" --describe --topic "$topic" && want 'Replicas: 2,1'
}
# dump-log reads the segment of every replica, record by record. It needs the data folders, colon separated, in $DATA_DIRS.
dump-log() {
  create 1 && fill 200
  [ -n "${DATA_DIRS:-}" ] || { echo "DATA_DIRS is not set" >&2; exit 1; }
  local log id seen=0
  tool $t.TopicCommand "${boot[@]}" --describe --topic "$topic"
  id=$(grep -oE 'TopicId: [^[:space:]]+' "$out/text" | cut -d' ' -f2)
  while read -r log; do
    tool $t.DumpLogSegments --deep-iteration --print-data-log --files "$log" >"$out/dump"
    [ "$(grep -c 'payload: value-' "$out/dump")" = 200 ] || { tail -n 5 "$out/dump" >&2; echo "$log: not 200 records" >&2; exit 1; }
    want 'offset: 199 .*key: key-200 payload: value-200' 'isvalid: true'
    if grep -q 'isvalid: false' "$out/dump"; then echo "$log: an invalid batch" >&2; exit 1; fi
    seen=$((seen + 1))
  done < <(IFS=:; find $DATA_DIRS -name '*.log' -path "*/$id-0/*" -size +0)
  [ "$seen" = 3 ] || { echo "$seen of 3 replicas have a segment of $topic" >&2; exit 1; }
}
# dump-index reads both indexes of the first, rolled segment of every replica: by themselves, and each entry against the segment.
dump-index() {
  local id index seen=0
  tool $t.TopicCommand "${boot[@]}" --create --topic "$topic" --partitions 1 --replication-factor 3 --config segment.bytes=1048576
  tool $t.ProducerPerformance --topic "$topic" --num-records 2500 --record-size 1000 --throughput -1 --producer-props "bootstrap.servers=$BROKERS" acks=all
  tool $t.TopicCommand "${boot[@]}" --describe --topic "$topic"
  id=$(grep -oE 'TopicId: [^[:space:]]+' "$out/text" | cut -d' ' -f2)
  [ -n "${DATA_DIRS:-}" ] || { echo "DATA_DIRS is not set" >&2; exit 1; }
  while read -r index; do
    tool $t.DumpLogSegments --index-sanity-check --files "$index,${index%.index}.timeindex"
    [ "$(grep -c 'passed sanity check' "$out/text")" = 2 ] || { echo "$index: the sanity check did not pass" >&2; exit 1; }
    tool $t.DumpLogSegments --verify-index-only --files "$index,${index%.index}.timeindex"
    if grep -Eiq 'mismatch|not found|out of order' "$out/text"; then echo "$index: does not fit its segment" >&2; exit 1; fi
    seen=$((seen + 1))
  done < <(IFS=:; find $DATA_DIRS -name '00000000000000000000.index' -path "*/$id-0/*" -size +0)
  [ "$seen" = 3 ] || { echo "$seen of 3 replicas have an index of $topic" >&2; exit 1; }
}
broker-api-versions() { tool $t.BrokerApiVersionsCommand "${boot[@]}" && want 'Produce\(0\): 0 to 1[0-9]' 'Fetch\(1\)' && [ "$(grep -c 'id: ' "$out/text")" = 3 ]; }
metadata-quorum() { tool $t.MetadataQuorumCommand "${boot[@]}" describe --status && want 'LeaderId: +[012]'; }
features() { tool $t.FeatureCommand "${boot[@]}" describe && want 'Feature: moldau.metadata.version'; }

all="topics configs consumer-groups console-producer console-consumer producer-perf consumer-perf verifiable-producer verifiable-consumer get-offsets
delete-records log-dirs leader-election reassign-partitions dump-log dump-index broker-api-versions metadata-quorum features"
case " $(echo $all) " in
*" ${1:-} "*) "$1" ;;
*) [ "${1:-}" = list ] && printf '%s\n' $all ;;
esac
