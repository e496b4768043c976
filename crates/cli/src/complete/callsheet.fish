# Completion of callsheet for fish. Load it with: callsheet completions fish | source
function __callsheet_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (callsheet __complete fish (count $words) $words "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo "$line"
        end
    end
end
complete -c callsheet -f -a '(__callsheet_complete)'
