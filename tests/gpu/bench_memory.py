"""Rows of what memory limits: rows and columns of arrays, elements, order and samples. bench_cases.py lists the shapes."""
import torch
import torch.nn.functional as F

import bench_peers as triton_peers
from bench_base import BOUNDS, DTYPES, Inputs, Launch, Row, Stage, grid_of, normal, poisoned, power_of_two, with_warps


def row_configs(block, **more):
    """A whole row in one program, by 2 to 64 elements a thread; the first leaves the number of warps to the compiler."""
    configs = [dict(BLOCK=block, **more)]
    return configs + [dict(configs[0], num_warps=w) for w in (1, 2, 4, 8, 16, 32) if 2 <= block / (32 * w) <= 64]


def narrow_configs(block):
    """Several whole rows in one program."""
    return with_warps(grid_of(ROWS=[2, 4, 8, 16], BLOCK=[block]), 1, 2, 4)


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


def residual_rms_norm(r, c, type="bf16"):
    def make():
        x, residual, w = normal(r, c, type=type), normal(r, c, type=type), normal(c, type=type)
        total, out = poisoned(r, c, type=type), poisoned(r, c, type=type)

        def run():
            both = x + residual
            return both, F.rms_norm(both, (c,), w, 1e-5)

        return Inputs([x, residual, w, total, out, r, c, 1e-5], out, {"eager": run, "inductor": triton_peers.compiled(run)},
                      lambda: F.rms_norm(x.double() + residual.double(), (c,), w.double(), 1e-5))

    return Row("rows", f"residual_rms_norm {r}x{c}", "residual_rms_norm", type, row_configs(power_of_two(c)), make,
               4.0 * DTYPES[type].itemsize * r * c, bound=BOUNDS[type])


def layer_norm_backward(r, c, type="bf16"):
    """The kernel and the sums of its partial gradients of weight and bias, one behind the other."""
    def make():
        x, slope, dx = normal(r, c, type=type), normal(r, c, type=type), poisoned(r, c, type=type)
        w, b = normal(c, type=type), normal(c, type=type)
        dw, db = poisoned(c), poisoned(c)
        blocks = {at_once: -(-r // at_once) for at_once in HEIGHTS}
        parts = [poisoned(max(blocks.values()), c) for _ in range(2)]
        mean = x.float().mean(-1, keepdim=True)
        scale = (x.float().var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        run = lambda: torch.ops.aten.native_layer_norm_backward(slope, x, [c], mean, scale, w, b, [True, True, True])

        def exact():
            wide = [t.double().requires_grad_() for t in (x[:256], w, b)]
            return torch.autograd.grad(F.layer_norm(wide[0], (c,), *wide[1:], 1e-5), wide[0], slope[:256].double())[0]

        normals = lambda: (x.double() - mean.double()) * scale.double()
        return Inputs([x, w, slope, dx, *parts, r, c, 1e-5], dx, {"eager": run, "inductor": triton_peers.compiled(run)}, exact,
                      [Launch(lambda first: [parts[0], dw, blocks[first["ROWS"]], c], dw,
                              lambda: (slope.double() * normals()).sum(0)),
                       Launch(lambda first: [parts[1], db, blocks[first["ROWS"]], c], db, lambda: slope.double().sum(0))])

    columns = [dict(ROWS=rows_at_once, BLOCK=block, num_warps=warps)
               for rows_at_once, block, warps in [(32, 32, 4), (64, 32, 4), (128, 32, 8), (256, 32, 16), (512, 32, 16), (64, 64, 8)]]
    configs = [dict(ROWS=at_once, BLOCK=power_of_two(c), num_warps=w) for at_once in HEIGHTS for w in (4, 8, 16)]
    return Row("rows", f"layer_norm_backward {r}x{c}", "layer_norm_backward", type, configs, make,
               3.0 * DTYPES[type].itemsize * r * c, bound=BOUNDS[type], then=[Stage("column_sum", "f32", columns, 1e-4)] * 2)


HEIGHTS = (16, 32, 64, 128)  # rows of a block of layer_norm_backward


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


def cross_entropy_backward(r, c, type="bf16"):
    def make():
        x, out = normal(r, c, type=type), poisoned(r, c, type=type)
        target = torch.randint(0, c, (r,), device="cuda", dtype=torch.int32)
        lse = torch.logsumexp(x.float(), -1)
        leaf, wanted = x.detach().requires_grad_(), target.long()
        loss = F.cross_entropy(leaf, wanted)

        def slope():
            hit = torch.arange(c, device="cuda")[None, :] == target[:, None]
            return (((x.float() - lse[:, None]).exp() - hit.float()) * (1 / r)).to(x.dtype)

        def exact():
            few = x[:256].double().softmax(-1)
            return (few - F.one_hot(wanted[:256], c)) / r

        return Inputs([x, target, lse, out, r, c, 1 / r], out,
                      {"eager": lambda: torch.autograd.grad(loss, leaf, retain_graph=True),
                       "inductor": triton_peers.compiled(slope)}, exact)

    return Row("rows", f"cross_entropy_backward {r}x{c}", "cross_entropy_backward", type,
               with_warps(grid_of(BLOCK=[1024, 2048, 4096, 8192]), 4, 8), make, 2.0 * DTYPES[type].itemsize * r * c,
               bound=BOUNDS[type])


def log_softmax(r, c, type="bf16"):
    blocks = [block for block in (1024, 2048, 4096, 8192, 16384) if block <= power_of_two(c)]
    return rows("log_softmax", r, c, type, lambda x, y: [x, y, r, c, c], lambda x: F.log_softmax(x, -1),
                lambda x: F.log_softmax(x.double(), -1), configs=with_warps(grid_of(BLOCK=blocks), 4, 8, 16))


def rotary(tokens, heads, width, type="bf16"):
    def make():
        x, out = normal(tokens, heads, width, type=type), poisoned(tokens, heads, width, type=type)
        positions = torch.arange(tokens, device="cuda", dtype=torch.int32)
        angles = positions.float()[:, None] * 10000 ** (-torch.arange(width // 2, device="cuda").float() / (width // 2))
        cosine, sine = (f(angles).to(DTYPES[type]) for f in (torch.cos, torch.sin))
        places = positions.long()

        def turned(x, cosine, sine):
            c, s = (t[places][:, None, :] for t in (cosine, sine))
            a, b = x.chunk(2, -1)
            return torch.cat((a * c - b * s, b * c + a * s), -1)

        run = lambda: turned(x, cosine, sine)
        return Inputs([x, cosine, sine, positions, out, tokens, heads], out,
                      {"eager": run, "inductor": triton_peers.compiled(run)},
                      lambda: turned(*(t.double() for t in (x, cosine, sine))))

    return Row("rows", f"rotary {tokens}x{heads}x{width}", "rotary", type,
               with_warps(grid_of(D=[width], BH=[4, 8, 16, 32]), 1, 2, 4, 8), make,
               2.0 * DTYPES[type].itemsize * tokens * heads * width, bound=BOUNDS[type])


def adamw(n, type="f32"):
    def make():
        p, g, m, v = normal(n, type=type), normal(n, type=type), normal(n), normal(n).square()
        state = [t.clone() for t in (p, g, m, v)]
        few = [t[:1 << 22].double() for t in state]
        rate, beta1, beta2, eps, decay, step = 1e-3, 0.9, 0.999, 1e-8, 0.01, 7

        def exact():
            p, g, m, v = few
            m, v = m * beta1 + g * (1 - beta1), v * beta2 + g * g * (1 - beta2)
            move = m / ((v / (1 - beta2 ** step)).sqrt() + eps) / (1 - beta1 ** step)
            return p * (1 - rate * decay) - move * rate

        def restore():
            m.copy_(state[2])
            v.copy_(state[3])

        fused = {}
        if type == "f32":  # of bf16 it keeps m and v in bf16 too
            leaf = torch.nn.Parameter(p.clone())
            leaf.grad = g.clone()
            fused["eager fused"] = torch.optim.AdamW([leaf], rate, (beta1, beta2), eps, decay, fused=True).step
        many = [t.clone() for t in state]

        def formula():
            p, g, m, v = many
            m.mul_(beta1).add_(g, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            move = m / ((v / (1 - beta2 ** step)).sqrt() + eps) / (1 - beta1 ** step)
            p.mul_(1 - rate * decay).sub_(move * rate)

        return Inputs([p, g, m, v, n, rate, beta1, beta2, eps, decay, step], p,
                      {**fused, "inductor": triton_peers.compiled(formula)}, exact, restore=restore)

    return Row("elements", f"adamw {n}", "adamw", type, with_warps(grid_of(BLOCK=[512, 1024, 2048, 4096]), 4, 8), make,
               n * (3.0 * DTYPES[type].itemsize + 16), bound=BOUNDS[type])


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


def histogram(n, bins=256):
    def make():
        x = torch.randint(0, bins, (n,), device="cuda", dtype=torch.int32)
        out = torch.zeros(bins, device="cuda", dtype=torch.int32)
        return Inputs([x, out, n], out, {"histc": lambda: torch.histc(x, bins, 0, bins),
                                         "bincount": lambda: torch.bincount(x, minlength=bins)},
                      lambda: torch.bincount(x, minlength=bins))

    # The kernel adds to what is there, so only its first launch is checked.
    return Row("elements", f"histogram {n} in {bins}", "histogram", "i32",
               with_warps(grid_of(BINS=[bins], BLOCK=[4096, 8192, 16384, 65536]), 4, 8, 16), make, 4.0 * n)


# The kernel of the same parameters whose BLOCK is all of n.
SAMPLER_LONG = "class_balanced_sampler_long"


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

    configs = with_warps(grid_of(BLOCK=[1024, 2048, 4096], K=[k], BC=[c]), 4, 8)
    step = 2048 if n < 1 << 16 else 1 << 16
    whole = dict(kernel=SAMPLER_LONG, BLOCK=-(-n // step) * step, K=k, BC=c)
    configs += [dict(whole, num_warps=w) for w in ((8, 16, 32) if n < 1 << 16 else (4, 8))]
    return Row("rows", f"class_balanced_sampler {batch} of {n}", "class_balanced_sampler", "f32", configs, make,
               batch * (4.0 * n + 8.0 * 2 * k * c))


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
