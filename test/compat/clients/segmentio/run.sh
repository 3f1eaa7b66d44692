#!/usr/bin/env bash
exec "$COMPAT_CACHE/segmentio/client" "$@"
