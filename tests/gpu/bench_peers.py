"""The peers that are no call of PyTorch's: hand-written Triton, and PyTorch's compiler. Each function takes the inputs
and gives a function of no arguments; a peer that does not run here is left out of its row, with the reason."""
import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


def compiled(run):
    """`run` by Inductor; the first call compiles."""
    functions = []

    def call():
        if not functions:
            torch._dynamo.reset()
            functions.append(torch.compile(run, dynamic=False))
        return functions[0]()

    return call


def absent(*_):
    def run():
        raise RuntimeError("Triton is not installed")
    return run


if triton is None:
    add = softmax = layer_norm = matmul = matmul_tma = attention = absent
else:
    @triton.jit
    def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
        lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = lane < n
        tl.store(out + lane, tl.load(x + lane, inside) + tl.load(y + lane, inside), inside)

    @triton.jit
    def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
        start = tl.program_id(0).to(tl.int64) * cols
        lane = tl.arange(0, BLOCK)
        v = tl.load(x + start + lane, lane < cols, other=float("-inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + start + lane, (e / tl.sum(e, 0)).to(out.dtype.element_ty), lane < cols)

    @triton.jit
    def layer_norm_kernel(x, w, b, out, cols, eps, BLOCK: tl.constexpr):
        start = tl.program_id(0).to(tl.int64) * cols
        lane = tl.arange(0, BLOCK)
        inside = lane < cols
        v = tl.load(x + start + lane, inside, other=0.0).to(tl.float32)
        distance = tl.where(inside, v - tl.sum(v, 0) / cols, 0.0)
        scale = tl.rsqrt(tl.sum(distance * distance, 0) / cols + eps)
        y = distance * scale * tl.load(w + lane, inside, other=0.0) + tl.load(b + lane, inside, other=0.0)
        tl.store(out + start + lane, y.to(out.dtype.element_ty), inside)

    CONFIGS = [triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=warps, num_stages=stages)
               for m, n, k, warps, stages in [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4),
                                              (128, 64, 64, 4, 4), (64, 64, 64, 4, 5), (16, 128, 128, 4, 5)]]

    @triton.autotune(CONFIGS, key=["M", "N", "K", "bk"])
    @triton.jit
    def matmul_kernel(a, b, c, M, N, K, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        # Eight rows of blocks at a time: neighbours share columns of B in the cache.
        tall, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
        band = tl.program_id(0) // (8 * wide)
        height = min(tall - 8 * band, 8)
        m = (8 * band + tl.program_id(0) % (8 * wide) % height) * BM + tl.arange(0, BM)
        n = (tl.program_id(0) % (8 * wide) // height) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            left = tl.load(a + (m % M)[:, None] * K + (start + k)[None, :], mask=(start + k)[None, :] < K, other=0.0)
            right = tl.load(b + (start + k)[:, None] * bk + (n % N)[None, :] * bn, mask=(start + k)[:, None] < K, other=0.0)
            acc = tl.dot(left, right, acc)
        tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))

    # b is n×k. Each program computes tile after tile; TMA brings the operands and takes the result.
    TMA_CONFIGS = [triton.Config({"BM": m, "BN": n, "BK": 64}, num_warps=warps, num_stages=stages)
                   for m, n, warps in [(128, 256, 8), (128, 128, 8), (128, 128, 4), (64, 128, 4)] for stages in (3, 4)]

    @triton.autotune(TMA_CONFIGS, key=["M", "N", "K"])
    @triton.jit
    def matmul_tma_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr):
        left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
        out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
        tall, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
        for tile in tl.range(tl.program_id(0), tall * wide, PROGRAMS, flatten=True):
            band = tile // (8 * wide)
            height = min(tall - 8 * band, 8)
            row = (8 * band + tile % (8 * wide) % height) * BM
            column = (tile % (8 * wide) // height) * BN
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                acc = tl.dot(left.load([row, k]), right.load([column, k]).T, acc)
            out.store([row, column], acc.to(c.dtype.element_ty))

    # Blocks of keys from `start` to `end`; those on the diagonal are masked.
    @triton.jit
    def attend(query, top, total, acc, k, v, base, start, end, row, factor, seq, D: tl.constexpr, BN: tl.constexpr,
               DIAGONAL: tl.constexpr):
        k = tl.make_tensor_descriptor(k + base, [seq, D], [D, 1], [BN, D])
        v = tl.make_tensor_descriptor(v + base, [seq, D], [D, 1], [BN, D])
        for at in range(start, end, BN):
            scores = tl.dot(query, k.load([at, 0]).T) * factor
            if DIAGONAL:
                scores = tl.where(row[:, None] >= at + tl.arange(0, BN)[None, :], scores, float("-inf"))
            highest = tl.maximum(top, tl.max(scores, 1))
            weights = tl.exp2(scores - highest[:, None])
            shrink = tl.exp2(top - highest)
            total = total * shrink + tl.sum(weights, 1)
            acc = tl.dot(weights.to(query.dtype), v.load([at, 0]), acc * shrink[:, None])
            top = highest
        return top, total, acc

    ATTENTION_CONFIGS = [triton.Config({"BM": m, "BN": n}, num_warps=warps, num_stages=stages)
                         for m, n, warps in [(128, 128, 8), (128, 64, 8), (64, 128, 4), (64, 64, 4), (128, 64, 4)]
                         for stages in (2, 3)]

    # Of lengths that are multiples of all blocks.
    @triton.autotune(ATTENTION_CONFIGS, key=["seq", "D", "CAUSAL"])
    @triton.jit
    def attention_kernel(q, k, v, out, seq, scale, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
        first = tl.program_id(0) * BM
        base = tl.program_id(1).to(tl.int64) * seq * D
        row = first + tl.arange(0, BM)
        query = tl.make_tensor_descriptor(q + base, [seq, D], [D, 1], [BM, D]).load([first, 0])
        top, total = tl.full((BM,), float("-inf"), tl.float32), tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        factor = scale * 1.44269504
        whole = first // BN * BN if CAUSAL else seq
        top, total, acc = attend(query, top, total, acc, k, v, base, 0, whole, row, factor, seq, D, BN, False)
        if CAUSAL:
            top, total, acc = attend(query, top, total, acc, k, v, base, whole, first + BM, row, factor, seq, D, BN, True)
        result = (acc / total[:, None]).to(out.dtype.element_ty)
        tl.make_tensor_descriptor(out + base, [seq, D], [D, 1], [BM, D]).store([first, 0], result)

    def warps_for(cols):
        return 4 if cols <= 2048 else 8 if cols <= 8192 else 16

    def add(x, y):
        out = torch.empty_like(x)
        return lambda: add_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, out, x.numel(), BLOCK=4096, num_warps=8)

    def softmax(x):
        out, (rows, cols) = torch.empty_like(x), x.shape
        return lambda: softmax_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols), num_warps=warps_for(cols))

    def layer_norm(x, w, b):
        out, (rows, cols) = torch.empty_like(x), x.shape
        return lambda: layer_norm_kernel[(rows,)](x, w, b, out, cols, 1e-5, BLOCK=triton.next_power_of_2(cols),
                                                  num_warps=warps_for(cols))

    def matmul(a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty(m, n, dtype=a.dtype, device=a.device)
        grid = lambda config: (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)
        return lambda: matmul_kernel[grid](a, b, out, m, n, k, *b.stride())

    def matmul_tma(a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty(m, n, dtype=a.dtype, device=a.device)
        programs = torch.cuda.get_device_properties(a.device).multi_processor_count
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
        return lambda: matmul_tma_kernel[(programs,)](a, b.T, out, m, n, k, PROGRAMS=programs)

    def attention(q, k, v, causal):
        batch, heads, seq, width = q.shape
        out = torch.empty_like(q)
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
        grid = lambda config: (triton.cdiv(seq, config["BM"]), batch * heads)
        return lambda: attention_kernel[grid](q, k, v, out, seq, width ** -0.5, D=width, CAUSAL=causal)
