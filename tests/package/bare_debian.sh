# Sourced: a bare Debian 12 from the mirror that this machine's apt uses, reached as apt reaches it. Needs root and debootstrap.

# first_mirror SUITE: where apt gets a suite's main from; nothing where it knows none.
first_mirror() {
  apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' "Created-By: Packages" |
    awk -v suite="$1" '$2 == suite && $3 == "main" { print $1; exit }'
}

# bare_debian ROOT LOG: makes ROOT, whose apt has the same mirror, updates included, proxies and checks.
bare_debian() {
  local root=$1 log=$2 suite mirror
  mirror=$(first_mirror bookworm)
  [ -n "$mirror" ] || { echo "apt knows no mirror of Debian 12" >&2; return 1; }
  debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1 || { tail -20 "$log"; return 1; }
  mount -t proc proc "$root/proc"
  rm -f "$root/etc/apt/sources.list"
  for suite in bookworm bookworm-updates bookworm-security; do
    mirror=$(first_mirror "$suite")
    [ -z "$mirror" ] || printf 'deb %s %s main\n' "$mirror" "$suite" >>"$root/etc/apt/sources.list"
  done
  apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-)' >"$root/etc/apt/apt.conf.d/90mirror" || true
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  in_root "$root" apt-get update -qq
}

# in_root ROOT COMMAND…: with nothing of the caller's environment but the proxies that apt reads there.
in_root() {
  local root=$1 name proxies=()
  shift
  for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || proxies+=("$name=${!name}")
  done
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    "${proxies[@]}" "$@"
}
