# Completion of kiln, kilnd and kiln-tune. The tables above are made from the programs' option tables.

# Sets kiln_program and kiln_path from the words before the current one; kiln_pending is the option that waits for its value.
_kiln_walk() {
  local word kiln_commands kiln_options kiln_values
  kiln_path='' kiln_pending=''
  for word in "$@"; do
    if [[ -n $kiln_pending ]]; then
      kiln_pending=''
    elif [[ $word == -* ]]; then
      _kiln_values_${kiln_program//-/_} "$kiln_path" "$word" && kiln_pending=$word
    else
      _kiln_table_${kiln_program//-/_} "$kiln_path"
      [[ " $kiln_commands " == *" $word "* ]] || continue
      kiln_path=${kiln_path:+$kiln_path }$word
      case "$kiln_program $kiln_path" in
        'kiln tune') kiln_program=kiln-tune kiln_path='' ;;
        'kiln serve') kiln_program=kilnd kiln_path='' ;;
      esac
    fi
  done
}

_kiln() {
  local kiln_program=${words[1]:t} kiln_path kiln_pending kiln_commands kiln_options kiln_values
  _kiln_walk "${(@)words[2,CURRENT-1]}"
  if [[ -n $kiln_pending ]]; then
    _kiln_values_${kiln_program//-/_} "$kiln_path" "$kiln_pending"
    if [[ -n $kiln_values ]]; then compadd -- ${=kiln_values}; else _files; fi
    return
  fi
  _kiln_table_${kiln_program//-/_} "$kiln_path"
  if [[ $words[CURRENT] == -* ]]; then
    compadd -- ${=kiln_options}
  elif [[ -n $kiln_commands ]]; then
    compadd -- ${=kiln_commands}
  else
    _files
  fi
}

_kiln "$@"
