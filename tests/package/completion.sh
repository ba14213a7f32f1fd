#!/usr/bin/env bash
# completion.sh DIR: what bash offers from the completions in DIR, and zsh and fish where they are installed.
set -euo pipefail
cd "$1"
failed=0
expect() { # SHELL LINE EXPECTED ACTUAL
  [ "$3" = "$4" ] || { echo "$1: '$2' gives '$4' and not '$3'"; failed=1; }
}

# The line's last word is completed; "…=" splits as bash splits it.
in_bash() {
  bash --norc -c 'source ./completion.bash
    read -ra COMP_WORDS <<<"$1"; [[ $1 != *" " ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kiln_complete; echo "${COMPREPLY[*]}"' - "$1"
}
# zsh itself drops what does not match, so that the test does it here.
in_zsh() {
  zsh -f -c 'compadd() { shift; print -rl -- $@; }; _files() { : }
    words=(kiln); CURRENT=1; source ./completion.zsh >/dev/null
    words=(${(s: :)1}); [[ $1 != *" " ]] || words+=(""); CURRENT=$#words
    _kiln | grep -e "^${words[-1]}" | tr "\n" " " | sed "s/ $//"' - "$1"
}
in_fish() {
  (cd "$empty" && fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$OLDPWD/completion.fish" "$1" | cut -f1 | sort | tr '\n' ' ' | sed 's/ $//')
}

empty=$(mktemp -d /tmp/kiln-completion-XXXXXX)
trap 'rmdir "$empty"' EXIT
for shell in bash zsh fish; do
  command -v $shell >/dev/null || { echo "note: $shell is not installed; its part was left out"; continue; }
  sorted() { in_$shell "$1" | tr ' ' '\n' | sort | tr '\n' ' ' | sed 's/ $//'; }
  expect $shell "kiln st" "stats stop" "$(sorted 'kiln st')"
  expect $shell "kiln compile --em" "--emit" "$(sorted 'kiln compile --em')"
  expect $shell "kiln compile --emit h" "hsaco" "$(sorted 'kiln compile --emit h')"
  expect $shell "kiln cache " "clear ls verify" "$(sorted 'kiln cache ')"
  expect $shell "kiln cache ls --d" "--dir" "$(sorted 'kiln cache ls --d')"
  expect $shell "kiln graph " "bench cut draw explain hash memory print run verify" "$(sorted 'kiln graph ')"
  expect $shell "kiln graph draw --no" "--no-fuse --no-views" "$(sorted 'kiln graph draw --no')"
  expect $shell "kiln graph bench --mode " "autotune default max" "$(sorted 'kiln graph bench --mode ')"
  expect $shell "kiln tune ex" "export" "$(sorted 'kiln tune ex')"
  expect $shell "kiln tune --res" "--resume" "$(sorted 'kiln tune --res')"
  expect $shell "kilnd --log-level " "debug err info warn" "$(sorted 'kilnd --log-level ')"
  expect $shell "kiln serve --cache-d" "--cache-dir" "$(sorted 'kiln serve --cache-d')"
  expect $shell "kiln compile -o st" "" "$(sorted 'kiln compile -o st')"  # a file
  echo "$shell was asked"
done
expect bash "kiln compile --emit = as" "asm" "$(in_bash 'kiln compile --emit = as')"
exit $failed
