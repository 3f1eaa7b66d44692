#!/usr/bin/env bash
# The module carries a static librdkafka, so a C compiler is all that it needs.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p "$COMPAT_CACHE/confluent-kafka-go"
CGO_ENABLED=1 go build -o "$COMPAT_CACHE/confluent-kafka-go/client" .
