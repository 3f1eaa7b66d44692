#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v kcat >/dev/null || apt-get install -y -q kcat || { apt-get update -q && apt-get install -y -q kcat; }
mkdir -p "$COMPAT_CACHE/kcat"
CGO_ENABLED=0 go build -o "$COMPAT_CACHE/kcat/client" .
