#!/usr/bin/env bash
exec ../../java/run.sh java-4.4 Library "$@"
