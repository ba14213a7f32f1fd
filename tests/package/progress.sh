#!/usr/bin/env bash
# progress.sh SOURCE_DIR: what cmake/build.sh shows where there is no terminal: one line of progress a minute, everything else, and the
# build's own status; and on one, all that ninja says.
set -uo pipefail
. "$1/cmake/build.sh"
# A cmake in PATH: a shell between, such as dash for script(1), drops functions of bash from the environment.
stand_in=$(mktemp -d)
trap 'rm -rf "$stand_in"' EXIT
cat >"$stand_in/cmake" <<'END'
#!/usr/bin/env bash
[ "$*" = "--build --preset release --target a b" ] || echo "called with $*"
printf '[%d/9, 5 s] Building a.o\n' 1 2 3
echo 'a.cpp:1:1: warning: [1/2] is no progress'
printf '[%d/9, 5 s] Building b.o\n' 4 5
printf 'FAILED: b.o'
exit 3
END
chmod +x "$stand_in/cmake"
PATH=$stand_in:$PATH
shown=$(build_targets release a b)
status=$?
expected='[1/9, 5 s] Building a.o
a.cpp:1:1: warning: [1/2] is no progress
FAILED: b.o'
[ "$shown" = "$expected" ] || { printf 'shown:\n%s\n' "$shown"; exit 1; }
[ $status = 3 ] || { echo "the status is $status"; exit 1; }
# On a terminal the build speaks for itself.
terminal=$(script -qec "bash -c '. $1/cmake/build.sh; build_targets release a b'" /dev/null | tr -d '\r')
expected='[1/9, 5 s] Building a.o
[2/9, 5 s] Building a.o
[3/9, 5 s] Building a.o
a.cpp:1:1: warning: [1/2] is no progress
[4/9, 5 s] Building b.o
[5/9, 5 s] Building b.o
FAILED: b.o'
[ "$terminal" = "$expected" ] || { printf 'on a terminal:\n%s\n' "$terminal"; exit 1; }
# A minute later there is another line.
later=$({ echo '[1/9, 5 s] a'; echo '[2/9, 5 s] b'; } | { SECONDS=0; MINUTE=0 line_a_minute; })
[ "$later" = $'[1/9, 5 s] a\n[2/9, 5 s] b' ] || { printf 'later:\n%s\n' "$later"; exit 1; }
