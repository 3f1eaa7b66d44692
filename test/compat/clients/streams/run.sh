#!/usr/bin/env bash
exec ../../java/run.sh streams Streams "$@"
