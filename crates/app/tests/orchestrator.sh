#!/bin/sh
# An agent for the example: alone it repairs its work only when its prompt has the facts of an earlier run.
if [ -n "$CALLSHEET_PHASE" ]; then exec "$(dirname "$0")/sdd.sh"; fi
mkdir -p src
case "$(cat)" in *"Retry/Continue Digest"*) echo fixed > src/fix.txt ;; *) echo broken > src/fix.txt ;; esac
echo done
