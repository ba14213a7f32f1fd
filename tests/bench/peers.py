#!/usr/bin/env python3
"""PyTorch as a peer of bench-cpu: the same work on the same shapes, timed here; of one thread the time that it ran.

    peers.py THREADS

Reads lines, answers each with one line:
    prepare KERNEL SHAPE…   ->  "eager inductor" (what there is of it), or "none REASON"
    run WHO REPEATS         ->  seconds of one run
"""
import sys
import time
from functools import partial

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    for _ in sys.stdin:
        print("none", missing, flush=True)
    sys.exit(0)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def vector_add(n):
    return torch.add, (randn(n), randn(n))


def unary(f):
    return lambda n: (f, (randn(n),))


def bias_gelu(rows, cols):
    return lambda x, b: F.gelu(x + b, approximate="tanh"), (randn(rows, cols), randn(cols))


def dropout(n):
    return lambda x: F.dropout(x, 0.1, training=True), (randn(n),)


def rotary(tokens, heads, width):
    half = width // 2

    def run(x, c, s):
        low, high = x[..., :half], x[..., half:]
        return torch.cat((low * c - high * s, high * c + low * s), -1)

    return run, (randn(tokens, heads, width), randn(tokens, 1, half), randn(tokens, 1, half))


def adamw(n):
    lr, beta1, beta2, eps, decay = 1e-3, 0.9, 0.999, 1e-8, 0.01

    def run(p, g, m, v):
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        p.mul_(1 - lr * decay).addcdiv_(m / (1 - beta1), (v / (1 - beta2)).sqrt().add_(eps), value=-lr)
        return p

    return run, (randn(n), randn(n), torch.zeros(n), torch.zeros(n))


def rows(f):
    return lambda r, c: (f, (randn(r, c),))


def layer_norm(r, c):
    return lambda x, w, b: F.layer_norm(x, (c,), w, b), (randn(r, c), randn(c), randn(c))


def layer_norm_backward(r, c):
    x, w, b, g = randn(r, c), randn(c), randn(c), randn(r, c)
    mean, rstd = x.mean(-1, keepdim=True), 1 / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    run = lambda g, x, mean, rstd: torch.ops.aten.native_layer_norm_backward(
        g, x, (c,), mean, rstd, w, b, (True, True, True))
    return run, (g, x, mean, rstd)


def rms_norm(r, c):
    return lambda x, w: F.rms_norm(x, (c,), w, 1e-5), (randn(r, c), randn(c))


def residual_layer_norm(r, c):
    def run(x, y, w, b):
        s = x + y
        return s, F.layer_norm(s, (c,), w, b)

    return run, (randn(r, c), randn(r, c), randn(c), randn(c))


def residual_rms_norm(r, c):
    def run(x, y, w):
        s = x + y
        return s, F.rms_norm(s, (c,), w, 1e-5)

    return run, (randn(r, c), randn(r, c), randn(c))


def cross_entropy(r, c):
    return lambda x, t: F.cross_entropy(x, t, reduction="none"), (randn(r, c), torch.randint(c, (r,)))


def cross_entropy_backward(r, c):
    def run(x, t):
        slope = torch.softmax(x, -1)
        slope.scatter_add_(1, t[:, None], torch.full((r, 1), -1.0))
        return slope.mul_(1.0 / r)

    return run, (randn(r, c), torch.randint(c, (r,)))


def topk(r, c, k):
    return lambda x: torch.topk(x, k), (randn(r, c),)


def histogram(n, bins):
    return lambda x: torch.bincount(x, minlength=bins), (torch.randint(bins, (n,)),)


def transpose(r, c):
    return lambda x: x.t().contiguous(), (randn(r, c),)


def embedding(entries, tokens, width):
    return lambda table, ids: table[ids], (randn(entries, width), torch.randint(entries, (tokens,)))


def embedding_backward(entries, tokens, width):
    return lambda table, ids, g: table.index_add_(0, ids, g), (
        torch.zeros(entries, width), torch.randint(entries, (tokens,)), randn(tokens, width))


# As many tensors of so many elements, as the cases of the quickstart cut them: pairs of unlike length.
def tensors_of(count, n):
    ends = [n * i // count // 8 * 8 for i in range(count)] + [n]
    lengths = [end - start for start, end in zip(ends, ends[1:])]
    for i in range(0, count - 1, 2):
        part = lengths[i] * 15 // 16 // 8 * 8
        lengths[i], lengths[i + 1] = lengths[i] - part, lengths[i + 1] + part
    return lengths


def stepped(optimiser, **options):
    """One step of an optimiser of torch.optim, as fast as there is one for CPUs."""
    def make(count, n):
        parameters = [torch.nn.Parameter(randn(length)) for length in tensors_of(count, n)]
        for parameter in parameters:
            parameter.grad = randn(parameter.numel())
        return optimiser(parameters, fused=True, **options).step, ()

    return make


def gradient_sums(count, n):
    def run(*gradients):
        return torch.stack(torch._foreach_norm(gradients)).norm()

    return run, tuple(randn(length) for length in tensors_of(count, n))


def bags(tables, batch, size, entries, width):
    table = randn(tables, entries, width)
    ids = torch.randint(entries, (tables, batch, size))
    return table, ids


def embedding_bag(*shape):
    table, ids = bags(*shape)
    return lambda: torch.stack([F.embedding_bag(i, t, mode="sum") for i, t in zip(ids, table)], 1), ()


def embedding_step(tables, batch, size, entries, width):
    table, ids = bags(tables, batch, size, entries, width)
    slope = randn(tables, batch, width)

    def run():
        for t, i, g in zip(table, ids, slope):
            t.index_add_(0, i.reshape(-1), g.repeat_interleave(size, 0), alpha=-1e-3)

    return run, ()


def dlrm_interaction_backward(batch, features, width):
    lower = torch.tril_indices(features, features, -1)

    def run(x, g):
        pairs = torch.zeros(batch, features, features)
        pairs[:, lower[0], lower[1]] = g[:, width:]
        slope = torch.bmm(pairs + pairs.transpose(1, 2), x)
        slope[:, 0] += g[:, :width]
        return slope

    return run, (randn(batch, features, width), randn(batch, width + features * (features - 1) // 2))


def linear_q8(m, n, k):
    w = torch.quantize_per_channel(randn(n, k) * 0.1, torch.full((n,), 1e-3), torch.zeros(n, dtype=torch.long), 0,
                                   torch.qint8)
    x = torch.quantize_per_tensor(torch.rand(m, k), 1 / 255, 0, torch.quint8)
    packed = torch.ops.quantized.linear_prepack(w, randn(n))
    return lambda: torch.ops.quantized.linear_relu(x, packed, 0.05, 7), ()


def conv2d_q8(images, side, channels, filters):
    w = torch.quantize_per_channel(randn(filters, channels, 3, 3) * 0.1, torch.full((filters,), 1e-3),
                                   torch.zeros(filters, dtype=torch.long), 0, torch.qint8)
    x = torch.quantize_per_tensor(torch.rand(images, channels, side, side).to(memory_format=torch.channels_last),
                                  1 / 255, 100, torch.quint8)
    packed = torch.ops.quantized.conv2d_prepack(w, randn(filters), [1, 1], [1, 1], [1, 1], 1)
    return lambda: torch.ops.quantized.conv2d_relu(x, packed, 0.05, 7), ()


def quantise_tokens(rows, cols):
    def run(x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch.round(x / scale).to(torch.int8), scale

    return run, (randn(rows, cols),)


def sampler(batch, n, k):
    labels, features = (torch.rand(n) < 0.1).long(), randn(n, 16)

    def run(labels, features):
        keys = torch.rand(batch, 2, n)
        member = torch.stack((labels == 0, labels == 1))
        index = torch.topk(torch.where(member, keys, -1.0), k).indices
        return index, features[index], member.sum(-1)

    return run, (labels, features)


def matmul(dtype):
    return lambda m, n, k: (torch.matmul, (randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)))


def matmul_bias_relu(m, n, k):
    return lambda a, b, c: torch.relu(torch.addmm(c, a, b)), (randn(m, k), randn(k, n), randn(n))


def matmul_i8(m, n, k):
    return torch._int_mm, (torch.randint(-128, 128, (m, k), dtype=torch.int8),
                           torch.randint(-128, 128, (k, n), dtype=torch.int8))


def matmul_bias_act(m, n, k):
    return lambda a, b, c: F.gelu(torch.addmm(c, a, b), approximate="tanh"), (randn(m, k), randn(k, n), randn(n))


def batched_matmul(batch, m, n, k):
    return torch.bmm, (randn(batch, m, k), randn(batch, k, n))


def dlrm_interaction(batch, features, width):
    upper = torch.tril_indices(features, features, -1)
    return lambda x: torch.bmm(x, x.transpose(1, 2))[:, upper[0], upper[1]], (randn(batch, features, width),)


def mlp_softshrink(batch, inputs, hidden, outputs):
    widths = [inputs, hidden, hidden, hidden, outputs]
    weights = [(randn(b, a) / a ** 0.5, randn(b)) for a, b in zip(widths, widths[1:])]

    def run(x):
        for i, (w, b) in enumerate(weights):
            x = F.linear(x, w, b)
            if i + 1 < len(weights):
                x = F.softshrink(x)
        return x

    return run, (randn(batch, inputs),)


def conv2d(n, size, c, k, window, groups=1, dtype=torch.float32):
    filter_size, stride = (int(part) for part in window.split("/"))
    x = randn(n, c, size, size).to(dtype, memory_format=torch.channels_last)
    w = randn(k, c // groups, filter_size, filter_size).to(dtype, memory_format=torch.channels_last)
    return lambda x, w: F.conv2d(x, w, stride=stride, padding=filter_size // 2, groups=groups), (x, w)


def conv2d_bias_relu(*shape, residual=False):
    work, (x, w) = conv2d(*shape)
    bias = randn(w.shape[0])
    if not residual:
        return lambda x, w: F.relu(work(x, w) + bias[:, None, None]), (x, w)
    more = randn(*work(x, w).shape).to(memory_format=torch.channels_last)
    return lambda x, w: F.relu(work(x, w) + bias[:, None, None] + more), (x, w)


def attention(batch, heads, seq, width, *words):
    if "ragged" in words:
        raise LookupError("no ragged lengths in scaled_dot_product_attention on CPUs")
    q, k, v = (randn(batch, heads, seq, width) for _ in range(3))
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal="causal" in words), (q, k, v)


def channels_last(n, h, w, c):
    return randn(n, c, h, w).contiguous(memory_format=torch.channels_last)


def max_pool2d(n, h, w, c, window, stride, pad):
    return lambda x: F.max_pool2d(x, window, stride, pad, return_indices=True), (channels_last(n, h, w, c),)


def max_pool2d_backward(n, h, w, c, window, stride, pad):
    x = channels_last(n, h, w, c)
    y, index = F.max_pool2d(x, window, stride, pad, return_indices=True)
    run = lambda g, x, index: torch.ops.aten.max_pool2d_with_indices_backward(
        g, x, (window, window), (stride, stride), (pad, pad), (1, 1), False, index)
    return run, (torch.randn_like(y), x, index)


def nms(batch, n, kept):
    from torchvision.ops import batched_nms  # a peer where it is there
    boxes = (randn(batch, n, 4) * 25).abs()
    boxes[..., 2:] += boxes[..., :2]
    kinds, scores = torch.randint(3, (batch, n)), randn(batch, n)
    run = lambda boxes, scores, kinds: [batched_nms(*each, 0.5)[:kept] for each in zip(boxes, scores, kinds)]
    return run, (boxes, scores, kinds)


def roi_align(images, size, c, rois, parts):
    from torchvision.ops import roi_align as align
    corners = (randn(rois, 2) * 25).abs()
    boxes = torch.cat((torch.randint(images, (rois, 1)).float(), corners, corners + (randn(rois, 2) * 25).abs()), 1)
    return lambda x, boxes: align(x, boxes, parts, size / 150, 2, True), (randn(images, c, size, size), boxes)


def matmul_swiglu(m, n, k):
    def run(a, b):
        gate, value = (a @ b).chunk(2, -1)
        return F.silu(gate) * value

    return run, (randn(m, k), randn(k, 2 * n))


def selective_scan(batch, length, width):
    raise LookupError("no scan of Mamba in PyTorch; its package has one for GPUs alone")


PEERS = {
    "vector_add": vector_add,
    "sin2_cos2": unary(lambda x: x.sin() ** 2 + x.cos() ** 2),
    "gelu": unary(F.gelu),
    "bias_gelu": bias_gelu,
    "dropout": dropout,
    "rotary": rotary,
    "adamw": adamw,
    "softmax": rows(lambda x: torch.softmax(x, -1)),
    "softmax_rows": rows(lambda x: torch.softmax(x, -1)),
    "softmax_long": rows(lambda x: torch.softmax(x, -1)),
    "log_softmax": rows(lambda x: torch.log_softmax(x, -1)),
    "softmax_narrow": rows(lambda x: torch.softmax(x, -1)),
    "layer_norm": layer_norm,
    "layer_norm_narrow": layer_norm,
    "layer_norm_long": layer_norm,
    "layer_norm_backward": layer_norm_backward,
    "rms_norm": rms_norm,
    "residual_layer_norm": residual_layer_norm,
    "residual_rms_norm": residual_rms_norm,
    "cross_entropy": cross_entropy,
    "cross_entropy_mean": lambda n: (torch.mean, (randn(n),)),
    "cross_entropy_backward": cross_entropy_backward,
    "row_sum": rows(lambda x: x.sum(-1)),
    "column_sum": rows(lambda x: x.sum(0)),
    "cumsum_rows": rows(lambda x: x.cumsum(-1)),
    "cumsum_columns": rows(lambda x: x.cumsum(0)),
    "argmax": rows(lambda x: x.argmax(-1)),
    "sort_rows": rows(lambda x: torch.sort(x, dim=-1, stable=True)),
    "topk": topk,
    "histogram": histogram,
    "transpose": transpose,
    "embedding": embedding,
    "embedding_backward": embedding_backward,
    "embedding_backward_ordered": embedding_backward,
    "sgd_many": stepped(torch.optim.SGD, lr=1e-3, momentum=0.9, dampening=0.9),
    "adamw_many": stepped(torch.optim.AdamW, lr=1e-3),
    "adamw_split_many": stepped(torch.optim.AdamW, lr=1e-3),
    "gradient_sums": gradient_sums,
    "embedding_bag": embedding_bag,
    "embedding_sgd": embedding_step,
    "embedding_sgd_atomic": embedding_step,
    "dlrm_interaction_backward": dlrm_interaction_backward,
    "linear_q8": linear_q8,
    "linear_q8_packed": linear_q8,
    "conv2d_q8": conv2d_q8,
    "quantise_tokens": quantise_tokens,
    "class_balanced_sampler": sampler,
    "matmul": matmul(torch.float32),
    "matmul bf16": matmul(torch.bfloat16),
    "matmul f16": matmul(torch.float16),
    "matmul_i8 i8": matmul_i8,
    "matmul_bias_relu": matmul_bias_relu,
    "matmul_bias_act": matmul_bias_act,
    "matmul_bias_act_packed": matmul_bias_act,
    "batched_matmul": batched_matmul,
    "dlrm_interaction": dlrm_interaction,
    "mlp_softshrink": mlp_softshrink,
    "conv2d": conv2d,
    "conv2d bf16": partial(conv2d, dtype=torch.bfloat16),
    "conv2d_bias_relu": conv2d_bias_relu,
    "conv2d_bias_residual_relu": partial(conv2d_bias_relu, residual=True),
    "conv2d_depthwise": conv2d,
    "conv2d_grouped": conv2d,
    "conv2d_narrow": conv2d,
    "conv2d_packed": conv2d,
    "attention": attention,
    "max_pool2d": max_pool2d,
    "max_pool2d_backward": max_pool2d_backward,
    "nms": nms,
    "roi_align": roi_align,
    "matmul_swiglu": matmul_swiglu,
    "selective_scan": selective_scan,
}


# What Inductor leaves to the same libraries as eager does is not run twice.
LIBRARY_CALLS = ("matmul", "batched_matmul", "conv2d", "attention", "sgd_many", "adamw_", "linear_q8")


def prepare(kernel, shape):
    """{who: function without arguments}"""
    words = [int(word) if word.isdigit() else word for part in shape for word in part.split("×")]
    if words[-1] in ("bf16", "f16", "i8"):  # the element type
        kernel += " " + words.pop()
    work, inputs = PEERS[kernel](*words)
    out = {}
    peers = [("eager", work)]
    if not kernel.startswith(LIBRARY_CALLS):
        peers.append(("inductor", torch.compile(work, dynamic=False)))
    for who, function in peers:
        try:
            for _ in range(2):
                function(*inputs)
            out[who] = lambda function=function: function(*inputs)
        except Exception as failure:  # one peer fewer
            print(f"{kernel}: {who}: {str(failure).splitlines()[0]}", file=sys.stderr)
    return out


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(0)
    ready = {}
    with torch.no_grad():
        for line in sys.stdin:
            verb, *words = line.split()
            if verb == "prepare":
                torch.compiler.reset()
                try:
                    ready = prepare(words[0], words[1:])
                    print(*ready or ["none"], flush=True)
                except (ImportError, LookupError, TypeError) as reason:
                    print("none", reason, flush=True)
            else:
                repeats, clock = int(words[1]), time.thread_time if sys.argv[1] == "1" else time.perf_counter
                start = clock()
                for _ in range(repeats):
                    ready[words[0]]()
                print((clock() - start) / repeats, flush=True)


main()
