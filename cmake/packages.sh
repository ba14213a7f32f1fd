# Sourced by quickstart.sh, which needs the first list, and by tests/run.sh, which needs both; tests/package/packages.py compares
# the lists with what the builds use. install_missing PACKAGE… installs those that are missing, and says which.

# The one LLVM, Clang and formatter; CMake reads this line too (KilnLlvm.cmake).
KILN_LLVM=22
KILN_BUILD_PACKAGES="g++ cmake ninja-build pkg-config ccache llvm-$KILN_LLVM-dev liblld-$KILN_LLVM-dev libpolly-$KILN_LLVM-dev zlib1g-dev libzstd-dev
  libxml2-dev libboost1.81-dev nlohmann-json3-dev libssl-dev libxxhash-dev libspdlog-dev libfmt-dev libcli11-dev libseccomp-dev libsqlite3-dev
  libhiredis-dev libminizip-dev systemtap-sdt-dev"
KILN_TEST_PACKAGES="libgtest-dev libgmock-dev python3 binutils libmpfr-dev clang-format-$KILN_LLVM clang-$KILN_LLVM libclang-rt-$KILN_LLVM-dev
  llvm-$KILN_LLVM-tools mandoc python3-numpy dpkg-dev qemu-user chromium-headless-shell gcc-aarch64-linux-gnu libc6-dev-arm64-cross redis-server iproute2
  locales procps file gdb"

# What the target kiln_wheels needs besides the first list; tests/run.sh --models has it.
KILN_WHEEL_PACKAGES="binutils patchelf python3"

# LLVM is in Debian 12's security archive, which every installed system has among its sources, and a bare root may lack.
say_security_archive() {
  apt-cache show "llvm-$KILN_LLVM-dev" >/dev/null 2>&1 && return 0
  echo "no source of packages has llvm-$KILN_LLVM-dev; for Debian 12, add this line to /etc/apt/sources.list and run again:" >&2
  echo "  deb http://deb.debian.org/debian-security bookworm-security main" >&2
}

install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "Installing Debian packages: ${missing[*]}"
  local as_root=""
  [ "$(id -u)" -eq 0 ] || as_root="sudo"
  if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/tmp/kiln-apt.$$ 2>&1; then
    $as_root apt-get update -qq &&
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/tmp/kiln-apt.$$ 2>&1 ||
      { cat /tmp/kiln-apt.$$ >&2; rm -f /tmp/kiln-apt.$$; echo "installing the packages failed" >&2; say_security_archive; return 1; }
  fi
  rm -f /tmp/kiln-apt.$$
}
