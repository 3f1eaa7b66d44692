#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p "$COMPAT_CACHE/franz-go"
CGO_ENABLED=0 go build -o "$COMPAT_CACHE/franz-go/client" .
