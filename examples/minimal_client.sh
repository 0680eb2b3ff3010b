#!/bin/sh
# The same with curl and jq: sh examples/minimal_client.sh http://127.0.0.1:8765 "$(mcp-agent token show)"
set -eu
url=$1
token=$2

call() {
  curl -sS --fail-with-body "$url/tools/$1" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d "$2"
}

curl -sS "$url/openapi.json" -H "Authorization: Bearer $token" | jq -r '[.paths | keys[]][:3] | "tools: \(join(", ")) …"'

call shell_exec '{"command": "uname -s"}' | jq -r '"exit \(.exit_code) \(.stdout)"'

session=$(call shell_start_session '{"command": "echo one; sleep 0.2; echo two"}' | jq -r .session_id)
curl -sS -N -m 10 "$url/events?session_id=$session&since=0" -H "Authorization: Bearer $token" |
  sed -un -e 's/^data: //p' -e '/^data:.*shell_session_exit/q' | jq -r '"\(.type) \(.chunk // .exit_code)"'
