#!/usr/bin/env bash
# Installs the client, and the Node.js that it runs on, below $COMPAT_CACHE.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p "$COMPAT_CACHE/platformatic"
cp package.json "$COMPAT_CACHE/platformatic/"
cd "$COMPAT_CACHE/platformatic"
npm install --no-package-lock --no-audit --no-fund --loglevel=error
