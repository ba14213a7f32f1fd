"""As handlers.py, of sums, indices, convolutions, norms and losses."""
import itertools
import math

import torch

import extents
from handlers import along, out_extent, to_end
from importer import Expression, Value, handles, is_number, listed


# --- reductions ---
@handles("sum", "sum.dim_IntList", "prod", "prod.dim_int", "cumsum", "cumprod", "mean", "mean.dim", "softmax.int", "log_softmax.int",
         "linalg_vector_norm", "_to_copy")
def typed(b, env):
    x, dtype = env["self"], env.get("dtype")
    name = env["name"].split("::")[1]
    if name == "_to_copy":
        env["dtype"] = env["dtype"] or x.element
        return
    if dtype is not None:
        env["self"] = b.cast(x, b.type_name(dtype))
    elif not x.is_float and name.split(".")[0] in ("sum", "prod", "cumsum", "cumprod"):
        env["self"] = b.cast(x, "i64")
    return norm_words(b, env) if name == "linalg_vector_norm" else {}


def norm_words(b, env):
    p = env.get("ord", env.get("p"))
    p = 2.0 if p is None else p
    over = "{axes=dim, keep=keepdim, kind="
    expression = {0: "cast{to=type of self}(reduce" + over + "sum}(cast{to=type of self}(cmp{pred=ne}(self, 0))))", 1: "reduce" + over + "sum}(abs(self))",
                  2: "sqrt(reduce" + over + "sum}(mul(self, self)))", math.inf: "reduce" + over + "max}(abs(self))",
                  -math.inf: "reduce" + over + "min}(abs(self))"}.get(p)
    env["ord"] = env["p"] = float(p)
    return {"expression": expression} if expression else {}


@handles("norm.ScalarOpt_dim")
def norm(b, env):
    return norm_words(b, env)


@handles("amax", "amin")
def extreme(b, env):
    kind = {"amax": "or", "amin": "and"}[env["name"][6:]]
    return {"expression": f"reduce{{kind={kind}, axes=dim, keep=keepdim}}(self)"} if env["self"].element == "i1" else {}


@handles("var.dim", "var.correction", "std.correction", "var_mean.correction")
def spread(b, env):
    correction = env.get("correction", int(env["unbiased"]) if "unbiased" in env else None)
    correction = 1 if correction is None else correction
    if correction == int(correction):
        return {"correction": int(correction)}
    x = env["self"]
    axes = [along(x, d) for d in env["dim"]] if env["dim"] else list(range(x.rank))
    mean = b.call("mean", [x], {"axes": axes, "keep": True})
    d = b.call("sub", [x, mean])
    total = b.call("reduce", [b.call("mul", [d, d])], {"kind": "sum", "axes": axes, "keep": env["keepdim"]})
    y = b.call("div", [total, math.prod(x.shape[a] for a in axes) - correction])
    kept = b.call("mean", [x], {"axes": axes, "keep": env["keepdim"]})
    return {"std": [b.call("sqrt", [y])] if "std" in env["name"] else [], "var_mean": [y, kept]}.get(
        env["name"][6:].split(".")[0]) or [y]


@handles("_softmax", "_log_softmax")
def half(b, env):
    if env["half_to_float"]:
        env["self"] = b.cast(env["self"], "f32")


# --- indices ---
def index_places(env):
    """Axes that have an index, the indices broadcast together, and where NumPy puts the points."""
    indices = env["indices"]
    axes = [i for i, x in enumerate(indices) if x is not None]
    neighbours = axes == list(range(axes[0], axes[-1] + 1))
    return axes, [indices[i] for i in axes], axes[0] if neighbours else 0


@handles("index.Tensor", "index_put")
def indexed(b, env):
    axes, indices, at = index_places(env)
    if indices[0].element == "i1":
        mask = b.reshape(indices[0], indices[0].shape + [1] * (env["self"].rank - indices[0].rank))
        return [b.call("select", [mask, env["values"], env["self"]])]
    shape = extents.broadcast(*[i.shape for i in indices])
    env["indices"] = [b.broadcast(i, shape) for i in indices]
    rank = env["self"].rank - len(axes) + len(shape)
    front = list(range(at)) + list(range(at + len(shape), rank))
    order = [at + i for i in range(len(shape))] + front  # the points first
    if "values" not in env:
        (y,) = Expression.of(b, env, env, {"axes that have one": axes})
        return [b.permute(y, [order.index(i) for i in range(rank)])]
    parts = [e for i, e in enumerate(env["self"].shape) if i not in axes]
    env["values"] = b.permute(b.broadcast(env["values"], parts[:at] + shape + parts[at:]), order)
    kind = "add" if env["accumulate"] else "set"
    return {"axes that have one": axes, "expression": f"index_put{{axes=axes that have one, kind={kind}}}(self, values, indices)"}


@handles("index_select")
def index_selected(b, env):
    x, dim, index = env["self"], along(env["self"], env["dim"]), env["index"]
    env["index"] = b.reshape(index, [math.prod(index.shape)])
    (y,) = Expression.of(b, env, env, {"dim": [dim]})
    return [to_end(b, y, dim)]


@handles("index_add")
def index_added(b, env):
    x, dim = env["self"], along(env["self"], env["dim"])
    env["source"] = b.permute(env["source"], [dim] + [i for i in range(x.rank) if i != dim])
    return {"dim": [dim]}


@handles("gather", "scatter.src", "scatter.value", "scatter_add", "scatter_reduce.two")
def by_places(b, env):
    x, index, dim = env["self"], env["index"], along(env["self"], env["dim"])
    env["dim"] = dim
    part = x
    for axis, e in enumerate(index.shape):
        if axis != dim:
            part = b.slice(part, axis, 0, e) if e != part.shape[axis] else part
    if "src" in env:
        for axis, e in enumerate(index.shape):
            env["src"] = b.slice(env["src"], axis, 0, e) if e != env["src"].shape[axis] else env["src"]
    env["self"] = part
    if "gather" in env["name"]:
        return {}
    (y,) = reduced(b, env) if "reduce" in env else Expression.of(b, env, env, {})
    return [into(b, x, y)]


def into(b, x, part):
    """x with its first places along all axes those of the part."""
    if x.shape == part.shape:
        return part
    for axis in range(x.rank):
        if part.shape[axis] == x.shape[axis]:
            continue
        whole = x
        for before in range(axis + 1, x.rank):
            whole = b.slice(whole, before, 0, part.shape[before])
        part = b.call("cat", [part, b.slice(whole, axis, part.shape[axis], x.shape[axis])], {"axis": axis})
    return part


def reduced(b, env):
    x, index, src, dim = env["self"], env["index"], env["src"], env["dim"]
    mode = env["reduce"]
    kind = {"sum": "add", "prod": "mul", "amin": "min", "amax": "max", "mean": "add"}[mode]
    ones = b.call("scatter", [b.full(x.element, x.shape, 0), index, 1], {"axis": dim, "kind": "add"})
    written = b.call("cmp", [ones, 0], {"pred": "ne"})
    if not env["include_self"]:
        neutral = {"add": 0.0, "mul": 1.0, "min": math.inf, "max": -math.inf}[kind]
        x = b.call("select", [written, neutral, x])
    y = b.call("scatter", [x, index, src], {"axis": dim, "kind": kind})
    if mode == "mean":
        count = b.call("add", [ones, 1.0]) if env["include_self"] else b.call("select", [written, ones, 1.0])
        y = b.call("div", [y, count])
    return [y]


@handles("masked_scatter")
def mask_filled(b, env):
    x = env["self"]
    flat = {key: b.reshape(v, [math.prod(v.shape)]) for key, v in
            {"self": x, "mask": b.broadcast(env["mask"], x.shape), "source": env["source"]}.items()}
    (y,) = Expression.of(b, env, {**env, **flat}, {})
    return [b.reshape(y, x.shape)]


@handles("embedding_dense_backward")
def rows_added(b, env):
    g, indices, rows = env["grad_output"], env["indices"], env["num_weights"]
    if env["scale_grad_by_freq"]:
        counts = b.emit("histogram", [b.reshape(indices, [math.prod(indices.shape)])], {"bins": rows})
        each = b.cast(b.call("index", [counts, indices], {"axes": [0]}), g.element)
        env["grad_output"] = g = b.call("div", [g, b.reshape(each, each.shape + [1])])
    if env["padding_idx"] >= 0:
        counts = b.call("cmp", [indices, env["padding_idx"]], {"pred": "ne"})
        env["grad_output"] = b.call("select", [b.reshape(counts, counts.shape + [1]), g, 0.0])
    return {"rows": [rows, g.shape[-1]]}


@handles("_embedding_bag")
def bags(b, env):
    if env["include_last_offset"]:
        env["offsets"] = b.slice(env["offsets"], 0, 0, env["offsets"].shape[0] - 1)
    if env["padding_idx"] >= 0:
        indices, weights = env["indices"], env["per_sample_weights"]
        kept = b.cast(b.call("cmp", [indices, env["padding_idx"]], {"pred": "ne"}), env["weight"].element)
        env["per_sample_weights"] = kept if weights is None else b.call("mul", [weights, kept])
        if env["mode"] == 1:
            attrs = {"mode": "sum"}
            total = b.call("embedding_bag", [env["weight"], indices, env["offsets"], kept], attrs)
            ones = b.full(kept.element, [env["weight"].shape[0], 1], 1)
            count = b.call("embedding_bag", [ones, indices, env["offsets"], kept], attrs)
            return [b.call("div", [total, b.call("max", [count, 1.0])])]


@handles("bincount")
def counted(b, env):
    weights = env["weights"]
    if weights is not None:
        zeros = b.full(weights.element, [env["minlength"]], 0)
        return [b.call("index_put", [zeros, weights, env["self"]], {"axes": [0], "kind": "add"})]


@handles("histc")
def bins(b, env):
    x, n, low, high = env["self"], env["bins"], env["min"], env["max"]
    place = b.cast(b.call("floor", [b.call("div", [b.call("mul", [b.call("sub", [x, low]), n]), high - low])]), "i64")
    place = b.call("select", [b.call("cmp", [x, high], {"pred": "eq"}), n - 1, place])
    return [b.cast(b.emit("histogram", [place], {"bins": n}), x.element)]


@handles("cummax")
def running_max(b, env):
    t = env["self"].element
    b.bodies.append(f"body @larger(%a: {t}[], %i: i64[], %b: {t}[], %j: i64[]) {{\n  %later = cmp %b, %a {{pred = ge}} : i1[]\n"
                    f"  %v = select %later, %b, %a : {t}[]\n  %k = select %later, %j, %i : i64[]\n  output v = %v\n  output k = %k\n}}\n\n")
    dim = along(env["self"], env["dim"])
    places = b.emit("iota", [], {"type": "i64", "shape": env["self"].shape, "axis": dim})
    return b.emit("scan_custom", [env["self"], places], {"body": "@larger", "axis": dim}, results=2)


# --- pads, resizes, windows ---
@handles("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d")
def mirrored(b, env):
    x, pairs = env["self"], env["padding"]
    for i in range(len(pairs) // 2):
        axis = x.rank - 1 - i
        n = x.shape[axis]
        words = {"axis": [axis], "in - 1": n - 1, "out": n + pairs[2 * i] + pairs[2 * i + 1]}
        (y,) = Expression.of(b, env, {**env, "self": x, "padding": pairs[2 * i]}, words)
        x = to_end(b, y, axis)
    return [x]


@handles("upsample_bilinear2d.vec", "upsample_nearest2d.vec", "upsample_bicubic2d.vec")
def resized(b, env):
    size = env["output_size"] or [math.floor(n * f) for n, f in zip(env["input"].shape[2:], env["scale_factors"])]
    return {"output_size": size}


def windows(env, spatial):
    two = {key: listed(env[key], 2) for key in ("kernel_size", "stride", "padding", "dilation")}
    return two, [out_extent(*v, False) for v in zip(spatial, two["kernel_size"], two["stride"], two["padding"], two["dilation"])]


@handles("im2col")
def columns(b, env):
    x = env["self"]
    n, c = x.shape[:2]
    words, outs = windows(env, x.shape[2:])
    k = math.prod(words["kernel_size"])
    env["self"] = b.reshape(x, [n * c, 1] + x.shape[2:])
    return {**words, "square": [k, k], "windows": [k, 1] + words["kernel_size"], "columns": [n, c * k, math.prod(outs)]}


@handles("col2im")
def from_columns(b, env):
    x, space = env["self"], env["output_size"]
    words, outs = windows(env, space)
    k = math.prod(words["kernel_size"])
    n, c = x.shape[0], x.shape[1] // k
    words.update({"square": [k, k], "windows": [k, 1] + words["kernel_size"], "parted": [n * c, k] + outs, "output_size": space})
    (y,) = Expression.of(b, env, env, words)
    return [b.reshape(y, [n, c] + space)]


@handles("convolution")
def convolved(b, env):
    x, w = env["input"], env["weight"]
    axes = x.rank - 2
    words = {key: listed(env[key], axes) for key in ("stride", "padding", "dilation")}
    if not env["transposed"]:
        if env["bias"] is None:
            words["expression"] = "conv{strides=stride, low=padding, high=padding, dilation=dilation, groups=groups}(input, weight)"
        return words
    extra = listed(env["output_padding"], axes)
    shape = [(n - 1) * s - 2 * p + d * (k - 1) + 1 + e for n, s, p, d, k, e in
             zip(x.shape[2:], words["stride"], words["padding"], words["dilation"], w.shape[2:], extra)]
    y = b.call("conv_input", [x, w], {"shape": shape, "strides": words["stride"], "low": words["padding"], "high": words["padding"],
                                      "dilation": words["dilation"], "groups": env["groups"]})
    return [y if env["bias"] is None else b.call("add", [y, b.reshape(env["bias"], [-1 if False else y.shape[1]] + [1] * axes)])]


@handles("convolution_backward")
def convolved_backward(b, env):
    axes = env["input"].rank - 2
    words = {key: listed(env[key], axes) for key in ("stride", "padding", "dilation")}
    if not env["transposed"]:
        return words
    attrs = {"strides": words["stride"], "low": words["padding"], "high": words["padding"], "dilation": words["dilation"], "groups": env["groups"]}
    g, x, w = env["grad_output"], env["input"], env["weight"]
    return [b.call("conv", [g, w], attrs), b.call("conv_weight", [g, x], {"window": w.shape[2:], **attrs}),
            b.call("reduce", [g], {"kind": "sum", "axes": [i for i in range(g.rank) if i != 1], "keep": False})]


@handles("grid_sampler_2d")
def sampled(b, env):
    """By linear weights or to the nearest, with zeros or the edges outside."""
    x, grid = env["input"], env["grid"]
    n, c, h, w = x.shape
    corners = env["align_corners"]

    def unscaled(axis, extent):
        g = b.reshape(b.slice(grid, 3, axis, axis + 1), grid.shape[:3])
        p = b.call("mul", [b.call("add", [g, 1.0]), (extent - 1) / 2 if corners else extent / 2])
        p = p if corners else b.call("sub", [p, 0.5])
        return b.call("min", [b.call("max", [p, 0.0]), float(extent - 1)]) if env["padding_mode"] == 1 else p

    def picked(py, px):
        iy, ix = b.cast(py, "i64"), b.cast(px, "i64")
        inside = None
        for i, extent in ((iy, h), (ix, w)):
            for test in (b.call("cmp", [i, 0], {"pred": "ge"}), b.call("cmp", [i, extent], {"pred": "lt"})):
                inside = test if inside is None else b.call("and", [inside, test])
        iy, ix = (b.call("min", [b.call("max", [i, 0]), e - 1]) for i, e in ((iy, h), (ix, w)))
        image = b.broadcast(b.reshape(b.emit("iota", [], {"type": "i64", "shape": [n], "axis": 0}), [n, 1, 1]), iy.shape)
        y = b.call("index", [x, image, iy, ix], {"axes": [0, 2, 3]})  # [n, oh, ow, c]
        return b.call("select", [b.reshape(inside, inside.shape + [1]), y, 0.0])

    px, py = unscaled(0, w), unscaled(1, h)
    if env["interpolation_mode"] == 1:
        return [b.permute(picked(b.call("round", [py]), b.call("round", [px])), [0, 3, 1, 2])]
    fy, fx = b.call("floor", [py]), b.call("floor", [px])
    total = None
    for dy, dx in itertools.product((0, 1), (0, 1)):
        cy, cx = b.call("add", [fy, float(dy)]), b.call("add", [fx, float(dx)])
        weight = b.call("mul", [b.call("sub", [1.0, b.call("abs", [b.call("sub", [py, cy])])]),
                                b.call("sub", [1.0, b.call("abs", [b.call("sub", [px, cx])])])])
        part = b.call("mul", [picked(cy, cx), b.reshape(weight, weight.shape + [1])])
        total = part if total is None else b.call("add", [total, part])
    return [b.permute(total, [0, 3, 1, 2])]


# --- norms ---
@handles("native_group_norm")
def group_words(b, env):
    return {"rest": env["C"] // env["group"] * env["HxW"]}


@handles("native_group_norm_backward")
def group_backward(b, env):
    n, c, s, g = env["N"], env["C"], env["HxW"], env["group"]
    if env["weight"] is None:
        env["weight"] = b.full(env["input"].element, [c], 1)
    return {"rest": c // g * s}


@handles("native_layer_norm", "layer_norm", "rms_norm", "native_layer_norm_backward")
def last_axes(b, env):
    x, count = env["input"], len(env["normalized_shape"])
    if "rms" in env["name"] and env["eps"] is None:
        env["eps"] = torch.finfo({"f64": torch.float64, "f32": torch.float32}.get(x.element, torch.float32)).eps
    if "backward" in env["name"] and env["weight"] is None:
        env["weight"] = b.full(x.element, env["normalized_shape"], 1)
    tail = list(range(x.rank - count, x.rank))
    return {"layer_norm.axes": count, "axes": tail, "axes of normalized_shape": count, "others": list(range(x.rank - count))}


@handles("_native_batch_norm_legit")
def batch_norm(b, env):
    return {} if env["training"] else {"expression": "batch_norm{eps=eps}(input, running_mean, running_var, weight, bias)"}


# --- products, distances ---
@handles("matmul")
def product(b, env):
    x, y = env["self"], env["other"]
    a, c = x, y
    a = b.reshape(x, [1] + x.shape) if x.rank == 1 else x
    c = b.reshape(y, y.shape + [1]) if y.rank == 1 else y
    front = extents.broadcast(a.shape[:-2], c.shape[:-2])
    a, c = b.broadcast(a, front + a.shape[-2:]), b.broadcast(c, front + c.shape[-2:])
    batch = list(range(len(front)))
    z = b.call("dot", [a, c], {"batch_a": batch, "batch_b": batch, "contract_a": [a.rank - 1], "contract_b": [c.rank - 2], "type": a.element})
    shape = front + ([] if x.rank == 1 else [a.shape[-2]]) + ([] if y.rank == 1 else [c.shape[-1]])
    return [b.reshape(z, shape)]


@handles("_cdist_forward", "_pdist_forward")
def distances(b, env):
    p = env["p"]
    d = "d = abs(sub(x1, x2)); "
    if "x1" in env:
        x, y = env["x1"], env["x2"]
        env["x1"], env["x2"] = b.reshape(x, x.shape[:-1] + [1, x.shape[-1]]), b.reshape(y, y.shape[:-2] + [1] + y.shape[-2:])
    else:
        pairs = list(itertools.combinations(range(env["self"].shape[0]), 2))
        env["x1"], env["x2"] = (b.call("index", [env["self"], b.emit("constant", [], {"type": "i64", "shape": [len(pairs)], "data": [q[i] for q in pairs]})],
                                       {"axes": [0]}) for i in range(2))
        d = "d = abs(sub(x1, x2)); "
    sums = "reduce{kind=sum, axes=[-1]}"
    known = {0: f"{sums}(cast{{to=type of x1}}(cmp{{pred=ne}}(d, 0)))", 1: f"{sums}(d)", 2: f"sqrt({sums}(mul(d, d)))",
             math.inf: "reduce{kind=max, axes=[-1]}(d)"}
    return {"expression": d + known.get(p, f"pow({sums}(pow(d, p)), div(1, p))")}


# --- losses ---
def settled(reduction, each):
    return {0: each, 1: f"mean{{axes=all}}({each})", 2: f"reduce{{kind=sum, axes=all}}({each})"}[reduction]


@handles("mse_loss")
def squares(b, env):
    return {"expression": "d = sub(self, target); " + settled(env["reduction"], "mul(d, d)")}


@handles("binary_cross_entropy_with_logits")
def clicks(b, env):
    each = "sub(add(max(self, 0), log1p(exp(neg(abs(self))))), mul(self, target))"
    if env["pos_weight"] is not None:
        each = "mul(sub(1, target), self), mul(add(1, mul(sub(pos_weight, 1), target)), add(max(neg(self), 0), log1p(exp(neg(abs(self))))))"
        each = f"add({each})"
    if env["weight"] is not None:
        each = f"mul({each}, weight)"
    return {"expression": settled(env["reduction"], each)}


@handles("nll_loss_forward")
def picked_loss(b, env):
    reduction, weight = env["reduction"], env["weight"]
    if weight is None:
        env["weight"] = b.full(env["self"].element, [env["self"].shape[1]], 1)
    return {"rows": [env["target"].shape[0], 1], "flat": env["target"].shape, "expression": env["row"]["expression"] if reduction == 0 else (
        env["row"]["expression"].rsplit(";", 1)[0] + "; l = " + env["row"]["expression"].rsplit(";", 1)[1].strip() +
        "; n = reduce{kind=sum, axes=all}(c); t = reduce{kind=sum, axes=all}(l); " + ("div(t, n), n" if reduction == 1 else "t, n"))}


@handles("nll_loss_backward")
def picked_loss_backward(b, env):
    x, g = env["self"], env["grad_output"]
    if env["weight"] is None:
        env["weight"] = b.full(x.element, [x.shape[1]], 1)
    if env["reduction"] == 1:
        env["grad_output"] = b.call("div", [g, env["total_weight"]])
    return {"rows": [x.shape[0], 1]}


@handles("cross_entropy_loss")
def entropy(b, env):
    x = env["self"]
    if x.rank > 1:
        env["self"] = b.permute(x, [i for i in range(x.rank) if i != 1] + [1])


@handles("scaled_dot_product_attention")
def attended(b, env):
    q, k, v, mask = env["query"], env["key"], env["value"], env["attn_mask"]
    front = q.shape[:-2]

    def four(x):
        return b.reshape(x, [1] * (4 - x.rank) + x.shape if x.rank < 4 else x.shape)
    env["query"], env["key"], env["value"] = four(q), four(k), four(v)
    (y,) = Expression.of(b, env, env, {})
    return [b.reshape(y, front + [q.shape[-2], v.shape[-1]])]


# --- others ---
@handles("pow.Tensor_Tensor", "pow.Scalar", "pow.Tensor_Scalar")
def power(b, env):
    x, p = env["self"], env["exponent"]
    if any(isinstance(v, float) or getattr(v, "is_float", False) for v in (x, p)):
        return {}
    element = b.common([v for v in (x, p) if isinstance(v, Value)])
    if is_number(p):
        y = b.full(element, x.shape, 1)
        for _ in range(p):
            y = b.call("mul", [y, x])
        return [y]
    wide = [float(v) if is_number(v) else b.cast(v, "f64") for v in (x, p)]
    return [b.cast(b.call("pow", wide), element)]


@handles("softplus")
def soft(b, env):
    beta = env["beta"]
    if beta != 1:
        return [b.call("div", [b.call("softplus", [b.call("mul", [env["self"], float(beta)])]), float(beta)])]


@handles("elu")
def elu_words(b, env):
    if env["scale"] == 1 and env["input_scale"] == 1:
        return {"expression": "elu{alpha=alpha}(self)"}


@handles("gelu_backward")
def gelu_back(b, env):
    if env["approximate"] == "tanh":
        k, c = math.sqrt(2 / math.pi), 0.044715
        return {"expression": f"q = mul(self, self); t = tanh(mul(self, mul({k!r}, add(1, mul({c!r}, q))))); "
                              f"d = mul({k!r}, add(1, mul({3 * c!r}, q))); "
                              "mul(grad_output, add(mul(0.5, add(1, t)), mul(mul(0.5, self), mul(sub(1, mul(t, t)), d))))"}


@handles("empty.memory_format", "empty_strided", "zeros", "ones", "full", "rand", "randn", "scalar_tensor", "full_like", "zeros_like", "ones_like",
         "fill.Scalar", "randperm")
def made(b, env):
    out = {}
    if isinstance(env.get("self"), Value):
        env["dtype"] = env.get("dtype") or env["self"].element
    if "full" in env["name"] and "self" not in env:
        out["default dtype"] = {bool: "i1", int: "i64", float: "f32"}[type(env["fill_value"])]
    if "randperm" in env["name"]:
        out["default dtype"] = "i64"
    if "randn" in env["name"]:
        size = list(env["size"])
        out.update({"2 and size": [2] + size, "size": size})
    return out


@handles("dropout", "native_dropout", "bernoulli.p")
def random(b, env):
    if env.get("train") is False or ("native" in env["name"] and env.get("train") is None):
        ones = [b.full("i1", env["input"].shape, 1)] if "native" in env["name"] else []
        return [env["input"]] + ones
    return {"=p": int(env["p"] * 2.0**32)} if "native" in env["name"] else {}
