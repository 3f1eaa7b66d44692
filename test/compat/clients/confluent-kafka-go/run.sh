#!/usr/bin/env bash
exec "$COMPAT_CACHE/confluent-kafka-go/client" "$@"
