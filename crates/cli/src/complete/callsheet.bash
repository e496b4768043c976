# Completion of callsheet for bash. Load it with: source <(callsheet completions bash)
_callsheet() {
    local line program=callsheet
    case "${COMP_WORDS[0]}" in
        */*) program="${COMP_WORDS[0]}" ;;
    esac
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :files)
                compopt -o default 2>/dev/null
                return
                ;;
        esac
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("$program" __complete bash "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null)
    case "${COMPREPLY[0]-}" in
        *=) compopt -o nospace 2>/dev/null ;;
    esac
}
complete -F _callsheet callsheet
