#!/usr/bin/env bash
exec ../../java/install.sh java-3.9 Kit.java Library.java Groups.java Members.java
