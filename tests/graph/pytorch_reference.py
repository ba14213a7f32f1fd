#!/usr/bin/env python3
"""pytorch_reference.py [--rounds N] [--seed N] KILN [OP…]: ops of graphs on random cases, by `kiln graph run` and by PyTorch on the CPU.

Each case is a graph of one node in text form and its inputs as .npy files. Prints a line for each op: cases, and the greatest
difference in units of what is allowed. Exits with 77 where there is no PyTorch. A long suite: KILN_PYTORCH names a Python that
has it (tests/README.md).
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "i1",
         torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8"}
TORCH = {name: t for t, name in TYPES.items()}
# What a result may differ by, relative and absolute: sums of a few dozen elements of about 1.
ALLOWED = {"f32": (2e-5, 2e-5), "f64": (1e-12, 1e-12), "f16": (4e-3, 4e-3), "bf16": (3e-2, 3e-2)}


class Case:
    """One node: operands (tensor or None), attributes as text, and what PyTorch gives."""

    def __init__(self, op, operands, attrs, results, exact=False):
        self.op, self.operands, self.attrs = op, operands, attrs
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


def type_text(x):
    return f"{TYPES[x.dtype]}[{', '.join(map(str, x.shape))}]"


def attr_text(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(attr_text(v) for v in value) + "]"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ("-inf" if value < 0 else "inf" if value > 0 else "nan")
    return str(value)


def to_numpy(x):
    x = x.detach().contiguous()
    return x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()


def from_numpy(array, dtype):
    if dtype == torch.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def run(kiln, case, folder):
    """Tensors, or what went wrong."""
    graph = os.path.join(folder, "case.kg")
    with open(graph, "w") as file:
        file.write(case.text())
    words = [kiln, "graph", "run", graph]
    for i, x in enumerate(x for x in case.operands if x is not None):
        np.save(os.path.join(folder, f"x{i}.npy"), to_numpy(x))
        words += ["--input", f"x{i}=@{folder}/x{i}.npy"]
    for i in range(len(case.results)):
        words += ["--output", f"y{i}=@{folder}/y{i}.npy"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return [from_numpy(np.load(f"{folder}/y{i}.npy"), y.dtype) for i, y in enumerate(case.results)], ""


def difference(case, got):
    """In units of what is allowed; infinite where shapes, NaN or infinities differ."""
    worst = 0.0
    for y, expected in zip(got, case.results):
        if y.shape != expected.shape:
            return math.inf
        if case.exact or not expected.dtype.is_floating_point:
            same = torch.equal(torch.nan_to_num(y.double()), torch.nan_to_num(expected.double()))
            if not same or not torch.equal(y.isnan(), expected.isnan()):
                return math.inf
            continue
        relative, absolute = ALLOWED[TYPES[expected.dtype]]
        a, b = y.double(), expected.detach().double()
        apart = (a - b).abs() / (absolute + relative * b.abs())
        apart = torch.where((a == b) | (a.isnan() & b.isnan()), torch.zeros_like(apart), apart)
        if apart.numel():
            worst = max(worst, float(torch.nan_to_num(apart, nan=math.inf).max()))
    return worst


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
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(TORCH[t])

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
         "softplus": lambda x: F.softplus(x, threshold=1e9), "mish": F.mish, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish,
         "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
         "asin": torch.asin, "acos": torch.acos, "tan": torch.tan}
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt"}


@op(*UNARY)
def unary(r, name):
    x = r.normal(r.shape(least=0), r.floats())
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
        return Case(name, [x, value], {"low": low, "high": high, "inner": [0] * n}, F.pad(x, both, value=float(value)), exact=True)
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
    dx, dw = torch.autograd.grad(y, [x, w], g)
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
    return Case(name, [x, g], {"kind": "max", **every}, torch.autograd.grad(y, x, g)[0])


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
    return Case(name, [g], {"shape": list(x.shape[2:]), "mode": mode, "corners": corners}, torch.autograd.grad(y, x, g)[0])


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
        return Case(name, [x, w, b], {"groups": groups, "eps": eps}, F.group_norm(x, groups, w, b, eps))
    mean, variance = r.normal([4], t), r.normal([4], t).abs() + 0.5
    if name == "batch_norm":
        return Case(name, [x, mean, variance, w, b], {"eps": eps}, F.batch_norm(x, mean, variance, w, b, False, 0.1, eps))
    m, v = mean.clone(), variance.clone()
    y = F.batch_norm(x, m, v, w, b, True, 0.25, eps)
    return Case(name, [x, mean, variance, w, b], {"eps": eps, "momentum": 0.25}, [y, m, v])


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


# --- optimisers: several steps by PyTorch's, the last of which is the node's ---
@op("sgd_step", "momentum_step", "adam_step", "adagrad_step")
def optimisers(r, name):
    t, decay, lr = r.wide(), r.pick([0.0, 0.125]), 0.0625
    p = r.normal([3, 2], t).requires_grad_()
    nesterov, decoupled = bool(r.int(0, 1)), bool(r.int(0, 1))
    if name == "sgd_step":
        o = torch.optim.SGD([p], lr, weight_decay=decay)
    elif name == "momentum_step":
        o = torch.optim.SGD([p], lr, momentum=0.75, dampening=0 if nesterov else 0.25, nesterov=nesterov, weight_decay=decay)
    elif name == "adam_step":
        o = (torch.optim.AdamW if decoupled else torch.optim.Adam)([p], lr, (0.875, 0.96875), 1e-6, decay)
    else:
        o = torch.optim.Adagrad([p], lr, weight_decay=decay, eps=1e-6)
    before = []
    for _ in range(r.int(2, 4)):
        state = o.state[p]
        names = {"momentum_step": ["momentum_buffer"], "adam_step": ["exp_avg", "exp_avg_sq"], "adagrad_step": ["sum"]}.get(name, [])
        before = [p.detach().clone()] + [state[n].clone() if n in state else torch.zeros_like(p) for n in names]
        p.grad = r.normal([3, 2], t)
        o.step()
        count = float(state.get("step", 0))
    after = [p.detach().clone()] + [o.state[p][n] for n in names]
    rate = torch.tensor(lr, dtype=p.dtype)
    attrs = {"weight_decay": decay}
    operands = [before[0], p.grad] + before[1:] + [rate]
    if name == "momentum_step":
        attrs.update(momentum=0.75, dampening=0.0 if nesterov else 0.25, nesterov=nesterov)
    if name == "adam_step":
        operands.append(torch.tensor(count, dtype=p.dtype))
        attrs.update(beta1=0.875, beta2=0.96875, eps=1e-6, decoupled=decoupled)
    if name == "adagrad_step":
        attrs.update(eps=1e-6)
    return Case(name, operands, attrs, after)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    total = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.ops or CASES:
            worst = 0.0
            for round_number in range(arguments.rounds):
                seed = arguments.seed * 1000003 + round_number
                case = CASES[name](Random(seed))
                got, error = run(arguments.kiln, case, folder)
                apart = math.inf if got is None else difference(case, got)
                worst, total = max(worst, apart), total + 1
                if apart > 1:
                    failed += 1
                    print(f"{name}, seed {seed}: {error or apart}\n{case.text()}  inputs {[x for x in case.operands if x is not None]}\n"
                          f"  PyTorch {case.results}\n  Kiln    {got}")
                    break
            print(f"{name}: {round_number + 1} cases, worst {worst:.3f} of what is allowed", flush=True)
    print(f"{total} cases of {len(arguments.ops or CASES)} ops beside PyTorch {torch.__version__}: {failed} ops differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
