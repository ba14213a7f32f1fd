"""What notes of the ATen table say beside its expressions: for an overload, the meaning of words, another expression, or values."""
import math

from extents import is_extent
from importer import Expression, Value, handles, is_number, listed

SMALL = ("f16", "bf16")


def along(x, dim):
    return dim + x.rank if dim < 0 else dim


def to_end(b, x, axis):
    """The axes of x with the first one at `axis`."""
    order = list(range(1, x.rank))
    order.insert(axis, 0)
    return b.permute(x, order)


@handles("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar")
def scaled(b, env):
    plain = {"add": "add(self, other)", "sub": "sub(self, other)", "rsub": "sub(other, self)"}
    name = env["name"].split("::")[1].split(".")[0]
    element = b.common([env["self"], env["other"]])  # of the product too
    env["self"], env["other"] = (b.cast(x, element) if isinstance(x, Value) else x for x in (env["self"], env["other"]))
    return {"expression": plain[name]} if env.get("alpha", 1) == 1 else {}


@handles("mul.Tensor", "mul.Scalar")
def multiplied(b, env):
    return {"expression": "and(self, other)"} if env["self"].element == "i1" and getattr(env["other"], "element", "") == "i1" else {}


@handles("div.Tensor", "div.Scalar", "reciprocal")
def quotient(b, env):
    operands = [env["self"], env.get("other")]
    if any(isinstance(x, float) or getattr(x, "is_float", False) for x in operands):
        return None
    env["self"] = b.cast(env["self"], "f32")


@handles("div.Tensor_mode", "div.Scalar_mode")
def rounded_quotient(b, env):
    mode, x, y = env["rounding_mode"], env["self"], env["other"]
    ints = not x.is_float and not (isinstance(y, float) or getattr(y, "is_float", False))
    if mode is None:
        quotient(b, env)
        return {"expression": "div(self, other)"}
    if ints and mode == "trunc":
        return {"expression": "div(self, other)"}
    if ints:
        return {"expression": "r = rem(self, other); q = div(self, other); select(and(cmp{pred=ne}(r, 0), xor(cmp{pred=lt}(r, 0), "
                              "cmp{pred=lt}(other, 0))), sub(q, 1), q)"}
    return {"expression": f"{mode}(div(self, other))"}


@handles("sign", "sgn")
def sign_of(b, env):
    return {"expression": "select(isnan(self), 0, sign(self))"} if env["self"].is_float else {}


@handles("ceil", "floor", "round", "trunc")
def whole(b, env):
    return [env["self"]] if not env["self"].is_float else {}


@handles("any", "any.dim", "any.dims", "all", "all.dim")
def some(b, env):
    if "dim" in env and env["dim"] == []:
        return {"expression": "cmp{pred=ne}(self, 0)"}
    kind = "and" if "all" in env["name"] else "or"
    return {"expression": f"reduce{{kind={kind}, axes=dim, keep=keepdim}}(self)"} if env["self"].element == "i1" else {}


@handles("arange.start_step")
def steps(b, env):
    numbers = [env["start"], env["end"], env["step"]]
    fractions = any(isinstance(x, float) for x in numbers)
    count = env["end"] - env["start"]
    count = count if env["step"] == 1 and is_extent(count) else math.ceil(count / env["step"])
    return {"count": count, "default dtype": "f32" if fractions else "i64", "iota.type": "f64" if fractions else "i64"}


@handles("argmax", "argmin")
def place(b, env):
    if env["dim"] is None:
        shape, env["self"] = env["self"].shape, b.reshape(env["self"], [math.prod(env["self"].shape)])
        y = b.call("arg_reduce", [env["self"]], {"kind": env["name"][-3:], "axis": 0, "keep": False})
        return [b.reshape(y, [1] * len(shape) if env["keepdim"] else [])]


@handles("as_strided")
def strided(b, env):
    size, stride, p = env["size"], env["stride"], env["storage_offset"] or 0
    for axis, step in enumerate(stride):
        p = b.call("add", [b.call("mul", [b.emit("iota", [], {"type": "i64", "shape": size, "axis": axis}), step]), p])
    p = b.full("i64", [], p) if is_number(p) else p
    return [b.call("index", [b.reshape(env["self"], [math.prod(env["self"].shape)]), p], {"axes": [0]})]


# --- pools ---
def out_extent(n, size, stride, padding, dilation, ceil):
    span = n + 2 * padding - dilation * (size - 1) - 1
    out = (span + (stride - 1 if ceil else 0)) // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= n + padding else out


def pool_words(env, spatial):
    size = listed(env["kernel_size"], len(spatial))
    stride = listed(env["stride"] or size, len(spatial))
    padding = listed(env["padding"], len(spatial))
    dilation = listed(env.get("dilation", 1), len(spatial))
    outs = [out_extent(*v, bool(env.get("ceil_mode"))) for v in zip(spatial, size, stride, padding, dilation)]
    high = [(o - 1) * s + d * (k - 1) + 1 - n - p for n, k, s, p, d, o in zip(spatial, size, stride, padding, dilation, outs)]
    return {"kernel_size": size, "stride": stride, "padding": padding, "dilation": dilation}, padding, high


@handles("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average(b, env):
    x, axes = env["self"], int(env["name"][-2])
    if x.rank == axes + 1:
        (y,) = Expression.of(b, env, {**env, "self": b.reshape(x, [1] + x.shape)})
        return [b.reshape(y, y.shape[1:])]
    words, low, high = pool_words(env, x.shape[2:])
    if env.get("divisor_override"):
        y = b.call("window", [x], {"kind": "sum", "size": [1, 1] + words["kernel_size"], "strides": [1, 1] + words["stride"], "low": [0, 0] + low,
                                   "high": [0, 0] + [max(0, h) for h in high], "dilation": [1] * x.rank})
        return [b.call("div", [y, float(env["divisor_override"])])]
    if env["ceil_mode"] and env["count_include_pad"]:
        x = b.call("pad", [x, 0.0], {"low": [0, 0] + low, "high": [0, 0] + low, "inner": [0] * x.rank})
        env["self"], env["count_include_pad"] = x, False
        return {**words, "avg_pool.low": [0] * axes, "avg_pool.high": [max(0, h - p) for h, p in zip(high, low)]}
    return {**words, "avg_pool.high": [max(p, h) for p, h in zip(low, high)] if env["ceil_mode"] else low}


def averaging(b, n, out, element):
    """[out, n]: what each place counts in each average."""
    def line(axis, extent):
        return b.emit("iota", [], {"type": "i64", "shape": [out, n], "axis": axis})
    i, at = line(0, out), line(1, n)
    start = b.call("div", [b.call("mul", [i, n]), out])
    end = b.call("div", [b.call("add", [b.call("mul", [b.call("add", [i, 1]), n]), out - 1]), out])
    inside = b.call("and", [b.call("cmp", [at, start], {"pred": "ge"}), b.call("cmp", [at, end], {"pred": "lt"})])
    return b.call("select", [inside, b.call("div", [1.0, b.cast(b.call("sub", [end, start]), element)]), 0.0])


def by_matrices(b, x, sizes, turned):
    """Each of the last axes times its matrix of averages."""
    for axis, (n, out) in enumerate(sizes, x.rank - len(sizes)):
        y = b.call("dot", [x, averaging(b, n, out, x.element)], {"batch_a": [], "batch_b": [], "contract_a": [axis],
                                                                 "contract_b": [0 if turned else 1], "type": x.element})
        order = list(range(x.rank - 1))
        order.insert(axis, x.rank - 1)
        x = b.permute(y, order)
    return x


@handles("adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive(b, env):
    x, out = env["self"], env["output_size"]
    spatial = x.shape[-len(out):]
    if x.rank == len(out) + 2 and all(n % o == 0 for n, o in zip(spatial, out)):
        return {"in / out": [n // o for n, o in zip(spatial, out)]}
    return [by_matrices(b, x, list(zip(spatial, out)), False)]


@handles("_adaptive_avg_pool2d_backward")
def adaptive_backward(b, env):
    g, x = env["grad_output"], env["self"]
    sizes = list(zip(x.shape[-2:], g.shape[-2:]))
    if any(n % o for n, o in sizes):
        return [by_matrices(b, g, sizes, True)]
    parts = [n // o for n, o in sizes]
    return {"in / out": parts, "expression": "window_spread{kind=sum, size=in / out, strides=in / out, low=0, high=0, dilation=1}"
                                             f"(self, mul(grad_output, {1 / math.prod(parts)!r}))"}


@handles("avg_pool2d_backward")
def average_backward(b, env):
    words, low, _ = pool_words(env, env["self"].shape[2:])
    if env["count_include_pad"]:
        words["expression"] = ("window_spread{kind=sum, size=kernel_size, strides=stride, low=padding, high=padding, dilation=1}"
                               f"(self, div(grad_output, {float(math.prod(words['kernel_size']))}))")
    return words


@handles("max_pool2d_with_indices", "max_pool3d_with_indices")
def greatest(b, env):
    x, axes = env["self"], int(env["name"].split("pool")[1][0])
    if x.rank == axes + 1:
        return [b.reshape(y, y.shape[1:]) for y in Expression.of(b, env, {**env, "self": b.reshape(x, [1] + x.shape)})]
    words, _, high = pool_words(env, x.shape[2:])
    count = math.prod(x.shape[2:])
    high = [max(p, h) for p, h in zip(words["padding"], high)]
    extra = {"max_pool.high": high, "window_pick.high": high} if env["ceil_mode"] else {}
    return {**words, **extra, "plane": [1, 1] + x.shape[2:], "count": count}


@handles("max_pool2d_with_indices_backward")
def greatest_backward(b, env):
    n, c, h, w = env["self"].shape
    return {"full.shape": [n, c, h * w], "planes": [n, c, -1]}


# --- views ---
@handles("cat")
def joined(b, env):
    env["tensors"] = [x for x in env["tensors"] if x.shape != [0]] or env["tensors"][:1]


@handles("clamp")
def bounded(b, env):
    if not env["self"].is_float:
        if any(isinstance(v, float) for v in (env["min"], env["max"])):
            env["self"] = b.cast(env["self"], "f32")
        else:
            return {"expression": nested(env)}


def nested(env):
    inner = "self" if env["min"] is None else "max(self, min)"
    return inner if env["max"] is None else f"min({inner}, max)"


@handles("clamp.Tensor")
def bounded_by_tensors(b, env):
    return {"expression": nested(env)}


@handles("hardtanh")
def hard(b, env):
    return {} if env["self"].is_float else {"expression": "min(max(self, min_val), max_val)"}


@handles("relu")
def ramp(b, env):
    return {} if env["self"].is_float else {"expression": "max(self, 0)"}


@handles("constant_pad_nd")
def padded(b, env):
    x, pairs = env["self"], list(env["pad"])
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pairs) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pairs[2 * i], pairs[2 * i + 1]
    for axis in range(x.rank):
        if low[axis] < 0 or high[axis] < 0:
            x = b.slice(x, axis, max(0, -low[axis]), x.shape[axis] - max(0, -high[axis]))
    env["self"] = x
    return {"pad.low": [max(0, v) for v in low], "pad.high": [max(0, v) for v in high]}


@handles("diagonal")
def diagonal(b, env):
    x, offset = env["self"], env["offset"]
    d1, d2 = along(x, env["dim1"]), along(x, env["dim2"])
    env["dim1"], env["dim2"] = d1, d2
    length = max(0, min(x.shape[d1], x.shape[d2] - offset) if offset >= 0 else min(x.shape[d1] + offset, x.shape[d2]))
    if offset < 0:
        line = b.emit("iota", [], {"type": "i64", "shape": [length], "axis": 0})
        y = b.call("index", [x, b.call("add", [line, -offset]), line], {"axes": [d1, d2]})
    else:
        (y,) = Expression.of(b, env, env, {"length": length})
    return [b.permute(y, list(range(1, y.rank)) + [0])]


@handles("repeat")
def repeated(b, env):
    x, times = env["self"], list(env["repeats"])
    shape = [1] * (len(times) - x.rank) + x.shape
    return {"apart": [v for e in shape for v in (1, e)], "parts": [v for t, e in zip(times, shape) for v in (t, e)],
            "whole": [t * e for t, e in zip(times, shape)]}


def bounds(x, dim, start, end, step=1):
    n = x.shape[dim]
    if is_extent(n):  # all of it, or what is known to be there
        start = 0 if start is None else start if start >= 0 else start + n
        return start, n if end is None or end == n or (isinstance(end, int) and end >= 2**31) else end if end >= 0 else end + n, step
    start = 0 if start is None else start + n if start < 0 else start
    end = n if end is None else end + n if end < 0 else end
    start = min(max(start, 0), n)
    return start, max(min(max(end, 0), n), start), step


def lists(x, dim, start, end, step=1):
    parts = [(start, end, step) if i == dim else (0, e, 1) for i, e in enumerate(x.shape)]
    return {"slice.start": [p[0] for p in parts], "slice.end": [p[1] for p in parts], "slice.step": [p[2] for p in parts]}


@handles("select.int")
def selected(b, env):
    x, dim = env["self"], along(env["self"], env["dim"])
    at = env["index"] if env["index"] >= 0 else env["index"] + x.shape[dim]
    return {**lists(x, dim, at, at + 1), "rest": x.shape[:dim] + x.shape[dim + 1:]}


@handles("slice.Tensor")
def sliced(b, env):
    x, dim = env["self"], along(env["self"], env["dim"])
    return lists(x, dim, *bounds(x, dim, env["start"], env["end"], env["step"]))


@handles("slice_scatter")
def slice_put(b, env):
    x, dim = env["self"], along(env["self"], env["dim"])
    start, _, _ = bounds(x, dim, env["start"], env["end"])
    env["dim"], env["start"] = dim, start


@handles("select_scatter")
def select_put(b, env):
    x, dim = env["self"], along(env["self"], env["dim"])
    env["dim"], env["index"] = dim, env["index"] % x.shape[dim]
    return {"shape of the slice": x.shape[:dim] + [1] + x.shape[dim + 1:]}


@handles("split_with_sizes", "split.Tensor", "unbind.int", "glu", "roll")
def parts(b, env):
    x, name = env["self"], env["name"].split("::")[1]
    if name == "roll":
        for shift, dim in zip(listed(env["shifts"], 1), listed(env["dims"], 1)):
            dim = along(x, dim)
            n = x.shape[dim]
            s = shift % n if n else 0
            x = b.call("cat", [b.slice(x, dim, n - s, n), b.slice(x, dim, 0, n - s)], {"axis": dim})
        return [x]
    dim = along(x, env["dim"])
    n = x.shape[dim]
    if name == "glu":
        return [b.call("mul", [b.slice(x, dim, 0, n // 2), b.call("sigmoid", [b.slice(x, dim, n // 2, n)])])]
    sizes = env["split_sizes"] if "sizes" in name else [1] * n if name == "unbind.int" else \
        [min(env["split_size"], n - at) for at in range(0, n, env["split_size"])]
    out, at = [], 0
    for size in sizes:
        y = b.slice(x, dim, at, at + size)
        out.append(b.reshape(y, x.shape[:dim] + x.shape[dim + 1:]) if name == "unbind.int" else y)
        at += size
    return out


@handles("squeeze.dim", "squeeze.dims", "unsqueeze")
def reshaped(b, env):
    x = env["self"]
    if "un" in env["name"]:
        dim = env["dim"] + x.rank + 1 if env["dim"] < 0 else env["dim"]
        return {"shape": x.shape[:dim] + [1] + x.shape[dim:]}
    dims = [along(x, d) for d in listed(env["dim"], 1)] if env["dim"] != [] else []
    return {"shape": [e for i, e in enumerate(x.shape) if i not in dims or e != 1]}


@handles("t", "transpose.int")
def turned(b, env):
    x = env["self"]
    a, c = (along(x, env["dim0"]), along(x, env["dim1"])) if "dim0" in env else (0, 1)
    order = list(range(x.rank))
    if x.rank > 1 or "dim0" in env:
        order[a], order[c] = order[c], order[a]
    return {"exchanged": order}


@handles("stack")
def stacked(b, env):
    x = env["tensors"][0]
    env["dim"] = env["dim"] + x.rank + 1 if env["dim"] < 0 else env["dim"]
    return {"with an axis": x.shape[:env["dim"]] + [1] + x.shape[env["dim"]:]}


@handles("slice_backward", "select_backward")
def put_back(b, env):
    sizes = list(env["input_sizes"])
    dim = env["dim"] % len(sizes)
    zeros = [0] * len(sizes)
    low, high, inner = zeros[:], zeros[:], zeros[:]
    if "index" in env:
        at = env["index"] % sizes[dim]
        low[dim], high[dim] = at, sizes[dim] - at - 1
        return {"pad.low": low, "pad.high": high, "with the axis": sizes[:dim] + [1] + sizes[dim + 1:]}
    whole = Value("", "f32", sizes)
    start, end, step = bounds(whole, dim, env["start"], env["end"], env["step"])
    count = env["grad_output"].shape[dim]
    low[dim], inner[dim] = start, step - 1
    high[dim] = sizes[dim] - start - (1 + (count - 1) * step if count else 0)
    return {"pad.low": low, "pad.high": high, "pad.inner": inner}
