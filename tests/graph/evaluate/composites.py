"""Composites for make_vectors.py: formulas written from their definitions, in float64."""
import math

import numpy as np
from element_types import *  # noqa: F403

random = np.random.default_rng(2)
TOL = {"f32": [3e-6, 3e-6], "f16": [3e-3, 3e-3], "bf16": [2e-2, 2e-2], "f64": [1e-13, 1e-13]}


def normal(t, *shape):
    return make(t, random.standard_normal(shape).round(2))


def positive(t, *shape):
    return make(t, random.uniform(0.5, 2, shape).round(2))


def wide(x):
    return x[1].astype(np.float64)


def scalar(t, value):
    return make(t, np.array(value))


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    return np.logaddexp(0, x)


def log_softmax(x, axis):
    away = x - np.max(x, axis=axis, keepdims=True)
    return away - np.log(np.exp(away).sum(axis=axis, keepdims=True))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x, axes):
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top


def activations(case, types=("f32", "bf16")):
    out = []
    values = [0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.5, -8.0, 30.0, -30.0, 100.0, -100.0]
    for op, attrs, function in [
        ("relu", [], lambda x: np.maximum(x, 0)),
        ("leaky_relu", [0.01], lambda x: np.where(x < 0, 0.01 * x, x)), ("leaky_relu", [0.5], lambda x: np.where(x < 0, 0.5 * x, x)),
        ("elu", [1.0], lambda x: np.where(x < 0, np.expm1(x), x)), ("elu", [0.25], lambda x: np.where(x < 0, 0.25 * np.expm1(x), x)),
        ("clamp", [-1.5, 6.0], lambda x: np.clip(x, -1.5, 6)),
        ("sigmoid", [], sigmoid), ("silu", [], lambda x: x * sigmoid(x)),
        ("gelu", [0], lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
        ("gelu", [1], lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("softplus", [], softplus), ("mish", [], lambda x: x * np.tanh(softplus(x))),
        ("hard_sigmoid", [], lambda x: np.clip(x + 3, 0, 6) / 6), ("hard_swish", [], lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ]:
        for t in types:
            x = make(t, values)
            out.append(case(op, [x], attrs, [make(t, function(wide(x)))], tol=TOL[t]))
    for op, attrs in [("relu", []), ("clamp", [-1.0, 1.0]), ("sigmoid", []), ("softplus", []), ("gelu", [0])]:
        x = make("f32", [math.nan])
        out.append(case(op, [x], attrs, [x]))
    return out


def statistics(case, types=("f32", "f16")):
    out = []
    for t in types:
        x = normal(t, 2, 3, 4)
        a = wide(x)
        for axes in [[0], [1, 2], [0, 1, 2]]:
            for keep in (0, 1):
                k = {"axis": tuple(axes), "keepdims": bool(keep)}
                out.append(case("mean", [x], [axes, keep], [make(t, a.mean(**k))], tol=TOL[t]))
                for correction in (0, 1):
                    out.append(case("variance", [x], [axes, correction, keep], [make(t, a.var(ddof=correction, **k))], tol=TOL[t]))
                y = logsumexp(a, tuple(axes))
                out.append(case("logsumexp", [x], [axes, keep], [make(t, y if keep else y.reshape(a.mean(**k).shape))], tol=TOL[t]))
        for axis in (0, 1, 2):
            out.append(case("softmax", [x], [axis], [make(t, softmax(a, axis))], tol=TOL[t]))
            out.append(case("log_softmax", [x], [axis], [make(t, log_softmax(a, axis))], tol=TOL[t]))
    big = make("f32", [[1000.0, 999.0, -1000.0], [-1e30, -1e30, -1e30], [-math.inf, 0.0, 0.0]])
    out.append(case("softmax", [big], [1], [make("f32", softmax(wide(big), 1))], tol=TOL["f32"]))
    out.append(case("log_softmax", [big], [1], [make("f32", log_softmax(wide(big), 1))], tol=TOL["f32"]))
    out.append(case("logsumexp", [big], [[1], 0], [make("f32", logsumexp(wide(big), 1).reshape(3))], tol=TOL["f32"]))
    empty = make("f32", np.full((2, 2), -math.inf))
    out.append(case("logsumexp", [empty], [[1], 0], [make("f32", [-math.inf] * 2)]))
    return out


def norms(case, types=("f32", "bf16")):
    out = []
    for t in types:
        x, w, b = normal(t, 2, 3, 4), normal(t, 4), normal(t, 4)
        a = wide(x)
        normalised = lambda axes, eps: (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + eps)  # noqa: E731
        y = normalised(2, 1e-5)
        out.append(case("layer_norm", [x, None, None], [1, 1e-5], [make(t, y)], tol=TOL[t]))
        out.append(case("layer_norm", [x, w, None], [1, 1e-5], [make(t, y * wide(w))], tol=TOL[t]))
        out.append(case("layer_norm", [x, w, b], [1, 1e-5], [make(t, y * wide(w) + wide(b))], tol=TOL[t]))
        w2, b2 = normal(t, 3, 4), normal(t, 3, 4)
        out.append(case("layer_norm", [x, w2, b2], [2, 0.1], [make(t, normalised((1, 2), 0.1) * wide(w2) + wide(b2))], tol=TOL[t]))
        rms = a / np.sqrt((a * a).mean(2, keepdims=True) + 1e-6)
        out.append(case("rms_norm", [x, None], [1, 1e-6], [make(t, rms)], tol=TOL[t]))
        out.append(case("rms_norm", [x, w], [1, 1e-6], [make(t, rms * wide(w))], tol=TOL[t]))
        x4, w4, b4 = normal(t, 2, 4, 3), normal(t, 4), normal(t, 4)
        grouped = wide(x4).reshape(2, 2, 6)
        g = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)
        g = g.reshape(2, 4, 3)
        per = lambda v: wide(v).reshape(1, -1, 1)  # noqa: E731
        out.append(case("group_norm", [x4, None, None], [2, 1e-5], [make(t, g)], tol=TOL[t]))
        out.append(case("group_norm", [x4, w4, b4], [2, 1e-5], [make(t, g * per(w4) + per(b4))], tol=TOL[t]))
        mean, variance = normal(t, 4), positive(t, 4)
        n = (wide(x4) - per(mean)) / np.sqrt(per(variance) + 1e-5)
        out.append(case("batch_norm", [x4, mean, variance, None, None], [1e-5], [make(t, n)], tol=TOL[t]))
        out.append(case("batch_norm", [x4, mean, variance, w4, b4], [1e-5], [make(t, n * per(w4) + per(b4))], tol=TOL[t]))
        m, v = wide(x4).mean((0, 2)), wide(x4).var((0, 2))
        n = (wide(x4) - m.reshape(1, -1, 1)) / np.sqrt(v.reshape(1, -1, 1) + 1e-5)
        moved = [make(t, 0.9 * wide(mean) + 0.1 * m), make(t, 0.9 * wide(variance) + 0.1 * wide(x4).var((0, 2), ddof=1))]
        out.append(case("batch_norm_training", [x4, mean, variance, w4, b4], [1e-5, 0.1], [make(t, n * per(w4) + per(b4))] + moved, tol=TOL[t]))
    return out


def attention(q, k, v, mask, causal, window, scale):
    h, g, m, n = q.shape[1], k.shape[1], q.shape[2], k.shape[2]
    out = np.zeros(q.shape[:3] + v.shape[3:])
    for b, head, i in np.ndindex(q.shape[0], h, m):
        group = head // (h // g)
        scores, seen = [], []
        for j in range(n):
            if causal and j > i + n - m or window and j <= i + n - m - window:
                continue
            score = float(q[b, head, i] @ k[b, group, j]) * scale
            if mask is not None:
                here = np.broadcast_to(mask, (q.shape[0], h, m, n))[b, head, i, j]
                if mask.dtype == np.bool_:
                    if not here:
                        continue
                else:
                    score += float(here)
            scores.append(score)
            seen.append(j)
        if seen:
            out[b, head, i] = softmax(np.array(scores), 0) @ v[b, group, seen]
    return out


def attentions(case, types=("f32", "bf16")):
    out = []
    for t in types:
        q, k, v = normal(t, 2, 4, 3, 2), normal(t, 2, 2, 5, 2), normal(t, 2, 2, 5, 3)
        booleans = make("i1", random.integers(0, 2, (2, 1, 3, 5)) * np.array([1, 0, 1]).reshape(1, 1, 3, 1))
        added = normal(t, 5)
        for mask, causal, window, scale in [(None, 0, 0, 0.0), (None, 1, 0, 0.5), (None, 1, 2, 0.0), (booleans, 0, 0, 0.0), (added, 1, 0, 0.0), (None, 0, 1, 0.0)]:
            y = attention(wide(q), wide(k), wide(v), None if mask is None else mask[1], causal, window, scale or 2 ** -0.5)
            out.append(case("attention", [q, k, v, mask], [causal, window, scale], [make(t, y)], tol=TOL[t]))
    q, k, v = normal("f32", 1, 1, 4, 2), normal("f32", 1, 1, 2, 2), normal("f32", 1, 1, 2, 2)  # rows that see nothing
    out.append(case("attention", [q, k, v, None], [1, 0, 0.0], [make("f32", attention(wide(q), wide(k), wide(v), None, 1, 0, 2 ** -0.5))], tol=TOL["f32"]))
    q, kp, vp = normal("f32", 3, 4, 2), normal("f32", 5, 2, 2, 2), normal("f32", 5, 2, 2, 2)
    table, lengths = make("i32", [[4, 1, 0], [2, 0, 0], [3, 3, 1]]), make("i32", [5, 0, 2])
    y = np.zeros((3, 4, 2))
    for b in range(3):
        count = int(lengths[1][b])
        if count == 0:
            continue
        keys = np.concatenate([kp[1][p] for p in table[1][b]], 1)[:, :count]
        values = np.concatenate([vp[1][p] for p in table[1][b]], 1)[:, :count]
        y[b] = attention(wide(q)[b][None, :, None], keys[None].astype(float), values[None].astype(float), None, 0, 0, 2 ** -0.5)[0, :, 0]
    out.append(case("paged_attention", [q, kp, vp, table, lengths], [0.0], [make("f32", y)], tol=TOL["f32"]))
    return out


def layers(case, types=("f32", "f16")):
    out = []
    for t in types:
        x, w, b = normal(t, 2, 3, 4), normal(t, 5, 4), normal(t, 5)
        out.append(case("linear", [x, w, None], [], [make(t, wide(x) @ wide(w).T)], tol=TOL[t]))
        out.append(case("linear", [x, w, b], [], [make(t, wide(x) @ wide(w).T + wide(b))], tol=TOL[t]))
    x, w, b = normal("f32", 1, 2, 5), normal("f32", 3, 2, 2), normal("f32", 3)
    y = np.zeros((1, 3, 4))
    for k, o in np.ndindex(3, 4):
        y[0, k, o] = np.sum(wide(x)[0, :, o:o + 2] * wide(w)[k]) + wide(b)[k]
    out.append(case("conv_bias", [x, w, b], [[1], [0], [0], [1], 1], [make("f32", y)], tol=TOL["f32"]))
    x = normal("f32", 1, 2, 4, 4)
    a = wide(x)
    y = a.reshape(1, 2, 2, 2, 2, 2).max((3, 5))
    out.append(case("max_pool", [x], [[2, 2], [2, 2], [0, 0], [0, 0], [1, 1]], [make("f32", y)]))
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    ones = np.pad(np.ones_like(a), ((0, 0), (0, 0), (1, 1), (1, 1)))
    total, count = np.zeros((1, 2, 3, 3)), np.zeros((1, 2, 3, 3))
    for i, j in np.ndindex(3, 3):
        total[:, :, i, j] = padded[:, :, 2 * i:2 * i + 2, 2 * j:2 * j + 2].sum((2, 3))
        count[:, :, i, j] = ones[:, :, 2 * i:2 * i + 2, 2 * j:2 * j + 2].sum((2, 3))
    pool = [[2, 2], [2, 2], [1, 1], [1, 1]]
    out.append(case("avg_pool", [x], pool + [1], [make("f32", total / 4)], tol=TOL["f32"]))
    out.append(case("avg_pool", [x], pool + [0], [make("f32", total / count)], tol=TOL["f32"]))
    table, ids = normal("f32", 5, 3), make("i64", [[0, 4, 2], [2, 2, 1]])
    out.append(case("embedding", [table, ids], [], [make("f32", table[1][ids[1]])]))
    ids, offsets, weights = make("i32", [1, 4, 2, 2, 0]), make("i32", [0, 2, 2, 3]), normal("f32", 5)
    bags = [range(0, 2), range(2, 2), range(2, 3), range(3, 5)]
    rows = wide(table)[ids[1]]
    for mode, function in enumerate([lambda r: r.sum(0), lambda r: r.mean(0), lambda r: r.max(0)]):
        y = [function(rows[list(bag)]) if len(bag) else np.zeros(3) for bag in bags]
        out.append(case("embedding_bag", [table, ids, offsets, None], [mode], [make("f32", np.array(y))], tol=TOL["f32"]))
    y = [(rows * wide(weights)[:, None])[list(bag)].sum(0) for bag in bags]
    out.append(case("embedding_bag", [table, ids, offsets, weights], [0], [make("f32", np.array(y))], tol=TOL["f32"]))
    logits, targets = normal("f32", 2, 3, 5), make("i64", [[1, -100, 4], [0, 0, -100]])
    log_p = wide(logits) - logsumexp(wide(logits), 2)
    for ignore, smoothing in [(-100, 0.0), (-100, 0.1), (0, 0.25)]:
        places = make("i64", np.where(targets[1] == -100, ignore, targets[1]))
        valid = places[1] != ignore
        picked = np.take_along_axis(log_p, np.where(valid, places[1], 0)[..., None], 2)[..., 0]
        loss = np.where(valid, -(1 - smoothing) * picked - smoothing * log_p.mean(2), 0)
        for reduction, y in enumerate([loss, loss.sum() / valid.sum(), loss.sum()]):
            out.append(case("cross_entropy", [logits, places], [reduction, ignore, smoothing], [make("f32", y)], tol=TOL["f32"]))
    x, c, s = normal("f32", 2, 3, 4), normal("f32", 3, 2), normal("f32", 3, 2)
    a, cos, sin = wide(x), wide(c), wide(s)
    y = np.concatenate([a[..., :2] * cos - a[..., 2:] * sin, a[..., 2:] * cos + a[..., :2] * sin], 2)
    out.append(case("rope", [x, c, s], [0], [make("f32", y)], tol=TOL["f32"]))
    y = np.empty_like(a)
    y[..., 0::2], y[..., 1::2] = a[..., 0::2] * cos - a[..., 1::2] * sin, a[..., 1::2] * cos + a[..., 0::2] * sin
    out.append(case("rope", [x, c, s], [1], [make("f32", y)], tol=TOL["f32"]))
    d, f = normal("f32", 2, 3), normal("f32", 2, 2, 3)
    rows = np.concatenate([wide(d)[:, None], wide(f)], 1)
    for diagonal in (0, 1):
        pairs = [(i, j) for i in range(3) for j in range(i + diagonal)]
        y = np.concatenate([wide(d), np.stack([(rows[:, i] * rows[:, j]).sum(1) for i, j in pairs], 1)], 1)
        out.append(case("interaction", [d, f], [diagonal], [make("f32", y)], tol=TOL["f32"]))
    ids = make("i32", [[0, 3], [-1, 4]])
    for t in ("f32", "i1", "i8"):
        out.append(case("one_hot", [ids], [4, t], [make(t, (ids[1][..., None] == np.arange(4)).astype(int))]))
    x = normal("f32", 2, 3, 4)
    for diagonal in (0, -1, 2):
        out.append(case("triangle", [x], [diagonal, 0], [make("f32", np.tril(x[1], diagonal))], eq="value"))
        out.append(case("triangle", [x], [diagonal, 1], [make("f32", np.triu(x[1], diagonal))], eq="value"))
    return out


def few_bits(case):
    out = []
    x = make("f32", [[0.3, -1.2, 5.1, 100.0], [-200.0, 2.45, 0.0, -0.6]])
    for axis, scale, zero, shape in [(-1, scalar("f32", 0.5), None, ()), (-1, scalar("f32", 0.25), scalar("i8", 3), ()),
                                     (0, make("f32", [0.5, 0.2]), make("i8", [-1, 2]), (2, 1)), (1, make("f32", [1, 2, 0.5, 0.1]), None, (1, 4))]:
        s = wide(scale).reshape(shape)
        z = wide(zero).reshape(shape) if zero else 0
        q = np.clip(np.rint(wide(x) / s) + z, -128, 127)
        out.append(case("quantise", [x, scale, zero], ["i8", axis], [make("i8", q)]))
        out.append(case("dequantise", [make("i8", q), scale, zero], ["f32", axis], [make("f32", (q - z) * s)], tol=TOL["f32"]))
    x = make("f32", [-1.0, 0.5, 1.5, 2.5, 300.0])
    out.append(case("quantise", [x, scalar("f32", 1.0), None], ["u8", -1], [make("u8", [0, 0, 2, 2, 255])]))
    return out


def optimisers(case, types=("f32",)):
    out = []
    for t in types:
        p, g, m, v = normal(t, 2, 3), normal(t, 2, 3), normal(t, 2, 3), positive(t, 2, 3)
        P, G, M, V = wide(p), wide(g), wide(m), wide(v)
        lr = scalar(t, 0.125)
        for decay in (0.0, 0.1):
            out.append(case("sgd_step", [p, g, lr], [decay], [make(t, P - 0.125 * (G + decay * P))], tol=TOL[t]))
            for nesterov in (0, 1):
                d = G + decay * P
                b = M * 0.9 + (1 - 0.25) * d
                step = d + 0.9 * b if nesterov else b
                out.append(case("momentum_step", [p, g, m, lr], [0.9, 0.25, nesterov, decay], [make(t, P - 0.125 * step), make(t, b)], tol=TOL[t]))
            for decoupled in (0, 1):
                for count in (1, 7):
                    d = G if decoupled else G + decay * P
                    start = P * (1 - 0.125 * decay) if decoupled else P
                    m2, v2 = 0.9 * M + 0.1 * d, 0.999 * V + 0.001 * d * d
                    y = start - 0.125 * (m2 / (1 - 0.9**count)) / (np.sqrt(v2 / (1 - 0.999**count)) + 1e-8)
                    out.append(case("adam_step", [p, g, m, v, lr, scalar(t, count)], [0.9, 0.999, 1e-8, decay, decoupled], [make(t, y), make(t, m2), make(t, v2)], tol=TOL[t] if t == "f64" else [1e-5, 1e-5]))
            s2 = V + (G + decay * P) ** 2
            out.append(case("adagrad_step", [p, g, v, lr], [1e-10, decay], [make(t, P - 0.125 * (G + decay * P) / (np.sqrt(s2) + 1e-10)), make(t, s2)], tol=TOL[t]))
            for start in (P, np.zeros_like(P)):
                m2, v2 = 0.9 * M + 0.1 * G, 0.999 * V + 0.001 * G * G
                d = (m2 / (1 - 0.9**3)) / (np.sqrt(v2 / (1 - 0.999**3)) + 1e-6) + decay * start
                a, b = np.linalg.norm(start), np.linalg.norm(d)
                y = start - 0.125 * (a / b if a > 0 and b > 0 else 1) * d
                out.append(case("lamb_step", [make(t, start), g, m, v, lr, scalar(t, 3)], [0.9, 0.999, 1e-6, decay], [make(t, y), make(t, m2), make(t, v2)], tol=TOL[t] if t == "f64" else [1e-5, 1e-5]))
    return out


def dropouts(case, philox):
    out = []
    x = normal("f32", 3, 3)
    for p in (0.0, 0.25, 0.5):
        words = np.array([philox(9, 1 + i // 4)[i % 4] for i in range(9)], np.float64).reshape(3, 3)
        y = np.where(words >= p * 2.0**32, wide(x) / (1 - p), 0)
        out.append(case("dropout", [x, make("u64", np.array(9)), make("u64", np.array(1))], [p], [make("f32", y)], tol=TOL["f32"]))
    return out


def convolved(x, w, b, strides, low, high, dilation, groups):
    """Sums written out, over two axes."""
    a = np.pad(wide(x), ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])))
    each, per = w[1].shape[0] // groups, w[1].shape[1]
    space = [(a.shape[2 + d] - dilation[d] * (w[1].shape[2 + d] - 1) - 1) // strides[d] + 1 for d in (0, 1)]
    y = np.zeros((x[1].shape[0], w[1].shape[0], *space))
    for n, k, i, j in np.ndindex(*y.shape):
        c = k // each * per
        rows = a[n, c:c + per, i * strides[0]:, j * strides[1]:][:, ::dilation[0], ::dilation[1]]
        y[n, k, i, j] = np.sum(rows[:, :w[1].shape[2], :w[1].shape[3]] * wide(w)[k]) + wide(b)[k]
    return y


def padded_layers(case):
    """Of types, strides, edges, dilations and groups that are not all 1."""
    out = []
    for t in ["f64", "bf16"]:
        x, w, b = normal(t, 2, 4, 5, 6), normal(t, 6, 2, 3, 2), normal(t, 6)
        for attrs in [[[1, 1], [0, 0], [0, 0], [1, 1], 2], [[2, 1], [1, 0], [1, 2], [1, 2], 2]]:
            out.append(case("conv_bias", [x, w, b], attrs, [make(t, convolved(x, w, b, *attrs))], tol=TOL[t]))
        x = normal(t, 1, 2, 5, 6)
        for size, strides, low, high, dilation in [([3, 2], [2, 1], [1, 0], [1, 1], [1, 2]), ([2, 2], [1, 3], [0, 1], [0, 1], [2, 1])]:
            a = np.pad(wide(x), ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])), constant_values=-math.inf)
            space = [(a.shape[2 + d] - dilation[d] * (size[d] - 1) - 1) // strides[d] + 1 for d in (0, 1)]
            y = np.zeros((1, 2, *space))
            for c, i, j in np.ndindex(2, *space):
                rows = a[0, c, i * strides[0]:, j * strides[1]:][::dilation[0], ::dilation[1]]
                y[0, c, i, j] = rows[:size[0], :size[1]].max()
            out.append(case("max_pool", [x], [size, strides, low, high, dilation], [make(t, y)]))
        table, ids = normal(t, 4, 3), make("u8", [[[3], [0]], [[1], [1]]])
        out.append(case("embedding", [table, ids], [], [(t, table[1][ids[1]])]))
        q, kp, vp = normal(t, 2, 2, 3), normal(t, 4, 1, 2, 3), normal(t, 4, 1, 2, 3)
        pages, lengths = make("i64", [[3, 0], [1, 1]]), make("i64", [3, 4])
        y = np.zeros((2, 2, 3))
        for b, count in enumerate(lengths[1]):
            keys, values = (np.concatenate([wide(p)[n] for n in pages[1][b]], 1)[:, :count] for p in (kp, vp))
            y[b] = attention(wide(q)[b][None, :, None], keys[None], values[None], None, 0, 0, 0.25)[0, :, 0]
        out.append(case("paged_attention", [q, kp, vp, pages, lengths], [0.25], [make(t, y)], tol=TOL[t]))
    return out


def composite_cases(case, philox):
    f64 = ["f64"]
    return (activations(case) + statistics(case) + norms(case) + attentions(case) + layers(case) + few_bits(case) + optimisers(case)
            + dropouts(case, philox) + activations(case, f64) + statistics(case, f64) + norms(case, f64) + attentions(case, f64)
            + layers(case, f64) + optimisers(case, f64) + padded_layers(case))
