"""The elementary functions of one f32 operand for all 2^32 arguments, and f32 division as kernels with products of
groups of warps have it, on the GPU: the worst error in ulp beside its bound in docs/reference/ops.md. References are PyTorch's in
float64, whose own errors do not show.

    python3 math_exhaustive.py [--filter NAME,NAME…]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch

from cuda import Artifact
from tools import environment, tool

BOUNDS = {"exp": 2.1, "exp2": 2.1, "expm1": 2, "log": 2, "log2": 2, "log10": 2, "log1p": 2, "sin": 2, "cos": 2, "erf": 2,
          "asin": 4, "acos": 4, "atan": 4, "sinh": 4, "cosh": 4, "tanh": 4, "tan": 4, "erfc": 4, "rsqrt": 1, "sqrt": 0.5,
          "floor": 0, "ceil": 0, "round": 0, "trunc": 0}
# Every one of these is divided by every one: quotients with a rule of their own, and the ends of the range.
EDGES = [0.0, 2.0**-149, 3 * 2.0**-149, 2.0**-126, 2.0**-100, 1.0, 1.5, 3.0, 2.0**126, 2.0**127, 3.4028234663852886e38,
         float("inf"), float("nan")]
BLOCK, CHUNK = 2048, 1 << 26
MAP = """kernel map(%x: ptr<f32> readonly, %y: ptr<f32>) {{
  grid [{programs}, 1, 1]
  %pid = program_id {{axis = 0}}
  %block = constant {{value = {block}, type = i32}}
  %start = mul %pid, %block
  %all = splat %start {{shape = [{block}]}}
  %lane = arange {{start = 0, end = {block}}}
  %at = add %all, %lane
  %xs = splat %x {{shape = [{block}]}}
  %ys = splat %y {{shape = [{block}]}}
  %xp = addptr %xs, %at
  %yp = addptr %ys, %at
  %v = load %xp
  %w = {op}
  store %yp, %w
}}
"""
# The product, whose operands are the parameter itself, only makes the compiler divide as it must beside wgmma.
DIVIDE = """kernel divide(%x: ptr<f32> readonly, %d: ptr<f32> readonly, %y: ptr<f32>, %a: ptr<bf16> readonly, %c: ptr<f32>) {{
  grid [{programs}, 1, 1]
  %pid = program_id {{axis = 0}}
  %block = constant {{value = {block}, type = i32}}
  %start = mul %pid, %block
  %all = splat %start {{shape = [{block}]}}
  %lane = arange {{start = 0, end = {block}}}
  %at = add %all, %lane
  %xs = splat %x {{shape = [{block}]}}
  %ds = splat %d {{shape = [{block}]}}
  %ys = splat %y {{shape = [{block}]}}
  %xp = addptr %xs, %at
  %dp = addptr %ds, %at
  %yp = addptr %ys, %at
  %v = load %xp
  %u = load %dp
  %w = div %v, %u
  store %yp, %w
  %flat = arange {{start = 0, end = 4096}}
  %as = splat %a {{shape = [4096]}}
  %ap = addptr %as, %flat
  %al = load %ap
  %am = reshape %al {{shape = [64, 64]}}
  %zero = constant {{value = 0, type = f32}}
  %zeros = splat %zero {{shape = [64, 64]}}
  %sum = dot %am, %am, %zeros
  %sl = reshape %sum {{shape = [4096]}}
  %cs = splat %c {{shape = [4096]}}
  %cp = addptr %cs, %flat
  store %cp, %sl
}}
"""


def build(folder, name, text, **constexprs):
    path = os.path.join(folder, name)
    with open(path + ".kiln", "w") as file:
        file.write(text)
    major, minor = torch.cuda.get_device_capability()
    target = f"cuda:sm_{major}{minor}" + ("a" if major >= 9 else "")
    for emit, out in (("so", path), ("ptx", path + ".ptx")):
        request = {"file": path + ".kiln", "target": target, "constexprs": constexprs, "facts": {}, "emit": emit}
        done = subprocess.run([tool("gpu-compile"), json.dumps(request), out], capture_output=True, text=True,
                              env=environment())
        if done.returncode != 0:
            sys.exit(done.stderr)
    return path


def reference(name, x):
    if name == "rsqrt":
        return 1 / torch.sqrt(x)
    return getattr(torch, name)(x)


def ulps(actual, expected):
    """Of float32 results beside exact ones; 0 where both are infinite, or overflow, or NaN."""
    exponent = torch.frexp(expected)[1].clamp(min=-125).to(torch.float64)
    error = (actual.double() - expected).abs() / torch.exp2(exponent - 24)
    rounded = expected.float()
    same = (actual == rounded) | (actual.isnan() & expected.isnan())
    exact_edge = rounded.isinf() & ~expected.isinf() & (actual.abs() == torch.finfo(torch.float32).max)
    error[same & (rounded.isinf() | rounded.isnan())] = 0
    error[exact_edge] = 0
    error[error.isnan()] = float("inf")
    return error


def all_arguments():
    for first in range(0, 1 << 32, CHUNK):
        yield torch.arange(first, first + CHUNK, device="cuda", dtype=torch.int64).to(torch.int32).view(torch.float32)


def check_function(folder, name):
    op = f"math %v {{fn = {name}}}"
    launch_of = Artifact(build(folder, name, MAP.format(programs=CHUNK // BLOCK, block=BLOCK, op=op)))
    worst, at = 0.0, 0.0
    y = torch.empty(CHUNK, device="cuda")
    for x in all_arguments():
        launch_of.bind([x, y])()
        error = ulps(y, reference(name, x.double()))
        value, index = error.max(0)
        if value.item() > worst:
            worst, at = value.item(), x[index].item()
    fine = worst <= BOUNDS[name]
    print(f"{name:>8}  {worst:.3f} ulp at {at!r}, bound {BOUNDS[name]}{'' if fine else '  EXCEEDED'}", flush=True)
    return fine


def check_division(folder):
    """Edges, pairs of any bits, of near magnitudes, of quotients near the middle between two floats, of subnormal quotients."""
    text = DIVIDE.format(programs=CHUNK // BLOCK, block=BLOCK)
    path = build(folder, "divide", text, num_warps=4)
    if "wgmma" not in open(path + ".ptx").read():
        print("     div  (no products of groups of warps on this device)")
        return True
    artifact = Artifact(path)
    generator = torch.Generator("cuda").manual_seed(1)
    a, c = torch.zeros(4096, dtype=torch.bfloat16, device="cuda"), torch.empty(4096, device="cuda")
    y, wrong, count = torch.empty(CHUNK, device="cuda"), 0, 0

    def bits(low, high):
        return torch.randint(low, high, (CHUNK,), device="cuda", generator=generator, dtype=torch.int64).to(torch.int32)

    for part in range(64):
        d = bits(-1 << 31, 1 << 31).view(torch.float32)
        x = bits(-1 << 31, 1 << 31).view(torch.float32)
        if part == 0:
            edges = torch.tensor(EDGES + [-x for x in EDGES], dtype=torch.float32, device="cuda")
            d[:len(edges)**2], x[:len(edges)**2] = edges.repeat(len(edges)), edges.repeat_interleave(len(edges))
        if part % 4 == 1:
            d, x = bits(0x3f800000, 0x40000000).view(torch.float32), bits(0x3f800000, 0x40000000).view(torch.float32)
        elif part % 4 == 2:  # x next to a product of d and a number of 25 bits: a quotient near a tie
            half = (bits(1 << 24, 1 << 25) | 1).double()
            d = bits(0x3f800000, 0x40000000).view(torch.float32)
            x = (half * d.double() * 2.0**-24).float()
        elif part % 4 == 3:
            d, x = bits(0x7e000000, 0x7f000000).view(torch.float32), bits(0x3f000000, 0x40800000).view(torch.float32)
        artifact.bind([x, d, y, a, c])()
        expected = x / d
        same = (y.view(torch.int32) == expected.view(torch.int32)) | (y.isnan() & expected.isnan())
        wrong += CHUNK - int(same.sum())
        count += CHUNK
    print(f"     div  {wrong} of {count} quotients wrong{'' if wrong == 0 else '  EXCEEDED'}", flush=True)
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="")
    names = parser.parse_args().filter
    chosen = names.split(",") if names else [*BOUNDS, "div"]
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            fine = (check_division(folder) if name == "div" else check_function(folder, name)) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
