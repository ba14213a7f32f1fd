"""As aten_cases.py: views, indices, sums, products, windows, norms and losses."""
import math

import torch

from aten_cases import coarse, op
from kiln import TYPES


# --- views ---
@op("cat", "stack", "constant_pad_nd", "expand", "permute", "repeat", "select.int", "slice.Tensor", "slice_scatter", "select_scatter", "split_with_sizes",
    "split.Tensor", "unbind.int", "squeeze.dim", "squeeze.dims", "unsqueeze", "flip", "view", "reshape", "_unsafe_view", "t", "transpose.int", "diagonal",
    "as_strided", "as_strided_scatter", "roll", "glu", "tril", "triu", "slice_backward", "select_backward")
def views(r, name):
    x = r.any(r.shape(2 if name in ("diagonal", "tril", "triu", "roll") else 1, 4), bools=name in ("permute", "flip", "view", "cat", "expand"))
    n, dim = x.dim(), r.axis(x)
    d, t = dim % n, TYPES[x.dtype]
    e = x.shape[d]
    start, end, step = r.pick([None, r.int(-e - 1, e)]), r.pick([None, r.int(-e, e + 2)]), r.int(1, 3)

    def like(shape):
        return r.tensor(shape, t)
    if name == "cat":
        others = [r.tensor([r.int(0, 3) if i == d else v for i, v in enumerate(x.shape)], r.pick([t, t, "f32" if t[0] in "fb" else t])) for _ in range(r.int(0, 3))]
        return {"tensors": [x] + others + [torch.empty(0, dtype=x.dtype)] * r.chance(3), "dim": dim}
    if name == "stack":
        return {"tensors": [x] + [like(x.shape) for _ in range(r.int(0, 2))], "dim": r.axis(n + 1)}
    if name == "constant_pad_nd":
        pad = []
        for i in range(r.int(1, n)):
            extent = x.shape[n - 1 - i]
            low = r.int(-extent // 2, 2)
            pad += [low, r.int(-((extent + min(low, 0)) // 2), 2)]
        return {"self": x, "pad": pad, "value": r.int(0, 3)}
    if name == "expand":
        x = like([1 if r.chance() else v for v in x.shape])
        return {"self": x, "size": r.shape(0, 2) + [r.pick([r.int(1, 4) if v == 1 else v, -1]) for v in x.shape]}
    if name == "permute":
        return {"self": x, "dims": [i - n if r.chance() else i for i in r.permutation(n)]}
    if name == "repeat":
        return {"self": x, "repeats": [r.int(1, 3) for _ in range(n + r.int(0, 1))]}
    if name == "select.int":
        return {"self": x, "dim": dim, "index": r.int(-e, e - 1)}
    if name == "slice.Tensor":
        return {"self": x, "dim": dim, "start": start, "end": end, "step": step}
    if name == "slice_scatter":
        part = torch.ops.aten.slice.Tensor(x, dim, start, end, step)
        return {"self": x, "src": like(part.shape), "dim": dim, "start": start, "end": end, "step": step}
    if name == "select_scatter":
        return {"self": x, "src": like(list(x.shape[:d]) + list(x.shape[d + 1:])), "dim": dim, "index": r.int(-e, e - 1)}
    if name == "split_with_sizes":
        first = r.int(0, e)
        return {"self": x, "split_sizes": [first, e - first], "dim": dim}
    if name == "split.Tensor":
        return {"self": x, "split_size": r.int(1, e), "dim": dim}
    if name in ("unbind.int", "squeeze.dim"):
        return {"self": x, "dim": dim}
    if name == "squeeze.dims":
        return {"self": x, "dim": r.axes(n)}
    if name == "unsqueeze":
        return {"self": x, "dim": r.axis(n + 1)}
    if name == "flip":
        return {"self": x, "dims": r.axes(n)}
    if name in ("view", "reshape", "_unsafe_view"):
        shape = r.pick([[-1], [1, -1], [x.shape[0], -1, 1], list(x.shape) + [1]])
        return {"self": x, "shape" if name == "reshape" else "size": shape}
    if name == "t":
        return {"self": like(x.shape[:2])}
    if name == "transpose.int":
        return {"self": x, "dim0": dim, "dim1": r.axis(x)}
    if name == "diagonal":
        a, c = r.permutation(n)[:2]
        return {"self": x, "offset": r.int(-2, 2), "dim1": a - n if r.chance() else a, "dim2": c}
    if name == "as_strided":
        x = like([30])
        return {"self": x, "size": [3, 2, 2], "stride": [r.int(0, 5), r.int(0, 4), r.int(0, 3)], "storage_offset": r.pick([None, r.int(0, 9)])}
    if name == "as_strided_scatter":  # no place twice: which of two is written last is nobody's word
        return {"self": like([5, 6]), "src": like([3, 2, 2]), "size": [3, 2, 2], "stride": [r.int(6, 8), r.int(3, 4), r.int(1, 2)],
                "storage_offset": r.pick([None, r.int(0, 7)])}
    if name == "roll":
        dims = sorted(set(v % n for v in r.axes(n)))
        return {"self": x, "shifts": [r.int(-4, 7) for _ in dims], "dims": dims}
    if name == "glu":
        x = r.any([2 * v if i == d else v for i, v in enumerate(x.shape)], ints=False)
        return {"self": x, "dim": dim, "slack": coarse(x)}
    if name in ("tril", "triu"):
        return {"self": x, "diagonal": r.int(-2, 2)}
    if name == "slice_backward":
        start, end = start or 0, e if end is None else end
        part = torch.ops.aten.slice.Tensor(x, dim, start, end, step)
        return {"grad_output": like(part.shape), "input_sizes": list(x.shape), "dim": dim, "start": start, "end": end, "step": step}
    return {"grad_output": like(list(x.shape[:d]) + list(x.shape[d + 1:])), "input_sizes": list(x.shape), "dim": dim, "index": r.int(-e, e - 1)}


# --- indices ---
@op("embedding", "embedding_dense_backward", "_embedding_bag", "index.Tensor", "index_put", "index_select", "index_add", "gather", "scatter.src",
    "scatter.value", "scatter_add", "scatter_reduce.two", "one_hot", "bincount", "histc")
def indices(r, name):
    shape = r.shape(1, 3)
    x = r.any(shape, ints=name not in ("scatter_reduce.two", "index_add"))
    n, dim, t = x.dim(), r.axis(x), TYPES[x.dtype]
    d = dim % n
    if name.startswith("embedding"):
        table = r.any([r.int(1, 6), r.int(1, 4)], ints=False)
        ids = r.ints(r.shape(1, 3), 0, table.shape[0] - 1)
        if name == "embedding":
            return {"weight": table, "indices": ids}
        return {"grad_output": r.normal(list(ids.shape) + [3], r.wide()), "indices": ids, "num_weights": table.shape[0], "padding_idx": r.int(-1, 0),
                "scale_grad_by_freq": r.chance()}
    if name == "_embedding_bag":
        table, mode = r.normal([r.int(1, 6), 3], r.wide()), r.int(0, 2)
        ids = r.ints([r.int(1, 8)], 0, table.shape[0] - 1)
        last = r.chance()
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), r.ints([r.int(0, 3)], 0, len(ids)).sort().values] + [torch.tensor([len(ids)])] * last)
        padding = r.int(0, table.shape[0] - 1) if r.chance(3) and mode < 2 else -1
        return {"weight": table, "indices": ids, "offsets": offsets, "scale_grad_by_freq": False, "mode": mode, "sparse": False, "include_last_offset": last,
                "per_sample_weights": r.normal(ids.shape, TYPES[table.dtype]) if mode == 0 and r.chance() else None, "padding_idx": padding}
    if name in ("index.Tensor", "index_put"):
        chosen = [i for i in range(n) if r.chance()] or [r.int(0, n - 1)]
        where = r.shape(0, 2)
        put = name == "index_put"
        if put and r.chance(4):
            return {"self": x, "indices": [r.ints(shape[:r.int(1, n)], 0, 1, "i1")], "values": r.tensor([], t), "accumulate": False}
        places = [r.ints(r.broadcast(where), -x.shape[i], x.shape[i] - 1) if i in chosen else None for i in range(n)][:max(chosen) + 1]
        if not put:
            return {"self": x, "indices": places}
        y = torch.ops.aten.index.Tensor(x, places)
        accumulate = r.chance() or t in ("f16", "bf16")
        values = r.tensor(r.broadcast(list(y.shape)), t)
        if not accumulate:  # of several at one place any may stay
            values = r.tensor([], t)
        return {"self": x, "indices": places, "values": values, "accumulate": accumulate, "slack": 2 * coarse(x)}
    if name == "index_select":
        return {"self": x, "dim": dim, "index": r.ints([r.int(0, 5)], 0, x.shape[d] - 1, r.pick(["i32", "i64"]))}
    if name == "index_add":
        index = r.ints([r.int(0, 5)], 0, x.shape[d] - 1)
        source = r.tensor([len(index) if i == d else v for i, v in enumerate(x.shape)], t)
        return {"self": x, "dim": dim, "index": index, "source": source, "alpha": r.pick([1, 2]), "slack": coarse(x)}
    if name in ("one_hot", "bincount"):
        if name == "one_hot":
            return {"self": r.ints(r.shape(), 0, 4), "num_classes": r.int(5, 7)}
        ids = r.ints([r.int(1, 20)], 0, 6)
        return {"self": ids, "weights": r.normal(ids.shape, r.wide()) if r.chance() else None, "minlength": r.int(7, 9)}
    if name == "histc":
        return {"self": r.normal([30], r.wide()), "bins": r.int(1, 6), "min": -1, "max": r.int(1, 2)}
    index = r.ints([r.int(0, 4) if i == d else r.int(0 if v > 1 else 1, v) for i, v in enumerate(x.shape)], 0, x.shape[d] - 1)
    if name == "gather":
        return {"self": x, "dim": dim, "index": index}
    if name in ("scatter.src", "scatter.value"):  # of several at one place any may stay: one each
        count = r.int(0, x.shape[d])
        index = torch.stack([torch.tensor(r.permutation(x.shape[d])[:count], dtype=torch.int64)] * max(1, index.numel() // max(1, index.shape[d])))
        others = [v for i, v in enumerate(x.shape) if i != d]
        index = torch.stack([index[0]] * math.prod(others)).reshape(others + [count]).movedim(-1, d) if others else index[0]
    src = r.tensor([v + r.int(0, 1) for v in index.shape], t)
    if name == "scatter.value":
        return {"self": x, "dim": dim, "index": index, "value": r.int(0, 9)}
    more = {"reduce": r.pick(["sum", "prod", "amin", "amax", "mean"]), "include_self": r.chance()} if "reduce" in name else {}
    return {"self": x, "dim": dim, "index": index, "src": src, **more, "slack": 4 * coarse(x)}


# --- reductions, scans, orders ---
@op("any", "any.dim", "any.dims", "all", "all.dim", "argmax", "argmin", "max.dim", "min.dim", "amax", "amin", "mean", "mean.dim", "sum", "sum.dim_IntList",
    "prod", "prod.dim_int", "var.dim", "var.correction", "std.correction", "var_mean.correction", "logsumexp", "norm.ScalarOpt_dim", "linalg_vector_norm",
    "max", "min", "cumsum", "cumprod", "cummax", "sort", "topk", "_softmax", "_log_softmax", "softmax.int", "log_softmax.int", "_softmax_backward_data",
    "_log_softmax_backward_data")
def reductions(r, name):
    base = name.split(".")[0]
    ints = base in ("any", "all", "argmax", "argmin", "max", "min", "amax", "amin", "sum", "prod", "cumsum", "cumprod")
    x = r.any(r.shape(1, 4), ints=ints, bools=base in ("any", "all", "amax", "amin", "sum"))
    n, dim, keep = x.dim(), r.axis(x), r.chance()
    dtype = r.pick([None, None, torch.float64 if x.dtype.is_floating_point or "mean" in name else torch.int32])
    one = {"dim": dim, "keepdim": keep}
    several = {"dim": r.axes(n), "keepdim": keep}
    if base in ("any", "all"):
        x = x.bool() if x.dtype == torch.uint8 else x  # whose result PyTorch keeps as u8
        x = (x.double().round().clamp(-1, 1) * r.int(0, 1)).to(x.dtype) if r.chance() else x
        more = {"any": {}, "all": {}, "any.dim": one, "all.dim": one, "any.dims": {**several, "dim": r.pick([None, [], several["dim"]])}}[name]
        return {"self": x, **more}
    if base in ("argmax", "argmin"):
        return {"self": x.float(), "dim": r.pick([None, dim]), "keepdim": keep}
    if name in ("max.dim", "min.dim"):
        return {"self": x.double() if x.dtype.is_floating_point else x, **one}
    if base in ("amax", "amin"):
        return {"self": x, **several}
    if base in ("mean", "sum", "prod", "cumsum", "cumprod"):
        if base == "prod" or base == "cumprod":
            x = x.clamp(0, 2) if not x.dtype.is_floating_point else x / 2
        more = {"mean": {}, "sum": {}, "prod": {}, "mean.dim": {**several, "dim": r.pick([None, several["dim"]])},
                "sum.dim_IntList": {**several, "dim": r.pick([None, [], several["dim"]])}, "prod.dim_int": one, "cumsum": {"dim": dim},
                "cumprod": {"dim": dim}}[name]
        return {"self": x, **more, "dtype": dtype, "slack": coarse(x) * (4 if base[:3] in ("cum", "pro") else 1)}
    x = x if x.dtype.is_floating_point else x.float()
    if base in ("var", "std", "var_mean"):
        x = r.any([v + 1 for v in x.shape], ints=False)
        if name == "var.dim":
            return {"self": x, **several, "unbiased": r.chance(), "slack": coarse(x)}
        return {"self": x, **several, "correction": r.pick([None, 0, 1, 0.5]), "slack": coarse(x)}
    if name == "logsumexp":
        x = torch.where(r.ints(x.shape, 0, 5) == 0, torch.full_like(x, -math.inf), x)
        return {"self": x, **several}
    if name in ("norm.ScalarOpt_dim", "linalg_vector_norm"):
        p = r.pick([0, 1, 2, 3, 2.5, math.inf, -math.inf])
        return {"self": x, ("ord" if "linalg" in name else "p"): p, **several, "slack": 4 * coarse(x)}
    if name in ("max", "min"):
        return {"self": x}
    if name == "cummax":
        return {"self": x.round(), "dim": dim}
    if name in ("sort", "topk"):
        x = torch.tensor(r.permutation(x.numel())).reshape(x.shape).to(x.dtype if x.numel() < 100 else torch.float32) - 7
        if name == "sort":
            return {"self": x, "dim": dim, "descending": r.chance()}
        return {"self": x, "k": r.int(0, x.shape[dim]), "dim": dim, "largest": r.chance(), "sorted": True}
    if "backward" in name:
        x = r.normal(x.shape, r.wide())
        y = torch.softmax(x, dim) if "log" not in name else torch.log_softmax(x, dim)
        return {"grad_output": r.normal(x.shape, TYPES[x.dtype]), "output": y, "dim": dim, "input_dtype": x.dtype, "slack": 2}
    return {"self": x, "dim": dim, **({"half_to_float": False} if name[0] == "_" else {"dtype": r.pick([None, torch.float32])})}


# --- products ---
@op("mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "_cdist_forward", "_pdist_forward", "scaled_dot_product_attention")
def products(r, name):
    m, n, k, b = (r.int(1, 5) for _ in range(4))
    t = r.pick(["f32", "f64", "bf16", "f16"] + ["i64"] * (name in ("mm", "bmm", "matmul")))

    def make(*shape):
        return r.tensor([e for s in shape for e in (s if isinstance(s, list) else [s])], t)
    if name == "mm":
        return {"self": make(m, k), "mat2": make(k, n)}
    if name == "bmm":
        return {"self": make(b, m, k), "mat2": make(b, k, n)}
    factors = {"beta": r.int(1, 3) / 2, "alpha": r.int(1, 3) / 2, "slack": 4 if t[0] in "b" or t == "f16" else 2}
    if name == "addmm":
        return {"self": make(r.broadcast([m, n])), "mat1": make(m, k), "mat2": make(k, n), **factors}
    if name == "baddbmm":
        return {"self": make(r.broadcast([b, m, n])), "batch1": make(b, m, k), "batch2": make(b, k, n), **factors}
    if name == "matmul":
        left = r.pick([[k], [m, k], [b, m, k], [2, 1, m, k]])
        right = r.pick([[k], [k, n], [b, k, n] if len(left) < 4 else [2, 1, k, n], [1, k, n]])
        return {"self": make(left), "other": make(right)}
    if name == "linear":
        return {"input": make(r.shape(0, 2), k), "weight": make(n, k), "bias": make(n) if r.chance() else None, "slack": 2}
    p = r.pick([0.0, 1.0, 2.0, 3.0, 1.5, math.inf])
    if name == "_cdist_forward":
        t = r.wide()
        return {"x1": make(b, m, k), "x2": make(b, n, k), "p": p, "compute_mode": 2, "slack": 8}
    if name == "_pdist_forward":
        t = r.wide()
        return {"self": make(m + 1, k), "p": p, "slack": 8}
    t = r.wide()
    g, e = r.int(1, 2), r.int(1, 4)
    h, front = g * r.int(1, 2), [b] * r.int(0, 1)
    causal = r.chance()
    n = m if causal else n
    if r.chance(3) and not causal:
        q, kk, v = make(b, m, k), make(b, n, k), make(b, n, e)
        return {"query": q, "key": kk, "value": v, "attn_mask": None, "scale": r.pick([None, 0.5]), "slack": 4}
    q, kk, v = make(b, h, m, k), make(b, g, n, k), make(b, g, n, e)
    mask = None
    if not causal and r.chance():
        mask = make(b, 1, m, n) if r.chance() else r.ints([m, n], 0, 1, "i1") | (torch.arange(n) == 0)
    return {"query": q, "key": kk, "value": v, "attn_mask": mask, "is_causal": causal, "scale": r.pick([None, 0.5]), "enable_gqa": True, "slack": 4}


# --- windows ---
@op("avg_pool1d", "avg_pool2d", "avg_pool3d", "avg_pool2d_backward", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "max_pool2d_with_indices_backward", "adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_adaptive_avg_pool2d_backward")
def pools(r, name):
    axes = 2 if "pool2d" in name else 3 if "pool3d" in name else 1
    t = r.wide()
    x = r.normal([r.int(1, 2), r.int(1, 2)] + [r.int(3, 7) for _ in range(axes)], t)
    size = [r.int(1, 3) for _ in range(axes)]
    stride, padding = [r.int(1, 3) for _ in range(axes)], [r.int(0, s // 2) for s in size]
    if r.chance(4):
        size, padding = [2] * axes, [0] * axes
        stride = []
    if "adaptive" in name:
        out = [r.int(1, e) if r.chance() else r.pick([d for d in range(1, e + 1) if e % d == 0]) for e in x.shape[2:]]
        if "backward" in name:
            return {"grad_output": r.normal(list(x.shape[:2]) + out, t), "self": x}
        return {"self": x, "output_size": out, "slack": 2}
    ceil, count = r.chance(), r.chance()
    if "avg" in name:
        more = {"divisor_override": r.pick([None, None, 3])} if axes > 1 else {}
        if "backward" in name:
            y = torch.ops.aten.avg_pool2d(x, size, stride, padding, False, count)
            return {"grad_output": r.normal(y.shape, t), "self": x, "kernel_size": size, "stride": stride, "padding": padding, "ceil_mode": False,
                    "count_include_pad": count, "divisor_override": None, "slack": 2}
        x = x[0] if r.chance(3) else x
        return {"self": x, "kernel_size": size, "stride": stride, "padding": padding, "ceil_mode": ceil, "count_include_pad": count, **more, "slack": 2}
    dilation = [r.int(1, 2) if s < 3 else 1 for s in size]
    if "backward" in name:
        y, places = torch.ops.aten.max_pool2d_with_indices(x, size, stride, padding, dilation, False)
        return {"grad_output": r.normal(y.shape, t), "self": x, "kernel_size": size, "stride": stride, "padding": padding, "dilation": dilation,
                "ceil_mode": False, "indices": places}
    return {"self": x[0] if r.chance(3) else x, "kernel_size": size, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}


@op("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d", "upsample_bilinear2d.vec",
    "upsample_nearest2d.vec", "upsample_bicubic2d.vec", "im2col", "col2im", "convolution", "convolution_backward", "grid_sampler_2d")
def spatial(r, name):
    t = r.wide()
    axes = int(name[-2]) if "pad" in name else 2
    x = r.normal([r.int(1, 2), r.int(1, 2)] + [r.int(2, 5) for _ in range(axes)], t)
    if "pad" in name:
        return {"self": x, "padding": [r.int(0, e - 1) for e in reversed(x.shape[2:]) for _ in range(2)]}
    if "upsample" in name:
        corners = {} if "nearest" in name else {"align_corners": r.chance()}
        if r.chance(3):  # factors that divide, where the places are the same
            return {"input": x, "output_size": None, "scale_factors": [2.0, r.pick([1.0, 3.0])], **corners, "slack": 4}
        return {"input": x, "output_size": [r.int(1, 8), r.int(1, 8)], "scale_factors": None, **corners, "slack": 4}
    if name in ("im2col", "col2im"):
        window = {"kernel_size": [r.int(1, 2), r.int(1, 3)], "dilation": [1, r.int(1, 2)], "padding": [r.int(0, 1), r.int(0, 2)], "stride": [r.int(1, 2), 1]}
        x = r.normal(list(x.shape[:2]) + [r.int(4, 6), r.int(5, 6)], t)
        if name == "im2col":
            return {"self": x, **window}
        y = torch.ops.aten.im2col(x, **window)
        return {"self": r.normal(y.shape, t), "output_size": list(x.shape[2:]), **window}
    if "grid" in name:
        grid = r.normal([x.shape[0], 3, 4, 2], t) * 0.8
        return {"input": x, "grid": grid, "interpolation_mode": r.int(0, 1), "padding_mode": r.int(0, 1), "align_corners": r.chance(), "slack": 8}
    axes, groups = r.int(1, 3), r.pick([1, 1, 2])
    transposed = r.chance()
    stride, padding, dilation = [r.int(1, 2) for _ in range(axes)], [r.int(0, 1) for _ in range(axes)], [r.int(1, 2) for _ in range(axes)]
    extra = [r.int(0, s - 1) if transposed else 0 for s in stride]
    c, k = groups * r.int(1, 2), groups * r.int(1, 2)
    x = r.normal([r.int(1, 2), c] + [r.int(5, 6) for _ in range(axes)], t)
    w = r.normal([c, k // groups] if transposed else [k, c // groups], t)
    w = r.normal(list(w.shape) + [r.int(1, 3) for _ in range(axes)], t)
    common = {"stride": stride, "padding": padding, "dilation": dilation, "transposed": transposed, "output_padding": extra, "groups": groups, "slack": 4}
    if name == "convolution":
        return {"input": x, "weight": w, "bias": r.normal([k], t) if r.chance() else None, **common}
    y = torch.ops.aten.convolution(x, w, None, stride, padding, dilation, transposed, extra, groups)
    return {"grad_output": r.normal(y.shape, t), "input": x, "weight": w, "bias_sizes": [k], **common, "output_mask": [True, True, True]}


# --- norms, losses ---
@op("native_layer_norm", "layer_norm", "rms_norm", "native_group_norm", "group_norm", "native_layer_norm_backward", "native_group_norm_backward",
    "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit.no_stats")
def norms(r, name):
    t, eps = r.wide(), 1e-3
    if "layer" in name or "rms" in name:
        x = r.normal(r.shape(1, 2) + [r.int(2, 4), r.int(2, 5)], t if "native" in name else r.floats())
        t = TYPES[x.dtype]
        tail = list(x.shape[-r.int(1, 2):])
        w = r.normal(tail, t) if r.chance() else None
        b = r.normal(tail, t) if r.chance() else None
        if "backward" in name:
            _, mean, rstd = torch.ops.aten.native_layer_norm(x, tail, w, b, eps)
            w = r.normal(tail, t) if w is None else w
            b = r.normal(tail, t)
            return {"grad_out": r.normal(x.shape, t), "input": x, "normalized_shape": tail, "mean": mean, "rstd": rstd, "weight": w, "bias": b,
                    "output_mask": [True, True, True], "slack": 4}
        if name == "rms_norm":
            return {"input": x, "normalized_shape": tail, "weight": w, "eps": r.pick([None, eps]), "slack": 2}
        return {"input": x, "normalized_shape": tail, "weight": w, "bias": b, "eps": eps, **({} if "native" in name else {"cudnn_enable": False}), "slack": 2}
    x = r.normal([r.int(2, 3), 4] + r.pick([[5], [2, 3]]), t)
    w, b = (r.normal([4], t), r.normal([4], t)) if r.chance() else (None, None)
    group = r.pick([1, 2, 4])
    n, c, s = x.shape[0], 4, math.prod(x.shape[2:])
    if name == "group_norm":
        return {"input": x, "num_groups": group, "weight": w, "bias": b, "eps": eps, "slack": 2}
    if name == "native_group_norm":
        return {"input": x, "weight": w, "bias": b, "N": n, "C": c, "HxW": s, "group": group, "eps": eps, "slack": 2}
    if "group" in name:
        w = r.normal([4], t)
        _, mean, rstd = torch.ops.aten.native_group_norm(x, w, b, n, c, s, group, eps)
        return {"grad_out": r.normal(x.shape, t), "input": x, "mean": mean, "rstd": rstd, "weight": w, "N": n, "C": c, "HxW": s, "group": group,
                "output_mask": [True, True, True], "slack": 4}
    stats = {} if "no_stats" in name else {"running_mean": r.normal([4], t), "running_var": r.normal([4], t).abs() + 0.5}
    training = {} if "no_training" in name else {"training": True if "no_stats" in name else r.chance()}
    return {"input": x, "weight": w, "bias": b, **stats, **training, "momentum": 0.25, "eps": eps, "slack": 2}


@op("cross_entropy_loss", "nll_loss_forward", "nll_loss_backward", "mse_loss", "binary_cross_entropy_with_logits")
def losses(r, name):
    t, reduction = r.wide(), r.int(0, 2)
    x = r.normal([r.int(1, 4), r.int(2, 6)], t)
    if name == "mse_loss":
        return {"self": x, "target": r.normal(x.shape, t), "reduction": reduction, "slack": 2}
    if name[0] == "b":
        return {"self": x * 3, "target": torch.sigmoid(r.normal(x.shape, t)), "weight": r.normal(x.shape, t).abs() if r.chance() else None,
                "pos_weight": r.normal([x.shape[1]], t).abs() if r.chance() else None, "reduction": reduction, "slack": 4}
    target = r.ints([x.shape[0]], 0, x.shape[1] - 1)
    target[1:] = torch.where(r.ints([x.shape[0] - 1], 0, 3) == 0, -100, target[1:])
    if name == "cross_entropy_loss":
        if r.chance(3):
            x, target = r.normal([2, 5, 3], t), r.ints([2, 3], 0, 4)
        return {"self": x, "target": target, "weight": None, "reduction": reduction, "ignore_index": -100, "label_smoothing": r.pick([0.0, 0.125]), "slack": 2}
    weight = r.normal([x.shape[1]], t).abs() + 0.1 if r.chance() else None
    logs = torch.log_softmax(x, 1)
    given = {"self": logs, "target": target, "weight": weight, "reduction": reduction, "ignore_index": -100, "slack": 2}
    if name == "nll_loss_forward":
        return given
    y, total = torch.ops.aten.nll_loss_forward(logs, target, weight, reduction, -100)
    return {"grad_output": r.normal(y.shape, t), **given, "total_weight": total}
