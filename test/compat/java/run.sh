#!/usr/bin/env bash
# run.sh ROW CLASS ARG...: runs a class that install.sh has compiled. JVM_LOG=info shows what the client logs.
set -euo pipefail
home=$COMPAT_CACHE/$1 class=$2
shift 2
exec java -Xmx256m -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir=${TMPDIR:-/tmp}" -Dorg.slf4j.simpleLogger.defaultLogLevel="${JVM_LOG:-warn}" \
  -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS -cp "$home/classes:$home/lib/*" "compat.$class" "$@"
