#!/bin/sh
# An agent for the flow `sdd`. What it does depends on its prompt alone, so that it does the same however often it is asked.
prompt=$(cat)
has() { case "$prompt" in *"$1"*) return 0 ;; *) return 1 ;; esac; }
case "$CALLSHEET_PHASE" in
plan)
    mkdir -p "$CALLSHEET_SESSION/specs"
    echo '# Proposal' > "$CALLSHEET_SESSION/proposal.md"
    echo '# Spec' > "$CALLSHEET_SESSION/specs/login.md"
    printf -- '- [ ] 1.1 The form\n- [ ] 1.2 The session\n' > "$CALLSHEET_SESSION/tasks.md"
    if has 'name="PLAN.md"'; then echo 'Now it is whole.'; verdict=PASS; else echo 'Something is missing.'; verdict=NEEDS_REVISION; fi
    ;;
challenge)
    if has 'name="CHALLENGE.md"'; then echo 'It holds.'; verdict=PASS; else echo 'The logout is missing.'; verdict=NEEDS_REVISION; fi
    ;;
implement)
    echo 'progress' > "$CALLSHEET_SESSION/IMPLEMENTATION.md"
    for task in 1.1 1.2 R1.1; do
        if has "- [ ] $task"; then
            echo "$task" > "done-$task.txt"
            echo "<task_status id=\"$task\">COMPLETED</task_status>"
        fi
    done
    if has 'name="REVIEW.md"'; then echo fixed > fixed.txt; fi
    exit 0
    ;;
review)
    if has 'name="REVIEW.md"'; then echo 'Fixed.'; verdict=PASS; else echo 'Finding: the form has no label.'; verdict=NEEDS_CHANGES; fi
    ;;
archive)
    echo 'All is in the changelog.'
    printf '\n<task_status id="archive">COMPLETED</task_status>\n'
    exit 0
    ;;
esac
printf '\n<review>%s</review>\n' "$verdict"
