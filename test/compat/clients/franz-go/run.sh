#!/usr/bin/env bash
exec "$COMPAT_CACHE/franz-go/client" "$@"
