#!/bin/sh
# A fleet with keys of its own, on one machine: a NATS server, a gateway, and two boxes that a client reaches through it.
# On several machines, each of the four runs where it belongs, with its file of credentials. Needs nats-server on the PATH.
#   sh examples/fleet.sh FOLDER [NATS_PORT]
set -eu
folder=$1 port=${2:-4222} fleet=nats://127.0.0.1:${2:-4222}
mkdir -p "$folder" && cd "$folder"
started=
trap 'kill $started 2>/dev/null; wait' EXIT
trap 'exit 130' INT TERM

keys="--state-dir $folder/keys"
mcp-agent fleet init --out nats --listen "127.0.0.1:$port" $keys
mcp-agent fleet invite main --gateway --out main.creds $keys
for box in one two; do mcp-agent fleet invite $box --out $box.creds $keys; done

nats-server -c nats/nats-server.conf --log nats.log &
started=$!
for box in one two; do
  mkdir -p $box && echo "hello from $box" > $box/hello.txt
  # No port of its own: an outgoing connection is all a box needs.
  (cd $box && exec mcp-agent serve --quiet --no-listen --fleet "$fleet" --box $box --creds ../$box.creds --label "zone=$box" \
    --state-dir "$folder/$box-state" --tools-file "$folder/$box-tools.json" > ../$box.log 2>&1) &
  started="$started $!"
done
mcp-agent gateway --fleet "$fleet" --name main --creds main.creds --state-dir "$folder/main-state" \
  --tools-file "$folder/main-tools.json" --port 0
