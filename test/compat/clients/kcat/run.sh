#!/usr/bin/env bash
exec "$COMPAT_CACHE/kcat/client" "$@"
