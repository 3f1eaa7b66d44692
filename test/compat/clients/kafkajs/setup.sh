#!/usr/bin/env bash
# Installs the client, and the Node.js that it runs on, below $COMPAT_CACHE.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p "$COMPAT_CACHE/kafkajs"
cp package.json "$COMPAT_CACHE/kafkajs/"
cd "$COMPAT_CACHE/kafkajs"
npm install --no-package-lock --no-audit --no-fund --loglevel=error
