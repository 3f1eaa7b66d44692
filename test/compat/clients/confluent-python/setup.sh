#!/usr/bin/env bash
# Installs the client into a virtual environment below $COMPAT_CACHE.
set -euo pipefail
cd "$(dirname "$0")"
venv=$COMPAT_CACHE/confluent-python
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
