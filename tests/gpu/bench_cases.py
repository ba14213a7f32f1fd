"""The rows of bench.py: what is computed, by which kernel and configs, beside which peers, and how it is checked.

A row's `make` gives, for each call, fresh random inputs as (arguments of the kernel, output, peers by name); the first
peer that runs is the reference unless `expected` says otherwise.
"""
import dataclasses
import itertools
import math
import random
import typing

import torch
import torch.nn.functional as F

import bench_peers as triton_peers

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8, "i32": torch.int32,
          "f8e4m3": torch.float8_e4m3fn}
# ‖out - reference‖ / ‖reference‖ that a result of this type may have against float64.
BOUNDS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3, "i8": 0, "i32": 0, "f8e4m3": 1e-2, "tf32": 1e-3}


@dataclasses.dataclass
class Row:
    area: str
    name: str
    kernel: str
    type: str
    configs: list  # the best of them counts
    make: typing.Callable  # () -> Inputs
    work: float
    unit: str = "TB/s"  # or "TFLOP/s"
    bound: float = 0
    flush: bool = True  # the L2 cache before each launch


@dataclasses.dataclass
class Inputs:
    arguments: list
    out: torch.Tensor
    peers: dict
    expected: typing.Callable  # () -> tensor, in higher precision where that fits


def normal(*shape, type="f32"):
    if type == "i8":
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    return torch.randn(*shape, device="cuda").to(DTYPES[type])


def poisoned(*shape, type="f32"):
    dtype = DTYPES[type]
    value = -77 if dtype in (torch.int8, torch.int32) else math.nan
    return torch.full(shape, value, device="cuda", dtype=dtype)


def power_of_two(n):
    return 1 << (n - 1).bit_length()


def grid_of(**axes):
    """All combinations, as configs."""
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def with_warps(configs, *warps):
    """Also with so many warps, where a kernel's configs know them."""
    return configs + [dict(config, num_warps=w) for config in configs for w in warps]


def row_configs(block, **more):
    """A whole row in one program, by 2 to 64 elements a thread; the first leaves the number of warps to the compiler."""
    configs = [dict(BLOCK=block, **more)]
    return configs + [dict(configs[0], num_warps=w) for w in (1, 2, 4, 8, 16, 32) if 2 <= block / (32 * w) <= 64]


def narrow_configs(block):
    """Several whole rows in one program."""
    return with_warps(grid_of(ROWS=[2, 4, 8, 16], BLOCK=[block]), 1, 2, 4)


# ------------------------------------------------------------------------------------------------ products
def product_configs(m, n, k, type):
    if m <= 16 or type == "f32":
        return small_product_configs(m, type)
    # Lines of 128 bytes, of small results also of 256; as many slots as shared memory has, or four; 32 to 128 sums a
    # thread. Also by blocks that stay, and by clusters of these.
    deep = {"tf32": 32, "i8": 128, "f8e4m3": 128}.get(type, 64)
    tiles = [(128, 256), (256, 128), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64)]
    out = []
    for (bm, bn), warps, lines in itertools.product(tiles, (4, 8), (1, 2)):
        most = min(8, 216 * 1024 // (128 * lines * (bm + bn)))
        if bm * bn > 128 * 32 * warps or bm * bn < 32 * 32 * warps:
            continue
        if lines == 2 and (m * n > 1024 * 1024 or bm * bn > 128 * 64 or warps == 8):
            continue
        for stages in sorted({min(4, most), most}, reverse=True):
            config = dict(BM=bm, BN=bn, BK=lines * deep, num_warps=warps, num_stages=stages)
            out += [dict(config, warp_specialise=1), config, dict(config, warp_specialise=2)]
            if n % 64 or k % 64:  # lines of boxes are not lines of memory
                out.append(dict(config, warp_specialise=2, cluster=2))
    return out


def split_configs(configs, m, n, k):
    """Also by parts of the inner axis, where there are fewer tiles than multiprocessors (132)."""
    out = list(configs)
    for config, parts in itertools.product(configs, (2, 3, 4, 6, 8, 12, 16)):
        tiles = -(-m // config["BM"]) * -(-n // config["BN"])
        if tiles < 132 and 64 <= tiles * parts <= 2 * 132 and k // config["BK"] >= 4 * parts:
            if config.get("warp_specialise") != 2:  # blocks that stay have one launch
                out.append(dict(config, split_k=parts))
    return out


def small_product_configs(m, type):
    deep = 32 if type == "f32" else 64
    shapes = [(128, 64, 32), (64, 128, 32), (128, 128, 32), (128, 64, 16), (64, 64, 32)]
    if m <= 16:
        shapes = [(16, 64, deep), (16, 128, deep), (16, 64, 2 * deep)]
    plain = [dict(BM=bm, BN=bn, BK=bk) for bm, bn, bk in shapes]
    tuned = [dict(c, num_warps=w, num_stages=s) for c in plain for w in (4, 8) for s in (3, 4)
             if c["BM"] * c["BN"] * w >= 4 * 64 * 64]
    return plain + tuned


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
        return Inputs([a, b, out, m, n, k], out, peers, lambda: left.double() @ right.double())

    bound = max(BOUNDS[type], 3e-8 * math.sqrt(k) if type == "f32" else 0)
    return Row("gemm", f"{m}x{n}x{k} {layout}{' ' + kernel if 'blocks' in kernel else ''}", kernel, operand,
               split_configs(product_configs(m, n, k, type), m, n, k), make, 2.0 * m * n * k, "TFLOP/s", bound)


def scaled_product(m, n, k):
    """f8 with factors by blocks, partial sums promoted; beside cuBLAS' product with one factor, which promotes none."""
    def make():
        a, b, out = normal(m, k, type="f8e4m3"), normal(n, k, type="f8e4m3"), poisoned(m, n, type="bf16")
        rows, blocks = (torch.empty(*shape, device="cuda").uniform_(0.5, 1.5) for shape in ((k // 128, m), (n // 128, k // 128)))
        one = torch.ones((), device="cuda")

        def expected():
            wide = blocks.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
            return (a.double() * rows.double().T.repeat_interleave(128, 1)) @ (b.double() * wide).T

        return Inputs([a, b, rows, blocks, out, m, n, k], out,
                      {"cublas, one factor": lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16)}, expected)

    configs = [dict(BM=bm, BN=bn, num_warps=w, num_stages=s, warp_specialise=alone)
               for bm, bn, w in ((128, 128, 8), (64, 128, 4), (128, 128, 4), (128, 64, 4)) for s in (3, 4, 6) for alone in (0, 1)
               if 128 * (bm + bn) * s <= 216 * 1024]
    return Row("gemm", f"{m}x{n}x{k} f8 by blocks", "matmul_f8", "bf16", configs, make, 2.0 * m * n * k, "TFLOP/s", BOUNDS["bf16"])


def fused_product(m, n, k, type="bf16"):
    def make():
        a, b, bias, out = normal(m, k, type=type), normal(k, n, type=type), normal(n, type=type), poisoned(m, n, type=type)
        eager = lambda: F.gelu(torch.addmm(bias, a, b), approximate="tanh")
        return Inputs([a, b, bias, out, m, n, k], out, {"eager": eager, "inductor": triton_peers.compiled(eager)},
                      lambda: F.gelu(a.double() @ b.double() + bias.double(), approximate="tanh"))

    return Row("gemm", f"{m}x{n}x{k} nn +bias +gelu", "matmul_bias_act", type, product_configs(m, n, k, type), make,
               2.0 * m * n * k, "TFLOP/s", BOUNDS[type])


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


# ------------------------------------------------------------------------------------------------ attention
def attention(batch, heads, seq, width, causal, type="bf16"):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def make():
        q, k, v = (normal(batch, heads, seq, width, type=type) for _ in range(3))
        out = poisoned(batch, heads, seq, width, type=type)
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)

        def by(backend):
            def run():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return run

        def expected():  # of the first head alone, where all of them would not fit
            few = [t[:1, :1].double() for t in (q, k, v)]
            with sdpa_kernel(SDPBackend.MATH):
                return F.scaled_dot_product_attention(*few, is_causal=causal)

        return Inputs([q, k, v, out, lengths, batch, heads, heads, seq, 1 / math.sqrt(width)], out,
                      {"cudnn": by(SDPBackend.CUDNN_ATTENTION), "flash2": by(SDPBackend.FLASH_ATTENTION),
                       "triton": triton_peers.attention(q, k, v, causal)}, expected)

    configs = [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn) for bm, bn in [(64, 64), (128, 64), (128, 128), (64, 128)]]
    configs = [dict(c, num_warps=w, num_stages=s) for c in configs for w in (4, 8) for s in (2, 3)]
    configs += [dict(D=width, CAUSAL=int(causal), BM=16 * w, BN=128, num_warps=w, num_stages=stages, warp_specialise=s)
                for w, stages in [(8, 2), (8, 3), (4, 2)] for s in (1, 2)]
    return Row("attention", f"b{batch} h{heads} s{seq} d{width} {'causal' if causal else 'full'}", "attention", type, configs,
               make, 4.0 * batch * heads * seq * seq * width * (0.5 if causal else 1), "TFLOP/s", 2e-2)


def attention_f8(batch, heads, seq, width, causal):
    """Of e4m3 into bf16, beside attention of the same numbers in bf16: PyTorch has none of f8."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def make():
        q, k, v = (normal(batch, heads, seq, width, type="f8e4m3") for _ in range(3))
        values = v.transpose(-1, -2).contiguous()
        scales = [torch.empty(batch, heads, device="cuda").uniform_(0.5, 1.5) for _ in range(3)]
        out = poisoned(batch, heads, seq, width, type="bf16")
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        wide = [t.to(torch.bfloat16) for t in (q, k, v)]

        def by(backend):
            def run():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(*wide, is_causal=causal)
            return run

        def expected():  # of the first head alone
            few = [t[:1, :1].double() * s[:1, :1, None, None].double() for t, s in zip((q, k, v), scales)]
            with sdpa_kernel(SDPBackend.MATH):
                return F.scaled_dot_product_attention(*few, is_causal=causal)

        return Inputs([q, k, values, *scales, out, lengths, batch, heads, heads, seq, 1 / math.sqrt(width)], out,
                      {"cudnn bf16": by(SDPBackend.CUDNN_ATTENTION), "flash2 bf16": by(SDPBackend.FLASH_ATTENTION)}, expected)

    tiles = [(64, 64, 4, 0), (64, 128, 4, 0), (128, 64, 8, 0), (128, 128, 8, 0), (128, 64, 8, 1), (128, 128, 8, 1)]
    tiles += [(128, 256, 8, 1)] if width == 64 else []
    configs = [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn, num_warps=w, num_stages=s, warp_specialise=alone)
               for bm, bn, w, alone in tiles for s in (2, 3)]
    return Row("attention", f"f8 b{batch} h{heads} s{seq} d{width} {'causal' if causal else 'full'}", "attention_f8", "bf16",
               configs, make, 4.0 * batch * heads * seq * seq * width * (0.5 if causal else 1), "TFLOP/s", 4e-2)


def attention_backward(kernel, batch, heads, seq, width, causal, type="bf16"):
    """One of the two kernels of the gradient beside all of the peer's backward pass, whose work each row's rate is of:
    the times of both rows and of attention_delta add up."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def make():
        q, k, v, dout = (normal(batch, heads, seq, width, type=type) for _ in range(4))
        for tensor in (q, k, v):
            tensor.requires_grad_()
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            lse = torch.ops.aten._scaled_dot_product_flash_attention(q.detach(), k.detach(), v.detach(), 0.0, causal)[1]
        delta = (out.detach().float() * dout.float()).sum(-1)

        def exact():  # of the first head alone
            few = [t[:1, :1].detach().double().requires_grad_() for t in (q, k, v)]
            with sdpa_kernel(SDPBackend.MATH):
                whole = F.scaled_dot_product_attention(*few, is_causal=causal)
            grads = torch.autograd.grad(whole, few, dout[:1, :1].double())
            return grads[1 if kernel == "attention_backward_keys" else 0]

        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        by_cudnn = cudnn()
        results = [poisoned(batch, heads, seq, width, type=type) for _ in range(2 if kernel == "attention_backward_keys" else 1)]
        arrays = [q.detach(), k.detach(), v.detach(), dout, lse.float(), delta, *results, lengths]
        return Inputs(arrays + [batch, heads, heads, seq, 1 / math.sqrt(width)], results[0],
                      {"flash2": lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True),
                       "cudnn": lambda: torch.autograd.grad(by_cudnn, (q, k, v), dout, retain_graph=True)}, exact)

    tiles = [(64, 64, 4), (32, 64, 4), (64, 64, 8), (32, 128, 8), (64, 128, 8), (128, 64, 8), (128, 128, 8), (64, 128, 4)]
    configs = [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn, num_warps=w, num_stages=s) for bm, bn, w in tiles for s in (1, 2, 3)]
    configs += [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn, num_warps=w, num_stages=s, warp_specialise=mode)
                for bm, bn, w in [(64, 64, 4), (64, 128, 8), (128, 64, 8), (128, 128, 8), (32, 128, 8)] for s in (2, 3) for mode in (1, 2)]
    return Row("attention", f"b{batch} h{heads} s{seq} d{width} {'causal' if causal else 'full'} {kernel}", kernel, type, configs,
               make, 10.0 * batch * heads * seq * seq * width * (0.5 if causal else 1), "TFLOP/s", 2e-2)


def windowed_attention(batch, heads, seq, width, window, type="bf16"):
    row = attention(batch, heads, seq, width, True, type)

    def make():
        inputs = row.make()
        q, k, v = inputs.arguments[:3]
        near = torch.ones(seq, seq, device="cuda", dtype=torch.bool).tril().triu(1 - window)

        def expected():
            return F.scaled_dot_product_attention(*(t[:1, :1].double() for t in (q, k, v)), attn_mask=near)

        peers = {"sdpa": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=near)}
        return dataclasses.replace(inputs, peers=peers, expected=expected)

    return dataclasses.replace(row, name=f"{row.name} window {window}", make=make,
                               configs=[dict(c, WINDOW=window) for c in row.configs],
                               work=4.0 * batch * heads * seq * window * width)


def attention_decode(batch, heads, kv_heads, seq, width, page, splits, type="bf16"):
    """All sequences are `seq` long, and a split is a whole number of blocks. attention_combine is not in it."""
    def make():
        q = normal(batch, 1, heads, width, type=type)
        k, v = (normal(batch * seq // page, page, kv_heads, width, type=type) for _ in range(2))
        table = torch.randperm(batch * seq // page, device="cuda").to(torch.int32).view(batch, -1)
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        partial, lse = poisoned(batch, heads, splits, width), poisoned(batch, heads, splits)
        gathered = [t[table.long()].view(batch, seq, kv_heads, width).transpose(1, 2).contiguous() for t in (k, v)]
        queries = q.transpose(1, 2).contiguous()
        copy = torch.empty_like(k)

        def expected():
            parts = [t.view(batch, kv_heads, 1, splits, seq // splits, width) for t in gathered]
            grouped = queries.view(batch, kv_heads, heads // kv_heads, 1, 1, width).double()
            scores = grouped @ parts[0].double().transpose(-1, -2) / math.sqrt(width)
            return (scores.softmax(-1) @ parts[1].double()).view(batch, heads, splits, width)

        # The copy reads the keys and writes as much: the bytes of keys and values.
        return Inputs([q, k, v, table, lengths, partial, lse, batch, 1, heads, kv_heads, seq // page, splits,
                       1 / math.sqrt(width)], partial,
                      {"sdpa": lambda: F.scaled_dot_product_attention(queries, *gathered, enable_gqa=True),
                       "copy": lambda: copy.copy_(k)}, expected)

    configs = grid_of(D=[width], PAGE=[page], ROWS=[16], BN=[16, 32, 64], num_warps=[1, 2, 4], num_stages=[2, 3, 4])
    return Row("attention", f"decode b{batch} h{heads}/{kv_heads} s{seq} d{width} page {page} splits {splits}", "attention_decode",
               type, configs, make, 4.0 * batch * kv_heads * seq * width, bound=2e-2)


# ------------------------------------------------------------------------------------------------ memory-bound
def rows(kernel, r, c, type, arguments, eager, exact, traffic=2, triton=None, out=None, configs=None, bound=None):
    """A kernel of [r, c] arrays; `arguments(x, y)` are its own, `eager(x)` is PyTorch's, `exact(x)` for f64."""
    def make():
        x = normal(r, c, type=type)
        y = out() if out else poisoned(r, c, type=type)
        run = lambda: eager(x)
        peers = {"eager": run, "inductor": triton_peers.compiled(run)}
        if triton:
            peers["triton"] = triton(x)
        return Inputs(arguments(x, y), y, peers, lambda: exact(x))

    is_narrow = kernel.endswith("_narrow")
    configs = configs or (narrow_configs if is_narrow else row_configs)(power_of_two(c))
    size = DTYPES[type].itemsize
    return Row("rows", f"{kernel} {r}x{c}", kernel, type, configs, make, traffic * size * r * c, "TB/s",
               BOUNDS[type] if bound is None else bound)


def narrow(kernel, c):
    """Several rows at once where one keeps a warp busy for less time than it waits."""
    return kernel + "_narrow" if c <= 512 else kernel


def softmax(r, c, type="bf16"):
    # Longer rows do not fit into a block's registers.
    is_long = c > 32768
    configs = with_warps(grid_of(BLOCK=[4096, 8192, 16384]), 8, 16, 32) if is_long else None
    name = "softmax_long" if is_long else narrow("softmax", c)
    return rows(name, r, c, type, lambda x, y: [x, y, r, c, c], lambda x: F.softmax(x, -1),
                lambda x: F.softmax(x.double(), -1), triton=triton_peers.softmax, configs=configs)


def layer_norm(r, c, type="bf16"):
    w, b = normal(c, type=type), normal(c, type=type)
    return rows(narrow("layer_norm", c), r, c, type, lambda x, y: [x, w, b, y, r, c, c, 1e-5],
                lambda x: F.layer_norm(x, (c,), w, b, 1e-5),
                lambda x: F.layer_norm(x.double(), (c,), w.double(), b.double(), 1e-5),
                triton=lambda x: triton_peers.layer_norm(x, w, b))


def rms_norm(r, c, type="bf16"):
    w = normal(c, type=type)
    return rows(narrow("rms_norm", c), r, c, type, lambda x, y: [x, w, y, r, c, c, 1e-5], lambda x: F.rms_norm(x, (c,), w, 1e-5),
                lambda x: F.rms_norm(x.double(), (c,), w.double(), 1e-5))


def bias_gelu(r, c, type="bf16"):
    b = normal(c, type=type)
    return rows("bias_gelu", r, c, type, lambda x, y: [x, b, y, r, c], lambda x: F.gelu(x + b, approximate="tanh"),
                lambda x: F.gelu(x.double() + b.double(), approximate="tanh"),
                configs=with_warps(grid_of(BR=[1, 4], BC=[1024, 2048]), 4, 8))


def cross_entropy(r, c, type="bf16"):
    target = torch.randint(0, c, (r,), device="cuda", dtype=torch.int32)
    lse = poisoned(r)
    return rows("cross_entropy", r, c, type, lambda x, y: [x, target, y, lse, r, c],
                lambda x: F.cross_entropy(x.float(), target.long(), reduction="none"),
                lambda x: F.cross_entropy(x.float(), target.long(), reduction="none").double(), traffic=1,
                out=lambda: poisoned(r), configs=with_warps(grid_of(BLOCK=[2048, 4096, 8192]), 8, 16), bound=1e-5)


def dropout_row(n, type="f32"):
    def make():
        x, y = normal(n), poisoned(n)
        run = lambda: F.dropout(x, 0.3, True)
        # Other random numbers than PyTorch's: what is kept must be scaled, and the share of it right.
        def expected():
            share = (y == 0).double().mean().item()
            assert abs(share - 0.3) < 1e-3, f"dropped a share of {share}"
            return torch.where(y == 0, torch.zeros_like(x), x / 0.7).double()
        return Inputs([x, y, n, 0.3, 42, 1000], y, {"eager": run, "inductor": triton_peers.compiled(run)}, expected)

    return Row("elements", f"dropout {n}", "dropout", type, with_warps(grid_of(BLOCK=[512, 1024, 2048]), 4, 8), make, 8 * n,
               bound=1e-6)


def elements(kernel, n, type, inputs, eager, traffic, exact=None, triton=None):
    def make():
        x = [normal(n, type=type) for _ in range(inputs)]
        out = poisoned(n, type=type)
        run = lambda: eager(*x, out)
        peers = {"eager": run, "inductor": triton_peers.compiled(lambda: eager(*x, None))}
        if triton:
            peers["triton"] = triton(*x)
        wide = exact or (lambda *v: eager(*v, None))
        # A part of it: in float64 the whole would not fit beside the rest.
        return Inputs([*x, out, n], out, peers, lambda: wide(*(v[:1 << 22].double() for v in x)))

    return Row("elements", f"{kernel} {n}", kernel, type, with_warps(grid_of(BLOCK=[1024, 2048, 4096]), 4, 8), make,
               traffic * n * DTYPES[type].itemsize, bound=BOUNDS[type])


def transpose(r, c, type="f32"):
    return rows("transpose", r, c, type, lambda x, y: [x, y, r, c], lambda x: x.T.contiguous(), lambda x: x.T,
                out=lambda: poisoned(c, r, type=type), bound=0,
                configs=with_warps(grid_of(BR=[32, 64, 128], BC=[32, 64]), 4, 8))


def row_sum(r, c, type="f32"):
    return rows("row_sum", r, c, type, lambda x, y: [x, y, r, c, c], lambda x: x.sum(-1), lambda x: x.double().sum(-1),
                traffic=1, out=lambda: poisoned(r, type=type), configs=with_warps(grid_of(BLOCK=[1024, 2048, 4096]), 4, 8))


def column_sum(r, c, type="f32"):
    return rows("column_sum", r, c, type, lambda x, y: [x, y, r, c], lambda x: x.sum(0), lambda x: x.double().sum(0),
                traffic=1, out=lambda: poisoned(c, type=type), bound=1e-4,
                configs=[dict(ROWS=rows_at_once, BLOCK=block, num_warps=warps)
                         for rows_at_once, block, warps in [(256, 32, 16), (512, 32, 16), (256, 32, 32), (512, 32, 32),
                                                            (256, 64, 16), (512, 64, 32), (128, 32, 8)]])


def cumsum(kernel, axis, r, c):
    down = [dict(ROWS=rows_at_once, BLOCK=block, num_warps=warps)
            for rows_at_once, block, warps in [(128, 32, 8), (256, 32, 16), (64, 32, 4), (64, 32, 8), (64, 64, 8),
                                               (128, 64, 16)]]
    return rows(kernel, r, c, "f32", lambda x, y: [x, y, r, c], lambda x: x.cumsum(axis), lambda x: x.double().cumsum(axis),
                configs=with_warps(grid_of(BLOCK=[256, 1024, 2048]), 4, 8) if axis else down, bound=1e-4)


def sum_tile(r, c):
    return rows("sum_tile", r, c, "f32", lambda x, y: [x, y, r, c], lambda x: x.sum(-1), lambda x: x.double().sum(-1),
                traffic=1, out=lambda: poisoned(r), bound=1e-3)


def cumsum_tile(r, c):
    return rows("cumsum_tile", r, c, "f32", lambda x, y: [x, y, r, c], lambda x: x.cumsum(-1), lambda x: x.double().cumsum(-1),
                bound=1e-4)


def argmax(r, c):
    return rows("argmax", r, c, "f32", lambda x, y: [x, y, r, c, c], lambda x: x.argmax(-1), lambda x: x.argmax(-1),
                traffic=1, out=lambda: poisoned(r, type="i32"), bound=0)


def sort_rows(r, c):
    return rows("sort_rows", r, c, "f32", lambda x, y: [x, y, r, c], lambda x: x.sort(-1).values,
                lambda x: x.sort(-1).values, bound=0)


def topk(r, c, k):
    index = poisoned(r, k, type="i32")
    return rows("topk", r, c, "f32", lambda x, y: [x, y, index, r, c], lambda x: x.topk(k).values, lambda x: x.topk(k).values,
                traffic=1, out=lambda: poisoned(r, k), bound=0,
                configs=row_configs(power_of_two(c), K=k))


def sampler(batch, n, c=64, k=64):
    """K of each of two classes, one element in ten of the second, without replacement: count, draw, select, gather."""
    def make():
        labels = (torch.rand(n, device="cuda") < 0.1).to(torch.int32)
        x, index = normal(n, c), poisoned(batch, 2, k, type="i32")
        out, counts = poisoned(batch, 2, k, c), poisoned(batch, 2, type="i32")
        classes = torch.stack((labels == 0, labels == 1))

        def run():
            chosen = torch.topk(torch.where(classes, torch.rand(batch, 2, n, device="cuda"), -1.0), k).indices
            return x[chosen], classes.sum(-1)

        # Other random numbers than PyTorch's: of its class, without repetition, and the rows that belong to it.
        def expected():
            chosen = index.long()
            assert (counts == classes.sum(-1)).all(), "the classes are not counted right"
            assert (labels[chosen] == torch.arange(2, device="cuda")[:, None]).all(), "an element of the other class"
            assert (chosen.sort(-1).values.diff(dim=-1) > 0).all(), "an element twice"
            return x[chosen]

        return Inputs([labels, x, index, out, counts, batch, n, c, 7], out,
                      {"eager": run, "inductor": triton_peers.compiled(run)}, expected)

    return Row("rows", f"class_balanced_sampler {batch} of {n}", "class_balanced_sampler", "f32",
               with_warps(grid_of(BLOCK=[1024, 2048, 4096], K=[k], BC=[c]), 4, 8), make, 8.0 * batch * 2 * k * c, bound=0)


def embedding(tokens, vocabulary, c, type="bf16"):
    def make():
        table, out = normal(vocabulary, c, type=type), poisoned(tokens, c, type=type)
        ids = torch.randint(0, vocabulary, (tokens,), device="cuda", dtype=torch.int32)
        run = lambda: F.embedding(ids, table)
        return Inputs([table, ids, out, tokens, c], out, {"eager": run, "inductor": triton_peers.compiled(run)}, run)

    return Row("rows", f"embedding {tokens} of {vocabulary}x{c}", "embedding", type,
               with_warps(grid_of(BLOCK=[1024, 2048, 4096]), 4, 8), make, 4.0 * tokens * c)


def sum_all(n):
    def make():
        x, out = normal(n), torch.zeros(1, device="cuda")
        return Inputs([x, out, n], out, {"eager": lambda: x.sum()}, lambda: x.double().sum()[None])

    # The kernel adds to what is there, so only its first launch is checked.
    return Row("elements", f"sum {n}", "sum_all", "f32", with_warps(grid_of(BLOCK=[2048, 4096], STEPS=[8, 16]), 4, 8), make,
               4 * n, bound=1e-3)


BIG = 1 << 28


def table():
    """Functions that make a row each: a row may hold small tensors."""
    out = []
    add = lambda function, *arguments, **named: out.append(lambda: function(*arguments, **named))
    for n in (512, 1024, 2048, 4096, 8192):
        for layout in ("nt", "nn"):
            add(product, n, n, n, "bf16", layout)
        add(product, n, n, n, "bf16", "nt", "matmul_nt_blocks")
    add(product, 4096, 4096, 4096, "bf16", "nn", "matmul_blocks")
    add(product, 4096, 4096, 4096, "bf16", "tn")
    add(product, 4096, 14336, 4096, "bf16")
    add(product, 16, 8192, 8192, "bf16")
    for layout in ("nt", "nn"):
        add(product, 512, 512, 16384, "bf16", layout)
    add(product, 1000, 1000, 1000, "bf16", "nn")
    add(product, 1001, 777, 333, "bf16", "nn")
    add(fused_product, 4096, 4096, 4096)
    add(grouped_product, 8192, 14336, 4096, 8)
    add(grouped_product, 8192, 1408, 2048, 64)
    add(product, 4096, 4096, 4096, "f16")
    for kernel in ("matmul_nt", "matmul_nt_blocks"):
        add(product, 4096, 4096, 4096, "f8e4m3", "nt", kernel)
        add(product, 4096, 4096, 4096, "i8", "nt", kernel)
    add(scaled_product, 4096, 4096, 4096)
    add(product, 4096, 4096, 4096, "tf32", "nn", "matmul_tf32")
    add(product, 4096, 4096, 4096, "f32", "nn")
    for batch, seq, width in ((4, 2048, 64), (4, 4096, 128), (1, 16384, 128)):
        for causal in (False, True):
            add(attention, batch, 32, seq, width, causal)
            add(attention_f8, batch, 32, seq, width, causal)
    for seq, width in ((2048, 64), (4096, 128)):
        for causal in (False, True):
            for kernel in ("attention_backward_keys", "attention_backward_queries"):
                add(attention_backward, kernel, 4, 32, seq, width, causal)
    add(windowed_attention, 1, 32, 16384, 128, 1024)
    for batch, seq, splits in ((64, 4096, 1), (16, 8192, 8), (1, 32768, 64)):
        for page in (16, 64):
            add(attention_decode, batch, 32, 8, seq, 128, page, splits)
    for r, c in ((65536, 256), (16384, 1024), (16384, 4096), (16384, 16384)):
        add(softmax, r, c)
        add(layer_norm, r, c)
        add(rms_norm, r, c)
    add(softmax, 4096, 131072)
    add(softmax, 16384, 1000, "f32")
    add(bias_gelu, 16384, 4096)
    add(cross_entropy, 4096, 128256)
    add(elements, "vector_add", BIG, "f32", 2, lambda x, y, out: torch.add(x, y, out=out), 3, triton=triton_peers.add)
    add(elements, "gelu", BIG, "f32", 1, lambda x, out: F.gelu(x), 2)
    add(dropout_row, BIG)
    add(sum_all, BIG)
    add(transpose, 8192, 8192)
    add(transpose, 8191, 8193)
    add(row_sum, 8192, 8192)
    add(column_sum, 8192, 8192)
    add(cumsum, "cumsum_rows", 1, 8192, 8192)
    add(cumsum, "cumsum_columns", 0, 8192, 8192)
    add(argmax, 8192, 8192)
    add(topk, 8192, 8192, 64)
    add(sort_rows, 8192, 8192)
    # Few long rows: plans of several launches.
    add(sum_tile, 4, 1 << 22)
    add(cumsum_tile, 4, 1 << 22)
    add(argmax, 8, 1 << 20)
    add(topk, 8, 1 << 20, 64)
    add(sort_rows, 8, 1 << 20)
    add(embedding, 32768, 128256, 4096)
    add(sampler, 1, 10000)
    add(sampler, 32, 10000)
    return out
