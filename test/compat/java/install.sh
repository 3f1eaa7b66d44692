#!/usr/bin/env bash
# install.sh ROW SOURCE...: copies the jars that clients/ROW/pom.xml names to $COMPAT_CACHE/ROW/lib and compiles the sources of this folder to
# $COMPAT_CACHE/ROW/classes. A second call does nothing when neither has changed.
set -euo pipefail
cd "$(dirname "$0")"
row=$1
shift
home=$COMPAT_CACHE/$row pom=../clients/$row/pom.xml
for tool in java javac mvn; do
  command -v $tool >/dev/null || { echo "$tool is needed: a JDK of 17 or later, and Maven" >&2; exit 1; }
done
mkdir -p "$home"
if ! cmp -s "$pom" "$home/jars"; then
  rm -rf "$home/lib" "$home/jars"
  cp "$pom" "$home/pom.xml"
  mvn -q -B -f "$home/pom.xml" dependency:copy-dependencies -DoutputDirectory="$home/lib" >&2
  cp "$pom" "$home/jars"
fi
sources=("${@/#/compat/}")
stamp=$(cat "$pom" "${sources[@]}" | cksum)
[ "$(cat "$home/compiled" 2>/dev/null)" = "$stamp" ] && exit 0
rm -rf "$home/classes"
javac -J-Xmx256m --release 17 -Xlint:all,-processing,-classfile,-try,-removal -cp "$home/lib/*" -d "$home/classes" "${sources[@]}"
echo "$stamp" >"$home/compiled"
