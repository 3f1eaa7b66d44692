#!/usr/bin/env bash
exec ../../java/install.sh mirrormaker2 Kit.java Child.java Mirror.java
