# Completion of kiln, kilnd and kiln-tune. The tables above are made from the programs' option tables.

# Sets kiln_program and kiln_path from the words before the current one; kiln_pending is the option that waits for its value.
_kiln_walk() {
  local word kiln_commands kiln_options kiln_values
  kiln_path='' kiln_pending=''
  for word in "$@"; do
    if [[ $word == '=' ]]; then
      continue # bash makes --option=value three words
    elif [[ -n $kiln_pending ]]; then
      kiln_pending=''
    elif [[ $word == -* ]]; then
      "_kiln_values_${kiln_program//-/_}" "$kiln_path" "$word" && kiln_pending=$word
    else
      "_kiln_table_${kiln_program//-/_}" "$kiln_path"
      [[ " $kiln_commands " == *" $word "* ]] || continue
      kiln_path=${kiln_path:+$kiln_path }$word
      case "$kiln_program $kiln_path" in
        'kiln tune') kiln_program=kiln-tune kiln_path='' ;;
        'kiln serve') kiln_program=kilnd kiln_path='' ;;
      esac
    fi
  done
}

_kiln_complete() {
  local kiln_program=${COMP_WORDS[0]##*/} kiln_path kiln_pending kiln_commands kiln_options kiln_values
  local current=${COMP_WORDS[COMP_CWORD]}
  _kiln_walk "${COMP_WORDS[@]:1:COMP_CWORD-1}"
  [[ $current == '=' ]] && current=''
  COMPREPLY=()
  if [[ -n $kiln_pending ]]; then
    "_kiln_values_${kiln_program//-/_}" "$kiln_path" "$kiln_pending"
    [[ -z $kiln_values ]] || mapfile -t COMPREPLY < <(compgen -W "$kiln_values" -- "$current")
    return
  fi
  "_kiln_table_${kiln_program//-/_}" "$kiln_path"
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$kiln_options" -- "$current")
  elif [[ -n $kiln_commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$kiln_commands" -- "$current")
  fi
}

# Where nothing is offered, it is files.
complete -o bashdefault -o default -F _kiln_complete kiln kilnd kiln-tune
