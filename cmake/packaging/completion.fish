# Completion of kiln, kilnd and kiln-tune. The lines below are made from the programs' option tables.

# Whether the words so far name exactly this command.
function __kiln_at
    set -l words (string match --invert -- '-*' (commandline -opc)[2..])
    if test (count $argv) -eq 0
        # Words that are no subcommand are arguments of the program itself.
        contains -- (basename (commandline -opc)[1]) kiln; and test (count $words) -gt 0; and return 1
        return 0
    end
    test (count $words) -ge (count $argv); and test "$words[1..$(count $argv)]" = "$argv"
end

# Another program's completions, for `kiln tune` and `kiln serve`.
function __kiln_delegate
    set -l rest (commandline -opc)[3..]
    complete -C (string join ' ' -- $argv $rest (commandline -ct))
end
complete -c kiln -n '__kiln_at tune' -f -a '(__kiln_delegate kiln-tune)'
complete -c kiln -n '__kiln_at serve' -f -a '(__kiln_delegate kilnd)'
