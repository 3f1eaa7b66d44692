# Functions for scripts that run brokers on loopback, three unless they say otherwise. Source it with bin set to the directory of the built binaries.
# shellcheck shell=bash

dir=$(mktemp -d "${TMPDIR:-/tmp}/moldau-XXXXXX")
pids=() grpc=() peer=() http=()
others=() # further processes that must not outlive the script

# stop ends what this script has started, by process id, and removes what it has written.
stop() {
  local p
  for p in "${others[@]}" "${pids[@]}"; do
    [ -n "$p" ] && kill -9 "$p" 2>/dev/null
  done
  wait 2>/dev/null
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

# free_port prints a port of loopback where nobody listens, outside the range that the kernel gives to clients.
free_port() {
  local port
  while :; do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
    case " $taken " in *" $port "*) continue ;; esac
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
    echo "$port"
    return
  done
}

# choose_ports [COUNT] picks three ports for each broker, all different.
taken=""
choose_ports() {
  local i p
  grpc=() peer=() http=()
  for ((i = 0; i < ${1:-3}; i++)); do
    p=$(free_port) && taken="$taken $p" && grpc[i]=127.0.0.1:$p
    p=$(free_port) && taken="$taken $p" && peer[i]=127.0.0.1:$p
    p=$(free_port) && taken="$taken $p" && http[i]=127.0.0.1:$p
  done
  seeds=$(IFS=, && echo "${peer[*]}")
  MOLDAU_SERVER=$(IFS=, && echo "${grpc[*]}")
  export MOLDAU_SERVER
}

# start_broker I [FLAG...] runs broker I in the background.
start_broker() {
  local i=$1
  shift
  "$bin/moldau" server --id "$i" --data "$dir/data-$i" --seeds "$seeds" --bootstrap-expect "${#peer[@]}" --grpc-addr "${grpc[i]}" --peer-addr "${peer[i]}" \
    --http-addr "${http[i]}" --kafka-addr 127.0.0.1:0 "$@" >>"$dir/broker-$i.log" 2>&1 &
  pids[i]=$!
}

# fail prints why, and the last lines of every broker, and ends the script.
fail() {
  echo "FAILED: $*" >&2
  local i
  for i in "${!grpc[@]}"; do
    [ -f "$dir/broker-$i.log" ] && echo "--- broker $i" >&2 && tail -n 15 "$dir/broker-$i.log" >&2
  done
  exit 1
}
