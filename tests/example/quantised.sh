#!/usr/bin/env bash
# quantised.sh EXECUTABLE PAGE: the report has the layers that the page shows, finer weights lose less, and nothing is
# lost that the formats keep. Of two .npy files it reports the same layers, and a wrong file is named.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-quantised-XXXXXX)
source "$(dirname "$0")/clean_up.sh"
trap 'clean_up "$home" "$home/run"' EXIT
mkdir -m 700 "$home/run"
export HOME="$home" XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run"
"$1" >"$home/out"
python3 - "$home" "$2" <<'END'
import re, struct, sys
home, page = sys.argv[1], open(sys.argv[2], encoding="utf-8").read()
row = re.compile(r" *(\S.*?)  +([\d.]+) +(\S+) +(\S+) +([\d.]+)$")
rows = lambda text: {m[1]: float(m[5]) for line in text.splitlines() if (m := row.match(line))}
got, shown = rows(open(f"{home}/out").read()), rows(page[page.index("64 tokens, 1024 inputs"):])
assert len(got) == 14 and list(got) == list(shown), (list(got), list(shown))
far = {name: (got[name], shown[name]) for name in got if abs(got[name] - shown[name]) > 0.3}
assert not far, far
four = [got[f"weights of 4 bits, groups of {group}{zeros}"] for group in (128, 64, 32) for zeros in ("", ", zero points")]
assert four[0] < four[2] < four[4] < got["weights of i8, a scale a row"], four
assert all(plain < shifted for plain, shifted in zip(four[::2], four[1::2])), four
for name, shape in (("w", (8, 128)), ("x", (3, 128)), ("odd", (3, 100))):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = struct.pack(f"<{shape[0] * shape[1]}f", *((i * 37 % 101 - 50) / 50 for i in range(shape[0] * shape[1])))
    open(f"{home}/{name}.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
END
"$1" "$home/w.npy" "$home/x.npy" | grep -q '^3 tokens, 128 inputs, 8 outputs$'
! "$1" "$home/w.npy" "$home/odd.npy" 2>"$home/error" >/dev/null
grep -q 'odd.npy: no matrix of f32 whose columns are a multiple of 128' "$home/error"
