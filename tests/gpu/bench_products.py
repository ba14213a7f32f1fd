"""Rows of matrix products: bench_cases.py lists the shapes."""
import itertools
import math
import random

import torch
import torch.nn.functional as F

import bench_peers as triton_peers
from bench_base import BOUNDS, DTYPES, Inputs, Launch, Row, Stage, normal, poisoned, power_of_two


def product_configs(m, n, k, type):
    if m <= 16 or type == "f32":
        return small_product_configs(m, type)
    # Lines of 128 bytes, of small results also of 256; as many slots as shared memory has, or four, or as many as leave
    # room for a second block; 32 to 128 sums a thread. Also by blocks that stay, and by clusters of these.
    deep = {"tf32": 32, "i8": 128, "f8e4m3": 128}.get(type, 64)
    tiles = [(128, 256), (256, 128), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64), (64, 32)]
    out = []
    if m <= 32:
        out += small_product_configs(m, type)
        tiles = tiles[-3:-1]
    for (bm, bn), warps, lines in itertools.product(tiles, (4, 8), (1, 2)):
        most = min(8, 216 * 1024 // (128 * lines * (bm + bn)))
        least = 16 if bn == 32 else 32
        if bm * bn > 128 * 32 * warps or bm * bn < least * 32 * warps or (bn == 32 and m * n > 512 * 512):
            continue
        if lines == 2 and (m * n > 1024 * 1024 or bm * bn > 128 * 64 or warps == 8):
            continue
        shared = 104 * 1024 // (128 * lines * (bm + bn))
        for stages in sorted({min(4, most), most, shared if 3 <= shared <= most else most}, reverse=True):
            config = dict(BM=bm, BN=bn, BK=lines * deep, num_warps=warps, num_stages=stages)
            out += [dict(config, warp_specialise=1), config, dict(config, warp_specialise=2)]
            out.append(dict(config, warp_specialise=2, cluster=2))
            if warps == 4:
                out.append(dict(config, warp_specialise=4))
    if m * n >= 4096 * 4096:  # two consumer groups, with accumulators of as many words as a thread holds
        out.append(dict(BM=128, BN=192, BK=deep, num_warps=4, num_stages=5, warp_specialise=4))
    return out


def split_configs(configs, m, n, k):
    """Also by parts of the inner axis, where there are fewer tiles than multiprocessors (132)."""
    out = list(configs)
    for config, parts in itertools.product(configs, (2, 3, 4, 6, 8, 12, 16)):
        tiles = -(-m // config["BM"]) * -(-n // config["BN"])
        if tiles < 132 and 64 <= tiles * parts <= 2 * 132 and k // config["BK"] >= 4 * parts:
            if config.get("warp_specialise", 0) < 2:  # blocks that stay have one launch
                out.append(dict(config, split_k=parts))
    return out + stream_configs(configs, m, n, k)


def stream_configs(configs, m, n, k):
    """By a worker for each multiprocessor, where tiles leave more than a tenth of these idle in their last turn."""
    out = []
    for config in configs:
        tiles = -(-m // config["BM"]) * -(-n // config["BN"])
        turns = -(-tiles // 132)
        alone = config.get("warp_specialise", 0)  # warps for copies are of outermost loops
        if 16 <= tiles < 2 * 132 and tiles < 0.9 * 132 * turns and k // config["BK"] >= 16 and not alone:
            out.append(dict(config, stream_k=132, split_k=-(-132 // tiles)))
    return out


def small_product_configs(m, type):
    deep = 32 if type == "f32" else 64
    shapes = [(128, 64, 32), (64, 128, 32), (128, 128, 32), (128, 64, 16), (64, 64, 32)]
    if m <= 32:  # memory's: many bytes under way
        tall = 16 if m <= 16 else 32
        shapes = [(tall, 64, deep), (tall, 128, deep), (tall, 64, 2 * deep), (tall, 32, 2 * deep)]
    plain = [dict(BM=bm, BN=bn, BK=bk) for bm, bn, bk in shapes]
    tuned = [dict(c, num_warps=w, num_stages=s) for c in plain for w in (4, 8) for s in ((3, 4, 6) if m <= 32 else (3, 4))
             if c["BM"] * c["BN"] * w >= (2 * 16 * 64 if m <= 32 else 4 * 64 * 64)]
    return plain + tuned


def few_rows(m, n, k, size, out_size):
    """The bytes of a product of so few rows that memory limits it, else 0."""
    return size * (m * k + n * k) + out_size * m * n if m <= 128 else 0


def product(m, n, k, type, layout="nt", kernel=None):
    kernel = kernel or {"nn": "matmul", "nt": "matmul_nt", "tn": "matmul_tn"}[layout]
    operand = "f32" if type == "tf32" else type
    result = {"i8": "i32", "f8e4m3": "bf16"}.get(type, operand)

    def make():
        a = normal(k, m, type=operand) if layout == "tn" else normal(m, k, type=operand)
        b = normal(n, k, type=operand) if layout == "nt" else normal(k, n, type=operand)
        out = poisoned(m, n, type=result)
        left, right = a.T if layout == "tn" else a, b.T if layout == "nt" else b
        if type == "i8":
            peers = {"cublas": lambda: torch._int_mm(left, right)}
        elif type == "f8e4m3":
            one = torch.ones((), device="cuda")
            peers = {"cublas": lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16)}
        else:
            def cublas():
                torch.backends.cuda.matmul.allow_tf32 = type == "tf32"
                return left @ right
            peers = {"cublas": cublas}
        if type in ("bf16", "f16") and layout != "tn":
            peers["triton"] = triton_peers.matmul(a, right)
            if layout == "nt" and k % 8 == 0 and n % 8 == 0:  # TMA takes strides of whole 16 bytes
                peers["triton tma"] = triton_peers.matmul_tma(a, right)
        if m == 1:  # what eager PyTorch calls for a vector
            peers["cublas gemv"] = lambda: torch.mv(right.T, a[0])
        return Inputs([a, b, out, m, n, k], out, peers, lambda: left.double() @ right.double())

    bound = max(BOUNDS[type], 3e-8 * math.sqrt(k) if type == "f32" else 0)
    sizes = DTYPES[operand].itemsize, DTYPES[result].itemsize
    how = ' ' + kernel if 'blocks' in kernel else ' tf32' if type == 'tf32' else ''
    return Row("gemm", f"{m}x{n}x{k} {layout}{how}", kernel, operand,
               split_configs(product_configs(m, n, k, type), m, n, k), make, 2.0 * m * n * k, "TFLOP/s", bound,
               moves=few_rows(m, n, k, *sizes))


def batched_product(batch, m, n, k, type="bf16"):
    def make():
        a, b, out = normal(batch, m, k, type=type), normal(batch, k, n, type=type), poisoned(batch, m, n, type=type)
        run = lambda: torch.bmm(a, b)
        return Inputs([a, b, out, batch, m, n, k], out, {"cublas": run, "inductor": triton_peers.compiled(run)},
                      lambda: a.double() @ b.double())

    # No more stages than there are blocks of the inner axis.
    deep = [dict(c, num_stages=max(2, min(c["num_stages"], k // c["BK"])))
            for c in product_configs(m, n, k, type) if c["BK"] <= k]
    configs = [dict(c) for c in dict.fromkeys(tuple(c.items()) for c in deep)]
    return Row("gemm", f"{batch} of {m}x{n}x{k} nn", "batched_matmul", type, configs, make, 2.0 * batch * m * n * k,
               "TFLOP/s", BOUNDS[type], moves=DTYPES[type].itemsize * batch * (m * k + k * n + m * n))


def scaled_product(m, n, k):
    """f8 with factors by blocks, partial sums promoted; beside cuBLAS' products with one factor, which promotes none, and
    with factors by blocks, where this PyTorch and cuBLAS have it."""
    def make():
        a, b, out = normal(m, k, type="f8e4m3"), normal(n, k, type="f8e4m3"), poisoned(m, n, type="bf16")
        rows, blocks = (torch.empty(*shape, device="cuda").uniform_(0.5, 1.5) for shape in ((k // 128, m), (n // 128, k // 128)))
        one = torch.ones((), device="cuda")

        def expected():
            wide = blocks.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
            return (a.double() * rows.double().T.repeat_interleave(128, 1)) @ (b.double() * wide).T

        return Inputs([a, b, rows, blocks, out, m, n, k], out,
                      {"cublas one factor": lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16),
                       "cublas by blocks": lambda: torch._scaled_mm(a, b.T, rows.T, blocks.T, out_dtype=torch.bfloat16)},
                      expected)

    ways = (dict(warp_specialise=2), dict(warp_specialise=2, cluster=2), dict(warp_specialise=1), dict())
    tiles = ((128, 128, 8), (64, 128, 4), (128, 128, 4), (128, 64, 4))
    configs = [dict(BM=bm, BN=bn, SPANS=spans, num_warps=w, num_stages=s, **way)
               for way in ways for bm, bn, w in tiles for spans in (2, 1) for s in (2, 3, 4, 6)
               if 128 * (bm + bn) * s * spans <= 216 * 1024]
    return Row("gemm", f"{m}x{n}x{k} f8 by blocks", "matmul_f8", "bf16", configs, make, 2.0 * m * n * k, "TFLOP/s", BOUNDS["bf16"])


def fused_product(m, n, k, type="bf16"):
    def make():
        a, b, bias, out = normal(m, k, type=type), normal(k, n, type=type), normal(n, type=type), poisoned(m, n, type=type)
        eager = lambda: F.gelu(torch.addmm(bias, a, b), approximate="tanh")
        peers = {"eager": eager, "inductor": triton_peers.compiled(eager),
                 "cublaslt": lambda: torch._addmm_activation(bias, a, b, use_gelu=True)}
        return Inputs([a, b, bias, out, m, n, k], out, peers,
                      lambda: F.gelu(a.double() @ b.double() + bias.double(), approximate="tanh"))

    return Row("gemm", f"{m}x{n}x{k} nn +bias +gelu", "matmul_bias_act", type, product_configs(m, n, k, type), make,
               2.0 * m * n * k, "TFLOP/s", BOUNDS[type])


def weights_of(n, k, type):
    """Quantised weights [n, k] and a factor for each row of them; i8 of all its range, small after the factors."""
    return normal(n, k, type=type), torch.empty(n, device="cuda").uniform_(0.005, 0.015)


def weight_product(m, n, k, weights):
    """bf16 times i8 or f8 weights with a factor a column, which become bf16 on their way into the product."""
    def make():
        a, out = normal(m, k, type="bf16"), poisoned(m, n, type="bf16")
        b, factors = weights_of(n, k, weights)
        wide, small = b.to(torch.bfloat16), factors.to(torch.bfloat16)
        eager = lambda: (a @ b.to(torch.bfloat16).T) * small
        peers = {"eager": eager, "inductor": triton_peers.compiled(eager), "cublas of bf16": lambda: a @ wide.T}
        if weights == "i8":
            peers["int8pack"] = lambda: torch._weight_int8pack_mm(a, b, small)
        return Inputs([a, b, factors, out, m, n, k], out, peers, lambda: (a.double() @ b.double().T) * factors.double())

    return Row("gemm", f"{m}x{n}x{k} nt weights of {weights}", "matmul_nt_weights", weights,
               split_configs(product_configs(m, n, k, "bf16"), m, n, k), make, 2.0 * m * n * k, "TFLOP/s", BOUNDS["bf16"],
               moves=2 * (m * k + m * n) + n * k if m <= 128 else 0)


def epilogue_cost(m, n, k, type="bf16"):
    """What bias and GELU cost our product."""
    def make():
        a, b, bias = normal(m, k, type=type), normal(k, n, type=type), normal(n, type=type)
        plain, fused = (poisoned(m, n, type=type) for _ in range(2))
        exact = lambda: a.double() @ b.double()
        return Inputs([a, b, plain, m, n, k], plain, {}, exact,
                      [Launch([a, b, bias, fused, m, n, k], fused,
                              lambda: F.gelu(exact() + bias.double(), approximate="tanh"))])

    configs = product_configs(m, n, k, type)
    return Row("cost", f"{m}x{n}x{k} nn of bias and gelu", "matmul", type, configs, make, 2.0 * m * n * k, "TFLOP/s",
               BOUNDS[type], [Stage("matmul_bias_act", type, configs, BOUNDS[type])], pair=("plain", "with bias and gelu"))


def prologue_cost(m, n, k, weights):
    """What the cast of weights costs our product."""
    def make():
        a = normal(m, k, type="bf16")
        b, factors = weights_of(n, k, weights)
        wide = b.to(torch.bfloat16)
        plain, fused = (poisoned(m, n, type="bf16") for _ in range(2))
        exact = lambda: a.double() @ b.double().T
        return Inputs([a, wide, plain, m, n, k], plain, {}, exact,
                      [Launch([a, b, factors, fused, m, n, k], fused, lambda: exact() * factors.double())])

    configs = product_configs(m, n, k, "bf16")
    # Small weights leave room for a slot more.
    configs += [dict(BM=256, BN=128, BK=64, num_warps=8, num_stages=5, warp_specialise=2, cluster=c) for c in (1, 2)]
    return Row("cost", f"{m}x{n}x{k} nt of weights of {weights}", "matmul_nt", "bf16", configs, make, 2.0 * m * n * k,
               "TFLOP/s", BOUNDS["bf16"], [Stage("matmul_nt_weights", weights, configs, BOUNDS["bf16"])],
               pair=("plain", f"weights of {weights}"))


def grouped_product(m, n, k, groups, type="bf16"):
    """Rows of uneven groups, as a router deals tokens to experts; beside PyTorch's own and a product for each group."""
    def make():
        a, b, out = normal(m, k, type=type), normal(groups, k, n, type=type), poisoned(m, n, type=type)
        cuts = sorted(random.Random(groups).sample(range(1, m), groups - 1))
        ends = [*cuts, m]
        sizes = [end - start for start, end in zip([0, *cuts], ends, strict=True)]
        counts, offsets = (torch.tensor(x, device="cuda", dtype=torch.int32) for x in (sizes, ends))

        def one_by_one():
            return torch.cat([part @ b[g] for g, part in enumerate(a.split(sizes))])

        return Inputs([a, b, counts, out, m, n, k, groups], out,
                      {"cublas by group": one_by_one, "grouped_mm": lambda: torch._grouped_mm(a, b, offs=offsets)},
                      lambda: torch.cat([part.double() @ b[g].double() for g, part in enumerate(a.split(sizes))]))

    configs = [dict(c, GROUPS=power_of_two(groups)) for c in product_configs(m, n, k, type)]
    return Row("gemm", f"{groups} groups, {m}x{n}x{k}", "grouped_matmul", type, configs, make, 2.0 * m * n * k, "TFLOP/s",
               BOUNDS[type])
