#!/usr/bin/env bash
# rules.sh SOURCE_DIR TEST_BINARY…: every line of rules.txt quotes docs/reference/ops.md under its heading and names tests that the
# binaries have, and every `### …` of the page has a line.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: rules.sh SOURCE_DIR TEST_BINARY…"; exit 2; }
page=$1/docs/reference/ops.md
table=$1/tests/oracle/rules.txt
shift

# Whole names, and those of parameterised tests without their last part.
declare -A tests
for binary in "$@"; do
  list=$("$binary" --gtest_list_tests)
  while read -r name; do
    tests[$name]=1
    case $name in */*) tests[${name%/*}]=1 ;; esac
  done < <(awk '/^[^ ].*\.( |$)/ { suite = $1 } /^  / { print suite $1 }' <<< "$list")
done
[ ${#tests[@]} -gt 0 ] || { echo "the binaries list no tests"; exit 1; }

# The text under each heading, each run of white space one blank. A part of one `## …` ends at the next heading.
declare -A text wanted
while IFS=$'\t' read -r level heading words; do
  text[$heading]=$words
  [ "$level" = "###" ] && wanted[$heading]=1
done < <(awk 'function flush() { if (heading != "") print level "\t" heading "\t" words }
  { $1 = $1 }
  /^##+ / { flush(); level = $1; heading = substr($0, length($1) + 2); words = ""; next }
  { if ($0 != "") words = words (words == "" ? "" : " ") $0 }
  END { flush() }' "$page")

status=0 number=0
complain() {
  echo "rules.txt:$number: $1"
  status=1
}
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  case $line in '' | '#'*) continue ;; esac
  heading=${line%% | *}
  rest=${line#* | }
  quote=${rest% | *}
  names=${rest##* | }
  if [ "$heading" = "$line" ] || [ "$quote" = "$rest" ] || [ -z "$quote" ] || [ -z "$names" ]; then
    complain "is not of the form: heading | rule | tests"
    continue
  fi
  if [ -z "${text[$heading]+set}" ]; then
    complain "the page has no heading \"$heading\""
    continue
  fi
  unset "wanted[\$heading]"
  [[ ${text[$heading]} == *"$quote"* ]] || complain "the page does not say under $heading: $quote"
  case $names in
    'target: '?*) continue ;;
    target*) complain "gives no reason behind \`target: \`"; continue ;;
  esac
  IFS=, read -ra names <<< "$names"
  for name in "${names[@]}"; do
    name=${name# }
    [ -n "${tests[${name:-none}]+set}" ] || complain "there is no test \"$name\""
  done
done < "$table"
for heading in "${!wanted[@]}"; do
  echo "rules.txt: no line for the heading ### $heading"
  status=1
done
exit $status
