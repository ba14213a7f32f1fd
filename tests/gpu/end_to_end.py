"""`kiln run --target cuda` from the command line to the arrays: client, daemon, worker, machine code, launch.

    python3 end_to_end.py [--dry-run]       --dry-run: compiles the same kernels by `kiln compile`, without a GPU
"""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from tools import EXAMPLES, environment, tool

F = np.float32
DRY = "--dry-run" in sys.argv
rng = np.random.default_rng(0)
x, y = rng.standard_normal((2, 100003), dtype=F)
rows = rng.standard_normal((333, 1000), dtype=F)
a, b = rng.standard_normal((300, 500), dtype=F), rng.standard_normal((500, 200), dtype=F)
a8, b8 = rng.integers(-128, 128, (300, 500), dtype=np.int8), rng.integers(-128, 128, (500, 200), dtype=np.int8)


def softmax(v):
    e = np.exp(v.astype(float) - v.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


ROWS = {"rows": 333, "cols": 1000}
PRODUCT = {"M": 300, "N": 200, "K": 500}
# kernel, config, inputs, output, scalars, what it must be, relative error of the whole
CASES = [
    ("vector_add", "BLOCK=1024", {"x": x, "y": y}, "out", {"n": x.size}, x + y, 0),
    ("softmax", "BLOCK=1024", {"x": rows}, "y", {**ROWS, "stride": 1000}, softmax(rows).astype(F), 1e-6),
    ("row_sum", "BLOCK=512", {"x": rows}, "y", {**ROWS, "stride": 1000}, rows.sum(1, dtype=float).astype(F), 1e-5),
    ("transpose", "BR=32,BC=32", {"x": rows}, "y", ROWS, rows.T, 0),
    ("argmax", "BLOCK=1024", {"x": rows}, "index", {**ROWS, "stride": 1000}, rows.argmax(1).astype(np.int32), 0),
    ("matmul_f32", "BM=32,BN=64,BK=32", {"A": a, "B": b}, "C", PRODUCT, (a.astype(float) @ b).astype(F), 1e-6),
    ("matmul_i8", "BM=64,BN=64,BK=64", {"A": a8, "B": b8}, "C", PRODUCT, a8.astype(np.int32) @ b8.astype(np.int32), 0),
    ("sort_rows", "BLOCK=1024", {"x": rows}, "y", ROWS, np.sort(rows, 1), 0),
]
TYPES = {"float32": "f32", "int32": "i32"}


def run(home, env, case):
    kernel, config, inputs, output, scalars, expected, bound = case
    file = os.path.join(EXAMPLES, kernel + ".kiln")
    common = [file, "--set", config]
    if DRY:
        command = [tool("kiln"), "compile", *common, "--target", "cuda:sm_90a", "-o", os.path.join(home, "code")]
    else:
        for name, array in inputs.items():
            np.save(os.path.join(home, name + ".npy"), array)
        out = os.path.join(home, "out.npy")
        shape = ",".join(map(str, expected.shape))
        arguments = [f"{name}=@{os.path.join(home, name)}.npy" for name in inputs]
        arguments += [f"{output}=@{out}:{TYPES[str(expected.dtype)]}[{shape}]"]
        arguments += [f"{name}={value}" for name, value in scalars.items()]
        command = [tool("kiln"), "run", *common, "--target", "cuda", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    if done.returncode != 0:
        refused = "not lowered to GPUs yet" in done.stderr
        return refused, ("refused: " if refused else "FAILED: ") + done.stderr.strip()[:300]
    if DRY:
        return True, "compiled"
    actual = np.load(out)
    if bound == 0:
        return np.array_equal(actual, expected), "equal" if np.array_equal(actual, expected) else "DIFFERS"
    error = np.linalg.norm(actual.astype(float) - expected) / np.linalg.norm(expected.astype(float))
    return bool(error <= bound), f"relative error {error:.1e}, at most {bound:.0e}"


def main():
    home = tempfile.mkdtemp(prefix="kiln-gpu-")
    os.mkdir(os.path.join(home, "run"), 0o700)
    env = environment(KILN_RUNTIME_DIR=os.path.join(home, "run"), XDG_CACHE_HOME=os.path.join(home, "cache"))
    fine = True
    try:
        for case in CASES:
            good, what = run(home, env, case)
            fine = fine and good
            print(f"{case[0]:>12}  {what}", flush=True)
    finally:
        subprocess.run([tool("kiln"), "stop"], env=env, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
