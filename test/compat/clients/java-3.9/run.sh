#!/usr/bin/env bash
exec ../../java/run.sh java-3.9 Library "$@"
