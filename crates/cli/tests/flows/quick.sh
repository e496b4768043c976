#!/bin/sh
# An agent for the flow `sdd` that agrees with everything. Until $MEET_AT/go is there it fails in the phase $FAILS.
prompt=$(cat)
if [ "$CALLSHEET_PHASE" = "$FAILS" ] && [ ! -e "$MEET_AT/go" ]; then exit 3; fi
case "$CALLSHEET_PHASE" in
plan)
    mkdir -p "$CALLSHEET_SESSION/specs"
    echo '# Proposal' > "$CALLSHEET_SESSION/proposal.md"
    echo '# Spec' > "$CALLSHEET_SESSION/specs/login.md"
    printf -- '- [ ] 1.1 The form\n- [ ] 1.2 The session\n' > "$CALLSHEET_SESSION/tasks.md"
    ;;
implement)
    if [ -e "$MEET_AT/wait" ]; then
        touch "$MEET_AT/here"
        while [ -e "$MEET_AT/wait" ]; do sleep 0.02; done
    fi
    for task in 1.1 1.2; do
        case "$prompt" in *"- [ ] $task"*) printf '<task_status id="%s">COMPLETED</task_status>\n\n' "$task" ;; esac
    done
    exit 0
    ;;
archive)
    printf 'Archived.\n\n<task_status id="archive">%s</task_status>\n' "${ARCHIVES:-COMPLETED}"
    exit 0
    ;;
esac
if [ "$CALLSHEET_PHASE" = "$STRAYS" ] && mkdir "$MEET_AT/strayed"; then (cd "$CALLSHEET_SESSION" && eval "$STRAY"); fi
printf '\n<review>PASS</review>\n'
