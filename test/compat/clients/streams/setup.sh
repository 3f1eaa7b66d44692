#!/usr/bin/env bash
exec ../../java/install.sh streams Kit.java Streams.java
