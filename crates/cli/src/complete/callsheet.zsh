#compdef callsheet
# Completion of callsheet for zsh. Load it with: source <(callsheet completions zsh)
_callsheet() {
    local line program=callsheet
    local -a values
    [[ "${words[1]}" == */* ]] && program="${words[1]}"
    while IFS= read -r line; do
        if [[ "$line" == ":files" ]]; then
            _files
            return
        fi
        values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <("$program" __complete zsh "$((CURRENT - 1))" "${words[@]}" 2>/dev/null)
    _describe -V 'value' values
}
if [ "${funcstack[1]}" = "_callsheet" ]; then
    _callsheet "$@"
else
    compdef _callsheet callsheet
fi
