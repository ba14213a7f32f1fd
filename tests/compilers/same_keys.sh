#!/usr/bin/env bash
# same_keys.sh ONE OTHER: two builds of kernel-keys, by different compilers, give the same keys. Where they do not, both
# forms are shown side by side.
set -euo pipefail
one=$("$1")
other=$("$2")
# Both compilers must really have been there, and must really have traced in different orders somewhere.
[ "$("$1" --compiler)" != "$("$2" --compiler)" ] || { echo "both programs were built by $("$1" --compiler)"; exit 1; }
[ "$("$1" --traced)" != "$("$2" --traced)" ] || { echo "the traces do not differ: this test proves nothing"; exit 1; }
count=$(wc -l <<<"$one")
[ "$count" -ge 15 ] || { echo "only $count kernels"; exit 1; }
if [ "$one" = "$other" ]; then
  echo "$count kernels, the same keys from $("$1" --compiler) and $("$2" --compiler)"
  exit 0
fi
echo "The keys differ (< $("$1" --compiler), > $("$2" --compiler)):"
diff <("$1" --text) <("$2" --text) || true
exit 1
