#!/usr/bin/env bash
# fresh.sh [quickstart|tests]: what a newcomer does, in a bare Debian 12 with a clone of HEAD: ./quickstart.sh, what README.md says to
# do next, and tests/run.sh; an argument leaves the other out. Says how long each took. Needs root, debootstrap, git and a Debian
# mirror. With CCACHE_DIR set, its compilers use that cache, and times are no longer those of a newcomer.
set -euo pipefail
what=${1:-quickstart tests}
[ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "needs debootstrap" >&2; exit 1; }
# What is mounted, started or killed stays in here.
[ "${2:-}" = inside ] || exec unshare -pfm --mount-proc "$(realpath "$0")" "$what" inside
source=$(realpath "$(dirname "$0")/../..")
. "$source/tests/package/bare_debian.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/kiln-fresh-XXXXXX")
root=$work/debian
trap 'umount -l "$root"/{proc,sys,dev/shm,dev/pts,run/netns,ccache} 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
step() { printf '== %s (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
cache=()
in_clone() { in_root "$root" env "${cache[@]}" XDG_RUNTIME_DIR= bash -c "cd /kiln && $1"; }

step "a bare Debian 12"
bare_debian "$root" "$work/log"
mount --rbind --make-rslave /sys "$root/sys"
mkdir -p "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
if [ -n "${CCACHE_DIR:-}" ]; then
  mkdir "$root/ccache"
  mount --bind "$CCACHE_DIR" "$root/ccache"
  cache=(CCACHE_DIR=/ccache)
fi
git -C "$source" diff --quiet HEAD || echo "changes since HEAD are left out"
git clone -q --no-local "$source" "$root/kiln"

if [[ $what = *quickstart* ]]; then
  step "./quickstart.sh"
  in_clone ./quickstart.sh
  step "README.md's next commands"
  in_clone "cmake --install build/release --prefix /opt/kiln >/dev/null"
  in_root "$root" env PATH="/opt/kiln/bin:/usr/bin:/bin" kiln compile /kiln/dsl/examples/matmul.kiln --target cpu -o /mm.so
  in_clone "mkdir /project && cp tests/example/scale_add.cpp tests/example/consumer/CMakeLists.txt /project"
  in_root "$root" sh -c "cd /project && cmake -G Ninja -B build -DCMAKE_PREFIX_PATH=/opt/kiln >/dev/null && cmake --build build >/dev/null &&
    build/scale_add"
  in_root "$root" /opt/kiln/bin/kiln stop
fi
if [[ $what = *tests* ]]; then
  step "tests/run.sh"
  in_clone tests/run.sh
fi
step "done"
