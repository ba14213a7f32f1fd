#!/usr/bin/env bash
# deb.sh BUILD_DIR: the Debian package that CPack makes of this build: its fields, its files, what they depend on.
set -euo pipefail
command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null ||
  { echo "[SKIPPED] not a Debian with dpkg-dev"; exit 77; }
. "$(dirname "$0")/../../cmake/packages.sh"
work=$(mktemp -d /tmp/kiln-deb-XXXXXX)
trap 'rm -rf "$work"' EXIT
# Not compressed: that is a third of the time.
cpack --config "$1/CPackConfig.cmake" -G DEB -B "$work" -D CPACK_DEBIAN_COMPRESSION_TYPE=none >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
deb=$(echo "$work"/kiln_*.deb)
status=0
fail() { echo "FAILED: $1"; status=1; }

field() { dpkg-deb -f "$deb" "$1"; }
[ "$(field Package)" = kiln ] || fail "the name is $(field Package)"
[ "$(field Architecture)" = "$(dpkg --print-architecture)" ] || fail "the architecture is $(field Architecture)"
[ "$(field Section)" = devel ] || fail "the section is $(field Section)"
[ -n "$(field Description)" ] && [ -n "$(field Maintainer)" ] || fail "no description or no maintainer"
for library in libc6 libstdc++6 libgomp1 libssl3 libseccomp2 libsqlite3-0; do
  [[ ", $(field Depends)" == *", $library "* ]] || fail "no dependency on $library: $(field Depends)"
done
# LLVM is either inside the worker or a dependency.
dpkg-deb -x "$deb" "$work/unpacked"
if readelf -d "$work/unpacked/usr/libexec/kiln/kiln-worker" | grep -q libLLVM; then
  field Depends | grep -q libllvm$KILN_LLVM || fail "no dependency on LLVM"
fi

dpkg-deb -c "$deb" >"$work/contents"
for file in usr/bin/kiln usr/bin/kilnd usr/bin/kiln-tune usr/libexec/kiln/kiln-worker usr/libexec/kiln/kiln-runner \
  usr/share/man/man1/kiln.1.gz usr/share/man/man1/kiln-tune.1.gz usr/share/man/man8/kilnd.8.gz \
  usr/lib/systemd/user/kilnd.socket usr/lib/systemd/user/kilnd.service \
  usr/lib/systemd/system/kilnd@.socket usr/lib/systemd/system/kilnd@.service \
  usr/share/bash-completion/completions/kiln usr/share/zsh/vendor-completions/_kiln \
  usr/share/fish/vendor_completions.d/kiln.fish usr/share/doc/kiln/copyright usr/share/kiln/examples/matmul.kiln \
  usr/lib/cmake/Kiln/KilnConfig.cmake usr/lib/libkiln_client.a usr/include/kiln/client/client.h \
  'usr/lib/libkiln.so.[0-9.]*' usr/include/kiln.h usr/include/kiln_graph.h usr/lib/pkgconfig/kiln.pc usr/share/kiln/python/kiln/__init__.py; do
  grep -q " \./$file$" "$work/contents" || fail "$file is missing"
done
# Everything is root's and in /usr; nothing is an administrator's to edit, and scripts at installation only tell the linker.
if awk '$2 != "root/root" || $6 !~ /^\.\/usr\//' "$work/contents" | grep .; then fail "files out of place"; fi
dpkg-deb -e "$deb" "$work/control"
control=$(ls "$work/control" | grep -vxE 'control|md5sums|shlibs|triggers|postinst|postrm' || true)
[ -z "$control" ] || fail "control files: $control"
for script in postinst postrm; do
  commands=$(grep -vE '^[[:space:]]*(#|set -e$|if \[ "\$1" = "?[a-z]+"? \]|then$|fi$|ldconfig$|$)' "$work/control/$script" || true)
  [ -z "$commands" ] || fail "$script does more than to call ldconfig: $commands"
done
[ "$(find "$work/unpacked" -type f -perm /022 | wc -l)" = 0 ] || fail "files that others may write"

for program in usr/bin/kiln usr/bin/kilnd usr/bin/kiln-tune usr/libexec/kiln/kiln-worker usr/libexec/kiln/kiln-runner; do
  sections=$(readelf -SW "$work/unpacked/$program")
  if grep -q '\.debug_info' <<<"$sections"; then fail "$program has debug information"; fi
  grep -q '\.note\.gnu\.build-id' <<<"$sections" || fail "$program has no build id"
  if readelf -d "$work/unpacked/$program" | grep -E 'R(UN)?PATH'; then fail "$program has a search path"; fi
done
# Units, CMake files and manual pages name the places where the package lies, not those where it was made.
grep -q '^ExecStart=/usr/bin/kilnd ' "$work/unpacked/usr/lib/systemd/user/kilnd.service" || fail "the unit's ExecStart"
if grep -rlF -e "$work" -e "$(realpath "$1")" "$work/unpacked/usr/lib/systemd" "$work/unpacked/usr/lib/cmake" "$work/unpacked/usr/share"; then
  fail "files name the build"
fi

if command -v lintian >/dev/null; then
  # Who distributes a package gives it a changelog and an address.
  lintian --allow-root --suppress-tags no-changelog,bogus-mail-host --fail-on error "$deb" || status=1
else
  echo "note: lintian is not installed; its part was left out"
fi
echo "$(basename "$deb"): $(stat -c %s "$deb") bytes, $(wc -l <"$work/contents") files and directories"
exit $status
