#!/usr/bin/env bash
# Modules are found next to the program, so it runs from where they are installed.
home=$COMPAT_CACHE/platformatic
cp "$(dirname "$0")/client.js" "$home/" && exec "$home/node_modules/.bin/node" "$home/client.js" "$@"
