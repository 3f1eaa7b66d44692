# Sets libs to a folder with the jars of Apache Kafka and of its command-line tools, and kafka_version to their version. Source it with here set to the directory of this file, and fail defined.
# KAFKA_LIBS names a folder that is there already; otherwise test/bench-kafka.pom.xml is fetched with mvn, once, into BENCH_CACHE.
# shellcheck shell=bash
cache=${BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/moldau-bench}
libs=${KAFKA_LIBS:-$cache/kafka-libs}
command -v java >/dev/null || fail "Apache Kafka needs a Java runtime, 17 or later, on the PATH (Debian: apt-get install openjdk-17-jre-headless)"
if ! ls "$libs"/kafka_2.13-*.jar "$libs"/kafka-tools-[0-9]*.jar >/dev/null 2>&1; then
  command -v mvn >/dev/null || fail "no jars of Apache Kafka in $libs, and no mvn to fetch them (Debian: apt-get install maven); or name a folder with KAFKA_LIBS"
  echo "fetching Apache Kafka into $libs" >&2
  mkdir -p "$cache" && cp "$here/bench-kafka.pom.xml" "$cache/pom.xml" || fail "no cache at $cache"
  mvn -q -B -f "$cache/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$libs" >&2 || fail "mvn could not fetch Apache Kafka"
fi
kafka_version=$(basename "$libs"/kafka_2.13-*.jar .jar)
kafka_version=${kafka_version#kafka_2.13-}
