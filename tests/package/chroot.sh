#!/usr/bin/env bash
# chroot.sh BUILD_DIR: installs the package in a bare Debian 12, as `apt install ./kiln.deb` does, and uses it there as a
# user who has nothing else. Needs root, debootstrap, python3 and a Debian mirror: the one that this machine's apt uses.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "needs debootstrap" >&2; exit 1; }
# What packages' scripts mount, start or kill stays in here.
[ "${2:-}" = inside ] || exec unshare -pfm --mount-proc "$(realpath "$0")" "$1" inside
source=$(realpath "$(dirname "$0")/../..")
. "$source/cmake/packages.sh"
. "$source/tests/package/bare_debian.sh"

work=$(mktemp -d /tmp/kiln-chroot-XXXXXX)
root=$work/debian
trap 'umount -l "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
step() { printf '== %s\n' "$1"; }
as_user() { in_root "$root" setpriv --reuid games --regid games --clear-groups env HOME=/home/user "$@"; }

step "the package"
cpack --config "$1/CPackConfig.cmake" -G DEB -B "$work/deb" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
deb=$(echo "$work"/deb/kiln_*.deb)
step "a bare Debian 12"
bare_debian "$root" "$work/log"
cp "$deb" "$root/tmp/kiln.deb"

step "apt install ./kiln.deb"
in_root "$root" apt-get install -y -qq --no-install-recommends /tmp/kiln.deb >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
in_root "$root" dpkg-query -W -f='${Package} ${Version} ${Status}\n' kiln libllvm$KILN_LLVM
in_root "$root" install -d -o games /home/user
in_root "$root" sh -c 'ldd /usr/bin/kiln /usr/bin/kilnd /usr/bin/kiln-tune /usr/libexec/kiln/*' >"$work/libraries"
if grep "not found" "$work/libraries"; then exit 1; fi

step "a kernel runs"
python3 - "$root/home/user" <<'PYTHON'
import struct, sys
def write(name, values):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(f"{sys.argv[1]}/{name}", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<%df" % len(values), *values))
write("x.npy", [i * 0.5 for i in range(1000)])
write("y.npy", [float(1000 - i) for i in range(1000)])
PYTHON
as_user sh -c 'cd && kiln run /usr/share/kiln/examples/vector_add.kiln x=@x.npy y=@y.npy out=@out.npy:f32[1000] n=1000'
python3 - "$root/home/user/out.npy" <<'PYTHON'
import struct, sys
values = struct.unpack("<1000f", open(sys.argv[1], "rb").read()[-4000:])
assert all(value == i * 0.5 + 1000 - i for i, value in enumerate(values)), values[:4]
print("1000 sums are right")
PYTHON
as_user kiln ping | cut -c1-60
as_user kiln compile /usr/share/kiln/examples/matmul.kiln --target cuda:sm_90a --emit ptx -o /home/user/mm.ptx
as_user kiln compile /usr/share/kiln/examples/matmul.kiln --target amd:gfx942 --emit hsaco -o /home/user/mm.hsaco
as_user sh -c "cd && kiln tune /usr/share/kiln/jobs/quickstart.jsonl --frozen --json 2>/dev/null" | grep failed_jobs
as_user kiln stop
# HOME was all that said where: what was compiled is on disk for the next daemon.
as_user kiln compile /usr/share/kiln/examples/matmul.kiln --target cuda:sm_90a --emit ptx -o /home/user/mm.ptx
as_user kiln stats | grep -E '^hits_total.disk +1$'
as_user kiln stop

step "systemd, with the system's units"
in_root "$root" apt-get install -y -qq --no-install-recommends systemd dbus >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
if [ -w /sys/fs/cgroup/systemd ] || [ -w /sys/fs/cgroup/cgroup.procs ]; then
  umount "$root/proc"
  "$(dirname "$(realpath "$0")")/boot.sh" "$root"
  mount -t proc proc "$root/proc"
else
  echo "[SKIPPED] control groups cannot be made here"
fi

step "find_package(Kiln), with what the package recommends"
in_root "$root" sh -c "apt-get install -y -qq --no-install-recommends g++ cmake make \$(dpkg-query -W -f='\${Recommends}' kiln | tr -d ,)" \
  >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
cp "$source/tests/example/consumer/CMakeLists.txt" "$source/tests/example/scale_add.cpp" "$root/home/user"
in_root "$root" chown -R games /home/user
as_user sh -c 'cd && cmake -B build >/dev/null && cmake --build build >/dev/null && build/scale_add'
as_user kiln stop

step "apt purge kiln"
in_root "$root" apt-get purge -y -qq kiln >/dev/null 2>&1
left=$(find "$root/usr" "$root/etc" -name '*kiln*' | head)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "the package installs, works and leaves"
