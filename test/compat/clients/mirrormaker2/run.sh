#!/usr/bin/env bash
exec ../../java/run.sh mirrormaker2 Mirror "$@"
