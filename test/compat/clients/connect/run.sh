#!/usr/bin/env bash
exec ../../java/run.sh connect Connect "$@"
