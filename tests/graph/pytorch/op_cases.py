"""Random cases of ops of graphs, with what PyTorch gives: of each op a function, in CASES by name."""
import math

import torch
import torch.nn.functional as F

from kiln import ALLOWED, TORCH, TYPES, attr_text, type_text


class Case:
    """One node: operands (tensor or None), attributes as text, and what PyTorch gives."""

    def __init__(self, op, operands, attrs, results, exact=False):
        self.op, self.operands, self.attrs = op, operands, attrs
        # PyTorch rounds gradients of small floats more often than once.
        self.small = any(x is not None and x.dtype in (torch.float16, torch.bfloat16) for x in operands)
        self.slack = 4 if self.small else 2
        self.results = list(results) if isinstance(results, (tuple, list)) else [results]
        self.exact = exact

    def text(self):
        present = [x for x in self.operands if x is not None]
        names = iter(f"%x{i}" for i in range(len(present)))
        inputs = ", ".join(f"%x{i}: {type_text(x)}" for i, x in enumerate(present))
        uses = ", ".join("_" if x is None else next(names) for x in self.operands)
        attrs = ", ".join(f"{k} = {attr_text(v)}" for k, v in self.attrs.items())
        ys = ", ".join(f"%y{i}" for i in range(len(self.results)))
        types = ", ".join(type_text(y) for y in self.results)
        node = f"  {ys} = {self.op} {uses} {{{attrs}}} : {types}\n" if attrs else f"  {ys} = {self.op} {uses} : {types}\n"
        outputs = "".join(f"  output y{i} = %y{i}\n" for i in range(len(self.results)))
        return f"graph test({inputs}) {{\n{node}{outputs}}}\n"


# --- random cases: each function gives one case of an op ---
class Random:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def int(self, low, high):  # both included
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def pick(self, items):
        return items[self.int(0, len(items) - 1)]

    def shape(self, low=0, high=4, least=1):
        return [self.pick([least, 1, 2, 3, 5]) if self.int(0, 9) else least for _ in range(self.int(low, high))]

    def normal(self, shape, t="f32"):
        x = torch.randn(shape, generator=self.generator, dtype=torch.float64).to(TORCH[t])
        return x.requires_grad_()

    def floats(self):
        return self.pick(["f32", "f32", "f64", "f16", "bf16"])

    def wide(self):
        return self.pick(["f32", "f32", "f64"])

    def ints(self, shape, low, high, t="i64"):
        return torch.randint(low, high + 1, shape, generator=self.generator).to(TORCH[t])


CASES = {}


def op(*names):
    def register(function):
        for name in names:
            CASES[name] = (lambda r, name=name: function(r, name)) if len(names) > 1 else (lambda r: function(r))
        return function
    return register


UNARY = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
         "sin": torch.sin, "cos": torch.cos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
         "erf": torch.erf, "erfc": torch.erfc, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
         "signbit": torch.signbit, "isnan": torch.isnan, "isinf": torch.isinf, "relu": F.relu, "sigmoid": torch.sigmoid, "silu": F.silu,
         "softplus": lambda x: F.softplus(x, threshold=1e9), "mish": F.mish,  "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish,
         "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
         "asin": torch.asin, "acos": torch.acos, "tan": torch.tan}
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt"}


@op(*UNARY)
def unary(r, name):
    x = r.normal(r.shape(least=0), r.floats())
    if name == "hard_sigmoid" and x.dtype == torch.float64:  # whose gradient in PyTorch has a sixth in f32
        return Case(name, [x], {}, F.hardtanh(x + 3, 0, 6) / 6)
    x = x.abs() + 0.125 if name in POSITIVE else x.clamp(-1, 1) if name in ("asin", "acos", "tan") else x * 2
    return Case(name, [x], {}, UNARY[name](x))


@op("leaky_relu", "elu", "clamp", "gelu")
def parametric(r, name):
    x, a = r.normal(r.shape(), r.floats()) * 2, r.int(1, 8) / 8
    if name == "leaky_relu":
        return Case(name, [x], {"slope": a}, F.leaky_relu(x, a))
    if name == "elu":
        return Case(name, [x], {"alpha": a}, F.elu(x, a))
    if name == "clamp":
        return Case(name, [x], {"low": -a, "high": a}, x.clamp(-a, a))
    kind = r.pick(["none", "tanh"])
    return Case(name, [x], {"approximate": kind}, F.gelu(x, approximate=kind))


BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "rem": torch.fmod, "min": torch.minimum, "max": torch.maximum,
          "atan2": torch.atan2, "hypot": torch.hypot, "copysign": torch.copysign, "pow": torch.pow}


@op(*BINARY)
def binary(r, name):
    shape = r.shape(least=0)
    if name in ("add", "sub", "mul", "min", "max", "div", "rem") and r.int(0, 2) == 0:
        t = r.pick(["i8", "i32", "i64", "u8"])
        a, b = r.ints(shape, -128, 127, t), r.ints(shape, -128, 127, t)
        if name in ("div", "rem"):
            b = torch.where(b == 0, torch.ones_like(b), b)
        if name == "div":
            if t == "i8":
                b = torch.where(b == -1, torch.ones_like(b), b)
            return Case(name, [a, b], {}, torch.div(a, b, rounding_mode="trunc"))
        return Case(name, [a, b], {}, BINARY[name](a, b))
    t = r.wide() if name in ("hypot", "pow", "rem") else r.floats()
    a, b = r.normal(shape, t), r.normal(shape, t)
    if name == "pow":
        a = a.abs()
    if name in ("div", "rem"):
        b = b.abs() + 0.25
    return Case(name, [a, b], {}, BINARY[name](a, b), exact=name in ("add", "sub", "mul", "min", "max", "copysign", "rem"))


@op("and", "or", "xor", "not", "shl", "shr")
def bits(r, name):
    shape, t = r.shape(), r.pick(["i8", "i32", "i64", "u8", "i1"])
    a, b = (r.ints(shape, 0, 1, t), r.ints(shape, 0, 1, t)) if t == "i1" else (r.ints(shape, -128, 127, t), r.ints(shape, -128, 127, t))
    if name == "not":
        return Case(name, [a], {}, ~a)
    if name in ("shl", "shr"):
        t = "i32" if t == "i1" else t
        a, b = a.to(TORCH[t]), r.ints(shape, 0, 6, t)
        return Case(name, [a, b], {}, a << b if name == "shl" else a >> b)
    return Case(name, [a, b], {}, {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}[name](a, b))


@op("cmp")
def cmp(r):
    shape, t = r.shape(), r.pick(["f32", "bf16", "i64", "u8"])
    a, b = (r.normal(shape, t).round(), r.normal(shape, t).round()) if t in ALLOWED else (r.ints(shape, 0, 3, t), r.ints(shape, 0, 3, t))
    name = r.pick(["eq", "ne", "lt", "le", "gt", "ge"])
    return Case("cmp", [a, b], {"pred": name}, getattr(torch, name)(a, b))


@op("fma", "stop_gradient")
def plain(r, name):
    shape, t = r.shape(), r.wide()
    a, b, c = (r.normal(shape, t) for _ in range(3))
    return Case(name, [a, b, c], {}, a * b + c) if name == "fma" else Case(name, [a], {}, a.detach(), exact=True)


@op("select")
def select(r):
    shape, t = r.shape(), r.floats()
    c, a, b = r.ints(shape, 0, 1, "i1"), r.normal(shape, t), r.normal(shape, t)
    return Case("select", [c, a, b], {}, torch.where(c, a, b), exact=True)


@op("cast")
def cast(r):
    x = r.normal(r.shape(), r.floats()) * 20
    to = r.pick(["f32", "f64", "f16", "bf16", "i1", "i16", "i32", "i64"])
    return Case("cast", [x], {"to": to}, x.to(TORCH[to]), exact=True)


# --- views, cat ---
@op("reshape", "permute", "broadcast", "slice", "reverse", "pad", "cat")
def view(r, name):
    x = r.normal(r.shape(1, 4), r.floats())
    n = x.dim()
    if name == "reshape":
        shape = r.pick([[-1], [1, -1], [x.shape[0], -1, 1]])
        shape = list(x.reshape(shape).shape)
        return Case(name, [x], {"shape": shape}, x.reshape(shape), exact=True)
    if name == "permute":
        order = torch.randperm(n, generator=r.generator).tolist()
        return Case(name, [x], {"order": order}, x.permute(order), exact=True)
    if name == "broadcast":
        shape = r.shape(0, 2) + [r.int(1, 4) if e == 1 else e for e in x.shape]
        return Case(name, [x], {"shape": shape}, x.expand(shape), exact=True)
    if name == "slice":
        start = [r.int(0, e) for e in x.shape]
        end = [r.int(s, e) for s, e in zip(start, x.shape)]
        step = [r.int(1, 3) for _ in x.shape]
        y = x[tuple(slice(*v) for v in zip(start, end, step))]
        return Case(name, [x], {"start": start, "end": end, "step": step}, y, exact=True)
    if name == "reverse":
        axes = [d for d in range(n) if r.int(0, 1)]
        return Case(name, [x], {"axes": axes}, x.flip(axes), exact=True)
    if name == "pad":
        low, high = [r.int(0, 3) for _ in range(n)], [r.int(0, 3) for _ in range(n)]
        value = r.normal([], TYPES[x.dtype])
        both = [v for pair in reversed(list(zip(low, high))) for v in pair]
        beyond = F.pad(torch.zeros_like(x), both, value=1.0) == 1
        y = torch.where(beyond, value, F.pad(x, both, value=float(value)))
        return Case(name, [x, value], {"low": low, "high": high, "inner": [0] * n}, y, exact=True)
    axis = r.int(0, n - 1)
    parts = [x] + [r.normal([r.int(0, 3) if d == axis else e for d, e in enumerate(x.shape)], TYPES[x.dtype]) for _ in range(r.int(0, 3))]
    return Case(name, parts, {"axis": axis}, torch.cat(parts, axis), exact=True)


# --- index ---
@op("gather", "scatter")
def along(r, name):
    shape = r.shape(1, 3)
    axis = r.int(0, len(shape) - 1)
    x = r.normal(shape, r.wide())
    index = r.ints([r.int(0, 5) if d == axis else e for d, e in enumerate(shape)], 0, shape[axis] - 1)
    negative = torch.where(r.ints(index.shape, 0, 1).bool(), index - shape[axis], index)
    if name == "gather":
        return Case(name, [x, negative], {"axis": axis}, x.gather(axis, index), exact=True)
    kind = r.pick(["add", "mul", "min", "max"])
    values = r.normal(index.shape, TYPES[x.dtype])
    reduce = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}[kind]
    return Case(name, [x, negative, values], {"axis": axis, "kind": kind}, x.scatter_reduce(axis, index, values, reduce))


@op("index", "index_put")
def points(r, name):
    shape = r.shape(2, 4)
    count = r.int(1, 2)
    axes = list(range(count))  # leading axes, where PyTorch's result has the points first too
    x, where = r.normal(shape, r.wide()), r.shape(1, 2)
    indices = [r.ints(where, 0, shape[a] - 1) for a in axes]
    y = x[tuple(indices)]
    if name == "index":
        return Case(name, [x] + indices, {"axes": axes}, y, exact=True)
    values = r.normal(y.shape, TYPES[x.dtype])
    return Case(name, [x, values] + indices, {"axes": axes, "kind": "add"}, x.index_put(tuple(indices), values, accumulate=True))


@op("embedding", "embedding_bag", "one_hot")
def lookups(r, name):
    table = r.normal([r.int(1, 6), r.int(1, 4)], r.wide())
    if name == "one_hot":
        ids = r.ints(r.shape(), 0, 4)
        return Case(name, [ids], {"classes": 5, "type": "i64"}, F.one_hot(ids, 5))
    if name == "embedding":
        ids = r.ints(r.shape(1, 3), 0, table.shape[0] - 1)
        return Case(name, [table, ids], {}, F.embedding(ids, table), exact=True)
    ids = r.ints([r.int(1, 8)], 0, table.shape[0] - 1)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), r.ints([r.int(0, 3)], 0, ids.shape[0]).sort().values])
    mode = r.pick(["sum", "mean", "max"])
    weights = r.normal(ids.shape, TYPES[table.dtype]) if mode == "sum" and r.int(0, 1) else None
    y = F.embedding_bag(ids, table, offsets, mode=mode, per_sample_weights=weights)
    return Case(name, [table, ids, offsets, weights], {"mode": mode}, y)


# --- reduce, scan, order ---
@op("reduce", "arg_reduce", "mean", "variance", "logsumexp", "softmax", "log_softmax")
def reductions(r, name):
    x = r.normal(r.shape(1, 4), r.wide() if name in ("reduce", "variance") else r.floats())
    n = x.dim()
    axes, keep = [d for d in range(n) if r.int(0, 1)] or [0], bool(r.int(0, 1))
    axis = r.int(0, n - 1)
    if name in ("softmax", "log_softmax"):
        return Case(name, [x], {"axis": axis}, getattr(torch, name)(x, axis))
    if name == "arg_reduce":
        kind = r.pick(["min", "max"])
        x = x.float()  # ties of coarse types have another order there
        return Case(name, [x], {"kind": kind, "axis": axis, "keep": keep}, getattr(torch, "arg" + kind)(x, axis, keep))
    if name == "mean":
        return Case(name, [x], {"axes": axes, "keep": keep}, x.mean(axes, keep))
    if name == "variance":
        correction = r.int(0, 1)
        return Case(name, [x], {"axes": axes, "correction": correction, "keep": keep}, x.var(axes, correction=correction, keepdim=keep))
    if name == "logsumexp":
        return Case(name, [x], {"axes": axes, "keep": keep}, x.logsumexp(axes, keep))
    kind = r.pick(["sum", "prod", "min", "max"])
    if kind == "prod":
        return Case(name, [x], {"kind": kind, "axes": [axis], "keep": keep}, x.prod(axis, keep))
    y = {"sum": torch.sum, "min": torch.amin, "max": torch.amax}[kind](x, axes, keep)
    return Case(name, [x], {"kind": kind, "axes": axes, "keep": keep}, y)


@op("scan", "sort", "topk", "histogram")
def lines(r, name):
    x = r.normal(r.shape(1, 3), r.wide())
    axis = r.int(0, x.dim() - 1)
    if name == "scan":
        kind = r.pick(["sum", "prod", "min", "max"])
        reverse = bool(r.int(0, 1))
        z = x.flip(axis) if reverse else x
        y = {"sum": torch.cumsum, "prod": torch.cumprod, "min": lambda a, d: torch.cummin(a, d).values,
             "max": lambda a, d: torch.cummax(a, d).values}[kind](z, axis)
        return Case(name, [x], {"kind": kind, "axis": axis, "reverse": reverse}, y.flip(axis) if reverse else y)
    if name == "histogram":
        ids = r.ints([r.int(0, 20)], 0, 9)
        return Case(name, [ids], {"bins": 10}, torch.bincount(ids, minlength=10))
    down = bool(r.int(0, 1))
    if name == "sort":
        x = x.round()
        y = torch.sort(x, stable=True, dim=axis, descending=down)
        return Case(name, [x], {"axis": axis, "descending": down}, [y.values, y.indices], exact=True)
    k = r.int(0, x.shape[axis])
    y = torch.topk(x, k, axis, down)
    return Case(name, [x], {"k": k, "axis": axis, "largest": down}, [y.values, y.indices], exact=True)


# --- contract, convolve ---
@op("dot", "linear", "interaction")
def products(r, name):
    t = r.floats()
    if name == "linear":
        x, w = r.normal(r.shape(0, 2) + [r.int(1, 9)], t), None
        w = r.normal([r.int(1, 5), x.shape[-1]], t)
        b = r.normal([w.shape[0]], t) if r.int(0, 1) else None
        return Case(name, [x, w, b], {}, F.linear(x, w, b))
    if name == "interaction":
        d, f = r.normal([3, 4]), r.normal([3, r.int(1, 4), 4])
        rows = torch.cat([d[:, None], f], 1)
        z = rows @ rows.transpose(1, 2)
        i, j = torch.tril_indices(rows.shape[1], rows.shape[1], -1)
        return Case(name, [d, f], {"diagonal": 0}, torch.cat([d, z[:, i, j]], 1))
    b, m, n, k = (r.int(1, 5) for _ in range(4))
    a, c = r.normal([b, m, k], t), r.normal([k, n, b], t)
    attrs = {"batch_a": [0], "batch_b": [2], "contract_a": [2], "contract_b": [0], "type": t}
    return Case(name, [a, c], attrs, torch.einsum("bmk,knb->bmn", a, c))


def conv_attrs(r, axes):
    return [r.int(1, 2) for _ in range(axes)], [r.int(0, 2) for _ in range(axes)], [r.int(1, 2) for _ in range(axes)], r.pick([1, 1, 2])


@op("conv", "conv_bias", "conv_input", "conv_weight")
def convolutions(r, name):
    axes = r.int(1, 3)
    strides, padding, dilation, groups = conv_attrs(r, axes)
    n, c, k = r.int(1, 2), groups * r.int(1, 2), groups * r.int(1, 2)
    space, window = [r.int(5, 7) for _ in range(axes)], [r.int(1, 3) for _ in range(axes)]
    x, w = r.normal([n, c] + space, r.wide()), None
    w = r.normal([k, c // groups] + window, TYPES[x.dtype])
    f = [F.conv1d, F.conv2d, F.conv3d][axes - 1]
    attrs = {"strides": strides, "low": padding, "high": padding, "dilation": dilation, "groups": groups}
    x.requires_grad_(), w.requires_grad_()
    y = f(x, w, None, strides, padding, dilation, groups)
    if name == "conv":
        return Case(name, [x, w], attrs, y)
    if name == "conv_bias":
        b = r.normal([k], TYPES[x.dtype])
        return Case(name, [x, w, b], attrs, f(x, w, b, strides, padding, dilation, groups))
    g = r.normal(y.shape, TYPES[x.dtype])
    dx, dw = torch.autograd.grad(y, [x, w], g, create_graph=True)
    if name == "conv_input":
        return Case(name, [g, w], {"shape": space, **attrs}, dx)
    return Case(name, [x, g], {"window": window, **attrs}, dw)


@op("max_pool", "avg_pool", "window_spread")
def pools(r, name):
    axes = r.int(1, 2)
    size = [r.int(1, 3) for _ in range(axes)]
    strides, padding = [r.int(1, 3) for _ in range(axes)], [r.int(0, s // 2) for s in size]
    x = r.normal([r.int(1, 2), r.int(1, 3)] + [r.int(3, 7) for _ in range(axes)], r.wide())
    attrs = {"size": size, "strides": strides, "low": padding, "high": padding}
    if name == "avg_pool":
        count = bool(r.int(0, 1))
        y = [F.avg_pool1d, F.avg_pool2d][axes - 1](x, size, strides, padding, count_include_pad=count)
        return Case(name, [x], {**attrs, "count_padding": count}, y)
    dilation = [r.int(1, 2) if s == 1 else 1 for s in size]
    x.requires_grad_()
    y = [F.max_pool1d, F.max_pool2d][axes - 1](x, size, strides, padding, dilation)
    if name == "max_pool":
        return Case(name, [x], {**attrs, "dilation": dilation}, y, exact=True)
    g = r.normal(y.shape, TYPES[x.dtype])
    every = {k: [d, d] + v for (k, v), d in zip({**attrs, "dilation": dilation}.items(), [1, 1, 0, 0, 1])}
    return Case(name, [x, g], {"kind": "max", **every}, torch.autograd.grad(y, x, g, create_graph=True)[0])


@op("window", "window_pick")
def windows(r, name):
    """Over the last axes, by unfold of what is padded with the neutral element."""
    n = r.int(1, 3)
    x = r.normal([r.int(3, 6) for _ in range(n)], r.wide())
    kind = r.pick(["sum", "max", "min"] if name == "window" else ["max", "min"])
    size, strides, low, high = ([r.int(a, b) for _ in range(n)] for a, b in ((1, 3), (1, 2), (0, 0), (0, 0)))
    low, high = [r.int(0, v - 1) for v in size], [r.int(0, v - 1) for v in size]
    neutral = {"sum": 0.0, "max": -math.inf, "min": math.inf}[kind]
    both = [v for pair in reversed(list(zip(low, high))) for v in pair]
    attrs = {"kind": kind, "size": size, "strides": strides, "low": low, "high": high, "dilation": [1] * n}

    def parts(z, beyond):
        z = F.pad(z, both, value=beyond)
        for axis in range(n):
            z = z.unfold(axis, size[axis], strides[axis])
        return z.flatten(n)
    y = parts(x, neutral)
    if name == "window":
        return Case(name, [x], attrs, {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[kind](y, -1))
    t = r.normal(x.shape, r.wide())
    place = (y.argmax(-1) if kind == "max" else y.argmin(-1))[..., None]
    return Case(name, [x, t], attrs, parts(t, 0.0).gather(-1, place)[..., 0], exact=True)


@op("resize", "resize_spread")
def resizes(r, name):
    axes = r.int(1, 2)
    x = r.normal([r.int(1, 2), r.int(1, 2)] + [r.int(1, 5) for _ in range(axes)], r.wide())
    shape = [r.int(1, 8) for _ in range(axes)]
    mode = r.pick(["nearest", "linear", "cubic"] if axes == 2 else ["nearest", "linear"])
    corners = bool(r.int(0, 1)) and mode != "nearest"
    known = {"nearest": "nearest", "linear": ["linear", "bilinear"][axes - 1], "cubic": "bicubic"}[mode]
    x.requires_grad_()
    y = F.interpolate(x, size=shape, mode=known, **({} if mode == "nearest" else {"align_corners": corners}))
    if name == "resize":
        return Case(name, [x], {"shape": shape, "mode": mode, "corners": corners}, y)
    g = r.normal(y.shape, TYPES[x.dtype])
    return Case(name, [g], {"shape": list(x.shape[2:]), "mode": mode, "corners": corners}, torch.autograd.grad(y, x, g, create_graph=True)[0])


# --- norms, attention, loss ---
@op("layer_norm", "rms_norm", "group_norm", "batch_norm", "batch_norm_training")
def norms(r, name):
    t, eps = r.floats(), 1e-3
    if name in ("layer_norm", "rms_norm"):
        x = r.normal(r.shape(1, 3) + [r.int(2, 9)], t)
        axes = r.int(1, min(2, x.dim()))
        tail = list(x.shape[-axes:])
        w = r.normal(tail, t) if r.int(0, 1) else None
        b = r.normal(tail, t) if w is not None and name == "layer_norm" else None
        if name == "rms_norm":
            return Case(name, [x, w], {"axes": axes, "eps": eps}, F.rms_norm(x, tail, w, eps))
        return Case(name, [x, w, b], {"axes": axes, "eps": eps}, F.layer_norm(x, tail, w, b, eps))
    x = r.normal([r.int(2, 3), 4, r.int(2, 5)], t)
    w, b = (r.normal([4], t), r.normal([4], t)) if r.int(0, 1) else (None, None)
    if name == "group_norm":
        groups = r.pick([1, 2, 4])
        case = Case(name, [x, w, b], {"groups": groups, "eps": eps}, F.group_norm(x, groups, w, b, eps))
        case.slack *= 8 if case.small else 1  # PyTorch's gradient rounds at each step, and terms cancel
        return case
    # PyTorch's function does not differentiate by the statistics; the formula does.
    mean, variance = r.normal([4], t), (r.normal([4], t).abs() + 0.5)
    m, v = mean.detach().clone(), variance.detach().clone()
    formula = bool(r.int(0, 1)) and t in ("f32", "f64")

    def normalised(center, spread):
        y = (x - center[:, None]) / (spread[:, None] + eps).sqrt()
        return y if w is None else y * w[:, None] + b[:, None]
    if name == "batch_norm":
        operands = [x, mean, variance, w, b] if formula else [x, m, v, w, b]
        y = normalised(mean, variance) if formula else F.batch_norm(x, m, v, w, b, False, 0.1, eps)
        return Case(name, operands, {"eps": eps}, y)
    attrs = {"eps": eps, "momentum": 0.25}
    if formula:
        center, spread = x.mean([0, 2]), x.var([0, 2], correction=0)
        moved = [mean * 0.75 + center * 0.25, variance * 0.75 + x.var([0, 2]) * 0.25]
        return Case(name, [x, mean, variance, w, b], attrs, [normalised(center, spread)] + moved)
    before = [m.clone(), v.clone()]
    y = F.batch_norm(x, m, v, w, b, True, 0.25, eps)
    return Case(name, [x] + before + [w, b], attrs, [y, m, v])


@op("attention")
def attentions(r):
    t = r.pick(["f32", "f64", "bf16"])
    b, g, m, d, e = r.int(1, 2), r.int(1, 2), r.int(1, 4), r.int(1, 4), r.int(1, 4)
    h = g * r.int(1, 2)
    causal = bool(r.int(0, 1))
    n = m if causal else r.int(1, 5)
    q, k, v = r.normal([b, h, m, d], t), r.normal([b, g, n, d], t), r.normal([b, g, n, e], t)
    mask = None
    if not causal and r.int(0, 1):
        mask = r.normal([b, 1, m, n], t) if r.int(0, 1) else r.ints([m, n], 0, 1, "i1") | (torch.arange(n) == 0)
    scale = r.pick([0.0, 0.5])
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale or None, enable_gqa=True)
    return Case("attention", [q, k, v, mask], {"causal": causal, "window": 0, "scale": scale}, y)


@op("paged_attention", "rope")
def paged(r, name):
    t = r.wide()
    if name == "rope":
        n, half, interleaved = r.int(1, 4), r.int(1, 3), bool(r.int(0, 1))
        x, angles = r.normal(r.shape(0, 2) + [n, 2 * half], t), r.normal([n, half], t)
        c, s = angles.detach().cos().requires_grad_(), angles.detach().sin().requires_grad_()
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
        parts = [a * c - b * s, b * c + a * s]
        y = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
        return Case(name, [x, c, s], {"interleaved": interleaved}, y)
    b, g, d, size, pages, count = r.int(1, 3), r.int(1, 2), r.int(1, 4), r.int(1, 3), r.int(2, 4), r.int(1, 3)
    h = g * r.int(1, 2)
    q, k, v = r.normal([b, h, d], t), r.normal([pages, g, size, d], t), r.normal([pages, g, size, d], t)
    table, lengths = r.ints([b, count], 0, pages - 1), r.ints([b], 1, count * size)
    scale = r.pick([0.0, 0.5])
    ys = []
    for i in range(b):
        own = [x[table[i]].transpose(0, 1).flatten(1, 2)[:, :int(lengths[i])].repeat_interleave(h // g, 0) for x in (k, v)]
        weights = torch.softmax(torch.einsum("hd,hnd->hn", q[i], own[0]) * (scale or 1 / math.sqrt(d)), -1)
        ys.append(torch.einsum("hn,hnd->hd", weights, own[1]))
    return Case(name, [q, k, v, table, lengths], {"scale": scale}, torch.stack(ys))


@op("cross_entropy")
def losses(r):
    x = r.normal([r.int(1, 4), r.int(2, 6)], r.wide())
    targets = r.ints([x.shape[0]], 0, x.shape[1] - 1)
    targets[1:] = torch.where(r.ints([x.shape[0] - 1], 0, 3) == 0, -100, targets[1:])
    reduction, smoothing = r.pick(["none", "mean", "sum"]), r.pick([0.0, 0.125])
    y = F.cross_entropy(x, targets, reduction=reduction, label_smoothing=smoothing)
    return Case("cross_entropy", [x, targets], {"reduction": reduction, "ignore": -100, "smoothing": smoothing}, y)


@op("triangle", "quantise", "dequantise")
def others(r, name):
    if name == "triangle":
        x, d, upper = r.normal(r.shape(2, 3), r.floats()), r.int(-2, 2), bool(r.int(0, 1))
        return Case(name, [x], {"diagonal": d, "upper": upper}, (torch.triu if upper else torch.tril)(x, d), exact=True)
    scale, zero = torch.tensor(r.pick([0.5, 0.25, 2.0])), r.ints([], -3, 3, "i8")
    x = r.normal([3, 4]) * 20
    q = torch.quantize_per_tensor(x, float(scale), int(zero), torch.qint8)
    if name == "quantise":
        return Case(name, [x, scale, zero], {"type": "i8", "axis": -1}, q.int_repr())
    return Case(name, [q.int_repr(), scale, zero], {"type": "f32", "axis": -1}, q.dequantize())


# --- optimisers: one step by PyTorch's from any state, differentiated through ---
@op("sgd_step", "momentum_step", "adam_step", "adagrad_step", "lamb_step")
def optimisers(r, name):
    t, decay, lr = r.wide(), r.pick([0.0, 0.125]), 0.0625
    p, grad, m, v = (r.normal([3, 2], t) for _ in range(4))
    v = (v.detach().abs() + 0.25).requires_grad_()
    count, nesterov, decoupled = float(r.int(1, 4)), bool(r.int(0, 1)), bool(r.int(0, 1))
    rate, step = torch.tensor(lr, dtype=p.dtype), torch.tensor(count, dtype=p.dtype)
    attrs = {"weight_decay": decay}
    if name == "lamb_step":  # by the paper: PyTorch has none
        new_m, new_v = 0.875 * m + 0.125 * grad, 0.96875 * v + 0.03125 * grad * grad
        direction = new_m / (1 - 0.875**count) / ((new_v / (1 - 0.96875**count)).sqrt() + 1e-6) + decay * p
        after = [p - lr * p.norm() / direction.norm() * direction, new_m, new_v]
        return Case(name, [p, grad, m, v, rate, step], {**attrs, "beta1": 0.875, "beta2": 0.96875, "eps": 1e-6}, after)
    param = p.clone()
    known = {"differentiable": True, "weight_decay": decay, "foreach": False}
    if name == "sgd_step":
        o = torch.optim.SGD([param], lr, **known)
    elif name == "momentum_step":
        attrs.update(momentum=0.75, dampening=0.0 if nesterov else 0.25, nesterov=nesterov)
        o = torch.optim.SGD([param], lr, momentum=0.75, dampening=attrs["dampening"], nesterov=nesterov, **known)
    elif name == "adam_step":
        attrs.update(beta1=0.875, beta2=0.96875, eps=1e-6, decoupled=decoupled)
        o = (torch.optim.AdamW if decoupled else torch.optim.Adam)([param], lr, (0.875, 0.96875), 1e-6, **known)
    else:
        attrs.update(eps=1e-6)
        o = torch.optim.Adagrad([param], lr, eps=1e-6, **known)
    states = {"sgd_step": {}, "momentum_step": {"momentum_buffer": m}, "adam_step": {"exp_avg": m, "exp_avg_sq": v}, "adagrad_step": {"sum": v}}[name]
    o.state[param].update({key: x.clone() for key, x in states.items()})
    if name in ("adam_step", "adagrad_step"):
        o.state[param]["step"] = torch.tensor(count - 1, dtype=torch.float64)
    param.grad = grad
    o.step()
    after = [param] + [o.state[param][key] for key in states]
    operands = [p, grad] + list(states.values()) + [rate] + ([step] if name == "adam_step" else [])
    return Case(name, operands, attrs, after)
