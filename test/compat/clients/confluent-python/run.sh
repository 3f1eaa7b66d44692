#!/usr/bin/env bash
exec "$COMPAT_CACHE/confluent-python/bin/python" -B "$(dirname "$0")/client.py" "$@"
