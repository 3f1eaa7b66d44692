#!/usr/bin/env bash
exec "$COMPAT_CACHE/sarama/client" "$@"
