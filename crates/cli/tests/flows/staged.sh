#!/bin/sh
# An agent for the flow `staged`. What it does depends on its prompt and on what is there, so that it does the same however
# often it is asked. Three coders wait for each other at $MEET, if that is set.
prompt=$(cat)
has() { case "$prompt" in *"$1"*) return 0 ;; *) return 1 ;; esac; }
cd_session() { mkdir -p "$CALLSHEET_SESSION/$1"; }
subplan() {
    printf '  - index: %s\n    title: Part %s\n    scope: Part %s.\n    owned_files: [src/p%s/**]\n    dependencies: None.\n' "$1" "$1" "$1" "$1"
    printf '    implementation_approach: Tests first.\n    acceptance_criteria: It works.\n'
    printf '    isolation_rationale: It owns its folder alone.\n    tasks: [Write part %s]\n' "$1"
}
plan() {
    cd_session 04_planning
    {
        printf 'version: 2\nplan_overview: In parts.\nphase_1: Interfaces.\nphase_2: %s parts.\nphase_3: Integration.\nconflict_map: []\ngroups:\n' "$#"
        printf '  - group_id: g1\n    mode: parallel\n    plans:\n'
        for number in "$@"; do printf '      - {index: %s, name: Part %s}\n' "$number" "$number"; done
        printf 'needs_design: false\nneeds_docs: false\ndoc_files: []\nreview_strategy: {severity: low, focus: []}\nsubplans:\n'
        for number in "$@"; do subplan "$number"; done
    } > "$CALLSHEET_SESSION/04_planning/plan.yaml"
}
case "$CALLSHEET_PHASE" in
architecting)
    cd_session 02_architecting
    {
        printf "components:\n- {name: Exporter, responsibility: Writes., interfaces: ['export()']}\n"
        for part in solution_overview interfaces_and_contracts data_models cross_cutting_concerns technology_choices risks_and_mitigations; do
            echo "$part: About it."
        done
    } > "$CALLSHEET_SESSION/02_architecting/architecture.yaml"
    ;;
planning) case "$prompt" in '# Change'*) plan 1 2 3 4 ;; *) plan 1 2 3 ;; esac ;;
implementing)
    for number in 1 2 3 4; do
        if has "tasks_$number.md"; then
            if [ -n "$MEET" ]; then
                touch "$MEET/$number"
                tries=0
                while [ "$(ls "$MEET" | wc -l)" -lt 3 ] && [ "$tries" -lt 600 ]; do sleep 0.05; tries=$((tries + 1)); done
            fi
            mkdir -p "src/p$number"
            echo "part $number" > "src/p$number/part.txt"
            if [ "$number" = "$STRAYS" ]; then echo stray > stray.txt; fi
            cd_session 06_implementation
            echo > "$CALLSHEET_SESSION/06_implementation/done_$number"
        fi
    done
    ;;
completing) cd_session 08_completion; echo '# What was done' > "$CALLSHEET_SESSION/08_completion/summary.md" ;;
fixing)
    mkdir -p src
    echo fixed > src/fixed.txt
    printf 'Fixed.\n\n<task_status id="R1.1">COMPLETED</task_status>\n'
    ;;
reviewing)
    cd_session 07_review
    if [ -e src/fixed.txt ]; then
        printf 'verdict: pass\nsummary: Good.\nfindings: []\n'
    else
        printf 'verdict: fail\nsummary: One thing.\nfindings:\n- {issue: It ends too early., severity: high, recommendation: Go on.}\n'
    fi > "$CALLSHEET_SESSION/07_review/review.yaml"
    ;;
esac
