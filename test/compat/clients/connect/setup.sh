#!/usr/bin/env bash
exec ../../java/install.sh connect Kit.java Child.java Connect.java
