#!/usr/bin/env bash
# Test suites of Kafka clients against brokers of this tree. usage: test/suites.sh SUITE [DIRECTORY-OF-BINARIES]
#
#   kgo         franz-go, three brokers                                  needs nothing but Go
#   kadm        franz-go's admin package; its tests talk to no broker
#   segmentio   segmentio/kafka-go, one broker with id 1                 localhost:9092 must be free: the suite has that address built in
#   sarama      its functional tests, five brokers behind toxiproxy      127.0.0.1:29091 to 29095 must be free, for the same reason
#   confluent   confluent-kafka-go, three brokers                        a C compiler
#   librdkafka  three brokers                                            a C compiler, npm, the -dev packages of its README; Java and Maven for Kafka's own tools
#   kafkajs     three brokers                                            git, npm; localhost:9092, 9095 and 9098 must be free; 17 minutes
#
# Sources come from the Go module proxy, librdkafka's from the npm package of confluent-kafka-javascript, kafkajs's from its repository, each in one pinned version. They
# are kept, with what was built, in SUITES_CACHE. Prints the counts of tests (Go: of top-level tests) and every test that failed, with its reason from
# test/suites-expected.txt. Exit 1: a test failed that is not listed there, or did not end.
# Environment: SUITES_CACHE; SUITES_LOG=file keeps the suite's whole output; KAFKA_LIBS=folder of Kafka's jars; KAFKAJS_SOURCE=folder with kafkajs's repository.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=${1:?usage: test/suites.sh kgo|kadm|segmentio|sarama|confluent|librdkafka|kafkajs [DIRECTORY-OF-BINARIES]}
bin=$(cd "${2:-$here/../bin}" && pwd) || exit 2
cache=${SUITES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/moldau-suites}
expected=$here/suites-expected.txt
# shellcheck source=test/brokers.sh
. "$here/brokers.sh"
trap 'exec 2>/dev/null; stop' EXIT # the shell says of each broker that it was killed
log=${SUITES_LOG:-$dir/suite.log}
kafka=() advertised=()

# --- brokers

healthy() { "$bin/moldau" cluster health --exit-when-healthy --timeout 60s >/dev/null || fail "the brokers did not become healthy"; }

# cluster COUNT [FLAG...] starts brokers 0 to COUNT-1. They listen on the Kafka addresses in kafka, or on free ones, and tell clients those in advertised, or the same.
cluster() {
  local count=$1 i p
  shift
  choose_ports "$count"
  for ((i = 0; i < count; i++)); do
    [ -n "${kafka[i]:-}" ] || { p=$(free_port) && taken="$taken $p" && kafka[i]=127.0.0.1:$p; }
    start_broker "$i" --log-level warn --kafka-addr "${kafka[i]}" --advertise-kafka "${advertised[i]:-${kafka[i]}}" "$@"
  done
  healthy
  servers=$(IFS=, && echo "${kafka[*]}")
}

# halt I stops broker I in an orderly way.
halt() {
  kill "${pids[$1]}"
  wait "${pids[$1]}" 2>/dev/null
  pids[$1]=""
}

# leave I takes a stopped broker out of the cluster, once the others know that it is gone.
leave() {
  local try
  for try in $(seq 1 50); do
    "$bin/moldau" cluster unregister "$1" >"$dir/unregister.log" 2>&1 && return
    sleep 0.2
  done
  cat "$dir/unregister.log" >&2
  fail "broker $1 could not be taken out after $try tries"
}

# --- sources

# module PATH@VERSION prints where in the cache a copy of the module's source is, and fetches it first if it is not there.
module() {
  local to=$cache/${1//\//_} from
  if [ ! -d "$to" ]; then
    from=$(cd "$dir" && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
    [ -n "$from" ] || fail "$1 could not be fetched"
    { mkdir -p "$cache" && cp -r "$from" "$to.new" && chmod -R u+w "$to.new" && mv "$to.new" "$to"; } || fail "$1 could not be copied to $to"
  fi
  echo "$to"
}

# run TIMEOUT COMMAND... runs a suite into the log. Its exit code says nothing that the log does not.
run() {
  echo "$suite: ${*:2}" >&2
  { timeout --signal QUIT --kill-after 10 "$@" >"$log" 2>&1; } 2>/dev/null
  return 0
}

# --- results

# go_results [PARENT] reads the output of go test -v and prints "passed|failed|skipped|unfinished NAME" for every top-level test; of PARENT, for its children instead.
go_results() {
  awk -v parent="${1:-}" '
    function wanted(name, parts, n) {
      n = split(name, parts, "/")
      return parent != "" && parts[1] == parent ? n == 2 : n == 1
    }
    /^=== RUN / && wanted($3) { if (!($3 in result)) { order[++count] = $3; result[$3] = "unfinished" } }
    match($0, /--- (PASS|FAIL|SKIP): [^ ]+/) {
      split(substr($0, RSTART, RLENGTH), word, " ")
      if (wanted(word[3])) result[word[3]] = word[2] == "PASS:" ? "passed" : word[2] == "FAIL:" ? "failed" : "skipped"
    }
    END { for (i = 1; i <= count; i++) print result[order[i]], order[i] }' "$log"
}

# librdkafka_results reads the table at the end of the output of test-runner.
librdkafka_results() {
  sed 's/\x1b\[[0-9;]*m//g' "$log" | awk -F '|' '/^\| [0-9][0-9][0-9][0-9]_/ { gsub(/ /, "", $2); gsub(/ /, "", $3); if (!seen[$2]++) print tolower($3), $2 }'
}

# kafkajs_results reads what jest has written. A test is named after its file, without the folders that all have in common, and its title, with _ for spaces.
kafkajs_results() {
  node -e '
    const { testResults } = JSON.parse(require("fs").readFileSync(process.argv[1]))
    for (const file of testResults)
      for (const test of file.assertionResults)
        console.log({ pending: "skipped" }[test.status] || test.status, file.name.replace(/^.*\/src\//, "").replace("__tests__/", "") + ":" + test.fullName.replace(/\s+/g, "_"))
  ' "$1"
}

# reason NAME prints why a test is expected to fail. The first line counts whose pattern, as the shell matches files, fits.
reason() {
  local of pattern why
  while read -r of pattern why; do
    # shellcheck disable=SC2053 # a pattern
    [[ $of == "$suite" && $1 == $pattern ]] && echo "$why" && return
  done <"$expected"
}

# report prints what standard input says. Its exit code is the script's.
report() {
  local result name why failures=0 what
  sort >"$dir/results"
  [ -s "$dir/results" ] || { tail -n 30 "$log" >&2; fail "$suite has no results"; }
  for what in passed failed skipped unfinished; do printf '%s %s  ' "$(grep -c "^$what " "$dir/results")" $what; done
  echo
  while read -r result name; do
    if [ "$result" = passed ]; then
      grep -qF "$suite $name " "$expected" && echo "  $name  passed, and $expected says that it does not"
      continue
    fi
    why=$(reason "$name")
    if [ -n "$why" ]; then
      echo "  $name  $result, as expected: $why"
    else
      echo "  $name  $result, NOT EXPECTED"
      failures=$((failures + 1))
    fi
  done < <(grep -v '^skipped ' "$dir/results")
  [ "$failures" = 0 ] || { echo "$failures not expected" >&2; exit 1; }
}

# --- suites

kgo() {
  local source
  source=$(module github.com/twmb/franz-go@v1.22.3)/pkg/kgo || exit 1
  cd "$source" && go test -c -o "$dir/kgo.test" . || fail "build of kgo's tests"
  cluster 3 --topic-auto-create
  KGO_SEEDS=$servers KGO_TEST_RF=3 KGO_TEST_RECORDS=${KGO_TEST_RECORDS:-100000} KGO_LOG_LEVEL=none run 20m "$dir/kgo.test" -test.v -test.timeout 15m -test.skip TestTxnEtl
  go_results | report
}

kadm() {
  local source
  source=$(module github.com/twmb/franz-go/pkg/kadm@v1.20.0) || exit 1
  cd "$source" && go test -c -o "$dir/kadm.test" . || fail "build of kadm's tests"
  run 5m "$dir/kadm.test" -test.v
  go_results | report
}

# segmentio wants one broker whose id is 1. Brokers that form a cluster have the ids from 0 on, so a cluster of two is reduced to its second.
segmentio() {
  local source
  source=$(module github.com/segmentio/kafka-go@v0.4.51) || exit 1
  cd "$source" && go mod tidy && go test -c -o "$dir/segmentio.test" . || fail "build of segmentio's tests"
  kafka=("" 127.0.0.1:9092)
  cluster 2
  halt 0
  halt 1
  "$bin/moldau" cluster recover --data "$dir/data-1" --advertise-peer "${peer[1]}" --execute >/dev/null || fail "broker 1 could not be made the only voter"
  seeds=${peer[1]}
  export MOLDAU_SERVER=${grpc[1]}
  start_broker 1 --log-level warn --bootstrap-expect 1 --kafka-addr 127.0.0.1:9092 --advertise-kafka localhost:9092 --topic-auto-create --topic-partitions 1 --topic-replication-factor 1
  leave 0
  healthy
  # What Kafka has unless told otherwise: the suite wants a session timeout of 3 s to be refused.
  "$bin/moldau" config set cluster group.min.session.timeout.ms=6000 >/dev/null || fail "config set"
  KAFKA_VERSION=3.7.0 KAFKA_SKIP_NETTEST=1 run 15m "$dir/segmentio.test" -test.v -test.timeout 14m -test.skip 'TestReaderConsumerGroup$'
  go_results | report
}

# sarama wants five brokers with the ids 1 to 5, each behind toxiproxy, and stops and starts them with docker compose.
sarama() {
  local source i api
  source=$(module github.com/IBM/sarama@v1.61.1) || exit 1
  cd "$source" && go test -c -tags functional -o "$dir/sarama.test" . || fail "build of sarama's tests"
  GOBIN=$dir go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0 || fail "build of toxiproxy"
  cluster_by_script 6
  script_stop 0
  leave 0
  healthy
  "$bin/moldau" config set cluster group.initial.rebalance.delay.ms=0 >/dev/null || fail "config set"
  api=$(free_port)
  "$dir/server" -host 127.0.0.1 -port "$api" >"$dir/toxiproxy.log" 2>&1 &
  others+=($!)
  for i in 1 2 3 4 5; do
    curl -sf --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null "http://127.0.0.1:$api/proxies" -d "{\"name\":\"kafka$i\",\"listen\":\"127.0.0.1:2909$i\",\"upstream\":\"${kafka[i]}\"}" || fail "toxiproxy"
  done
  PATH=$dir/shim:$PATH TOXIPROXY_ADDR=http://127.0.0.1:$api KAFKA_VERSION=4.1.0 run 15m "$dir/sarama.test" -test.v -test.timeout 14m -test.run TestFunc -test.skip 'Txn|Transactions'
  go_results | report
}

# cluster_by_script COUNT is cluster for brokers that the suite itself stops and starts: with dir/shim/docker, which takes docker's words.
cluster_by_script() {
  local i p
  choose_ports "$1"
  mkdir -p "$dir/shim"
  for ((i = 0; i < $1; i++)); do
    p=$(free_port) && taken="$taken $p" && kafka[i]=127.0.0.1:$p
    printf '#!/bin/sh\n"%s" server --id %s --rack %s --data "%s" --seeds %s --bootstrap-expect %s --grpc-addr %s --peer-addr %s --http-addr %s --kafka-addr %s --advertise-kafka 127.0.0.1:2909%s --topic-replication-factor 2 --log-level warn >>"%s" 2>&1 </dev/null &\necho $! >"%s"\n' \
      "$bin/moldau" "$i" "$i" "$dir/data-$i" "$seeds" "$1" "${grpc[i]}" "${peer[i]}" "${http[i]}" "${kafka[i]}" "$i" "$dir/broker-$i.log" "$dir/pid-$i" >"$dir/start-$i"
  done
  cat >"$dir/shim/docker" <<SHIM
#!/bin/sh
# docker compose stop|start kafka-N, and docker compose logs --since TIME kafka-N
for last; do :; done
n=\${last#kafka-}
case \$2 in
  stop) pid=\$(cat "$dir/pid-\$n") && kill "\$pid" && while kill -0 "\$pid" 2>/dev/null; do sleep 0.1; done ;;
  start) sh "$dir/start-\$n" && "$bin/moldau" cluster health --exit-when-healthy --timeout 30s >/dev/null ;;
  logs) cat "$dir/broker-\$n.log" ;;
  *) exit 1 ;;
esac
SHIM
  chmod +x "$dir/shim/docker"
  # These brokers are not the shell's children: what is still running in the end is ended by its pid file.
  trap 'exec 2>/dev/null; for p in "$dir"/pid-*; do kill -9 "$(cat "$p")"; done; stop' EXIT
  for ((i = 0; i < $1; i++)); do sh "$dir/start-$i"; done
  healthy
}

script_stop() { "$dir/shim/docker" compose stop "kafka-$1" || fail "broker $1 did not stop"; }

confluent() {
  local source
  source=$(module github.com/confluentinc/confluent-kafka-go/v2@v2.11.1)/kafka || exit 1
  cd "$source" || exit 1
  [ -x "$cache/confluent.test" ] || CGO_ENABLED=1 go test -c -o "$cache/confluent.test" . || fail "build of confluent-kafka-go's tests"
  cluster 3 --topic-auto-create
  printf '{"Brokers": "%s", "TopicName": "suite", "GroupID": "suite", "PerfMsgCount": 5000, "PerfMsgSize": 100, "Config": ["api.version.request=true"]}\n' "$servers" >testconf.json
  run 15m "$cache/confluent.test" -test.v -test.timeout 14m
  go_results TestIntegration | report
}

librdkafka() {
  local source=$cache/librdkafka-2.15.1
  if [ ! -x "$source/tests/test-runner" ]; then
    mkdir -p "$cache" && cd "$dir" || exit 1
    npm pack --silent @confluentinc/kafka-javascript@1.10.1 >/dev/null && tar xzf confluentinc-kafka-javascript-1.10.1.tgz package/deps/librdkafka || fail "npm could not fetch librdkafka"
    rm -rf "$source" && mv package/deps/librdkafka "$source" && cd "$source" || exit 1
    { ./configure && make libs && make -C tests test-runner; } >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "build of librdkafka"; }
  fi
  # shellcheck source=test/kafka-libs.sh
  . "$here/kafka-libs.sh"
  kafka_tools "$dir/kafka/bin"
  cluster 3 --topic-auto-create
  cd "$source/tests" || exit 1
  printf 'metadata.broker.list=%s\ntest.topic.random=true\n' "$servers" >"$dir/test.conf"
  RDKAFKA_TEST_CONF=$dir/test.conf LD_LIBRARY_PATH=../src:../src-cpp TEST_KAFKA_VERSION=4.0.0 KAFKA_PATH=$dir/kafka BROKERS=$servers run 15m ./test-runner -Q -E -p4 -L
  librdkafka_results | report
}

# kafka_tools FOLDER makes those of Kafka's shell scripts that librdkafka's tests call.
kafka_tools() {
  local name class
  mkdir -p "$1"
  for name in topics:TopicCommand configs:ConfigCommand acls:AclCommand; do
    class=org.apache.kafka.tools.${name#*:} name=${name%%:*}
    printf '#!/bin/sh\nexec java -Xmx128m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "%s/*" %s "$@"\n' "$libs" "$class" >"$1/kafka-$name.sh"
    chmod +x "$1/kafka-$name.sh"
  done
}

kafkajs() {
  local source=${KAFKAJS_SOURCE:-$cache/kafkajs-2.2.4}
  [ -d "$source" ] || git clone -q --depth 1 --branch v2.2.4 https://github.com/tulios/kafkajs "$source" || fail "git could not fetch kafkajs"
  cd "$source" || exit 1
  [ -d node_modules ] || npm install --silent --ignore-scripts --legacy-peer-deps >&2 || fail "npm could not fetch what kafkajs's tests need"
  kafka=(127.0.0.1:9092 127.0.0.1:9095 127.0.0.1:9098)
  advertised=(localhost:9092 localhost:9095 localhost:9098)
  cluster 3 --topic-auto-create --topic-partitions 2 --topic-replication-factor 2
  "$bin/moldau" config set cluster group.initial.rebalance.delay.ms=0 >/dev/null || fail "config set"
  KAFKA_VERSION=2.4 NODE_ENV=test run 30m npx jest --forceExit --maxWorkers=1 --json --outputFile="$dir/kafkajs.json" --testPathPattern "${KAFKAJS_TESTS:-src/(admin|consumer|producer|broker|cluster)/}"
  kafkajs_results "$dir/kafkajs.json" | report
}

case $suite in
  kgo | kadm | segmentio | sarama | confluent | librdkafka | kafkajs) "$suite"; exit ;;
  *) echo "no suite is named $suite" >&2; exit 2 ;;
esac
