#!/usr/bin/env bash
exec ../../java/install.sh java-4.4 Kit.java Library.java Groups.java Members.java
