#!/usr/bin/env bash
# Installs the jars of Apache Kafka 4.4's command-line tools. The stamp says that the copy is whole.
set -euo pipefail
home=$COMPAT_CACHE/kafka-tools
command -v java >/dev/null && command -v mvn >/dev/null || { echo "java 17 and mvn are needed" >&2; exit 1; }
mkdir -p "$home"
cmp -s "$(dirname "$0")/pom.xml" "$home/stamp" && exit 0
cp "$(dirname "$0")/pom.xml" "$home/pom.xml"
mvn -q -B -f "$home/pom.xml" dependency:copy-dependencies -DoutputDirectory="$home/lib"
cp "$home/pom.xml" "$home/stamp"
