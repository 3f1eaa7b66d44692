#!/usr/bin/env bash
exec "$COMPAT_CACHE/kafka-python/bin/python" -B "$(dirname "$0")/client.py" "$@"
