"""Cases without elements for make_vectors.py: of no batch, of no query, of no bin, over an axis of nothing."""
import math

import numpy as np
from element_types import *  # noqa: F403

from composites import TOL, normal, positive, scalar, wide

# Inputs whose first axis is that of the first result, of ops that do not treat each element on its own.
BATCHED = {
    "mean": [0], "variance": [0], "logsumexp": [0], "softmax": [0], "log_softmax": [0], "layer_norm": [0], "rms_norm": [0],
    "group_norm": [0], "batch_norm": [0], "attention": [0, 1, 2], "paged_attention": [0, 3, 4], "linear": [0],
    "conv_bias": [0], "max_pool": [0], "avg_pool": [0], "embedding": [1], "cross_entropy": [0, 1], "rope": [0],
    "interaction": [0, 1], "one_hot": [0], "triangle": [0], "quantise": [0], "dequantise": [0], "dropout": [0],
    "sgd_step": [0, 1], "momentum_step": [0, 1, 2], "adam_step": [0, 1, 2, 3], "adagrad_step": [0, 1, 2],
    "lamb_step": [0, 1, 2, 3],
}


def without(tensor):
    return {"t": tensor["t"], "s": [0] + tensor["s"][1:], "d": []}


def without_batch(cases):
    """The first case of each op, and type of its first input, whose results have the rows of its inputs, without rows."""
    out, done = [], set()
    for c in cases:
        key = (c["op"], c["in"][0]["t"])
        batched = BATCHED.get(c["op"], range(len(c["in"])))
        if key in done or c["out"][0]["s"][:1] != c["in"][batched[0]]["s"][:1] or not c["out"][0]["s"]:
            continue
        if any(c["out"][0]["s"][:1] != y["s"][:1] for y in c["out"]):
            continue
        if c["op"] in ("quantise", "dequantise") and c["at"][1] == 0:
            continue  # a scale for each row
        done.add(key)
        inputs = [without(x) if i in batched and x else x for i, x in enumerate(c["in"])]
        out.append({**c, "in": inputs, "out": [without(y) for y in c["out"]]})
    return out


def empty_cases(case, elementwise, composites):
    nothing = lambda t, *shape: make(t, np.zeros(shape))  # noqa: E731
    out = without_batch(elementwise) + without_batch(composites)
    # Views and indices.
    out.append(case("permute", [nothing("f32", 2, 0, 3)], [[2, 1, 0]], [nothing("f32", 3, 0, 2)]))
    out.append(case("reverse", [nothing("u8", 0, 3)], [[0, 1]], [nothing("u8", 0, 3)]))
    out.append(case("slice", [normal("f32", 2, 3)], [[1, 2], [1, 3], [1, 1]], [nothing("f32", 0, 1)]))
    out.append(case("cat", [nothing("i8", 2, 0), nothing("i8", 2, 0)], [1], [nothing("i8", 2, 0)]))
    out.append(case("constant", [], ["f32", [0], []], [nothing("f32", 0)]))
    out.append(case("iota", [], ["i32", [2, 0], 1], [nothing("i32", 2, 0)]))
    table, none = normal("f32", 3, 2), nothing("i64", 0)
    out.append(case("index", [table, none], [[0]], [nothing("f32", 0, 2)]))
    out.append(case("index", [table, none, none], [[0, 1]], [nothing("f32", 0)]))
    out.append(case("index_put", [table, nothing("f32", 0, 2), none], [[0], 1], [table]))
    out.append(case("histogram", [nothing("i32", 0)], [3], [make("i64", [0, 0, 0])]))
    out.append(case("topk", [nothing("f32", 0, 3)], [2, 1, 0], [nothing("f32", 0, 2), nothing("i64", 0, 2)]))
    # Over an axis of nothing: a mean and a variance are 0/0, an exponential sum is 0, a softmax has no element.
    for t in ("f32", "f64", "bf16"):
        x = nothing(t, 2, 0)
        out.append(case("mean", [x], [[1], 0], [make(t, [math.nan] * 2)]))
        out.append(case("variance", [x], [[1], 0, 1], [make(t, [[math.nan]] * 2)]))
        out.append(case("logsumexp", [x], [[1], 0], [make(t, [-math.inf] * 2)]))
        out.append(case("softmax", [x], [1], [x]))
        out.append(case("log_softmax", [x], [1], [x]))
    bias = normal("f32", 3)
    out.append(case("linear", [nothing("f32", 2, 0), nothing("f32", 3, 0), bias], [], [make("f32", np.stack([bias[1]] * 2))]))
    k, v = nothing("f32", 1, 2, 0, 4), nothing("f32", 1, 2, 0, 3)
    out.append(case("attention", [normal("f32", 1, 2, 3, 4), k, v, None], [0, 0, 0.0], [nothing("f32", 1, 2, 3, 3)]))
    out.append(case("attention", [nothing("f32", 1, 2, 0, 4), normal("f32", 1, 2, 3, 4), normal("f32", 1, 2, 3, 5), None],
                    [1, 0, 0.0], [nothing("f32", 1, 2, 0, 5)]))
    # A loss of no rows adds up to 0; its mean is 0/0.
    logits, targets = nothing("f32", 0, 5), nothing("i64", 0)
    for reduction, y in ((1, math.nan), (2, 0.0)):
        out.append(case("cross_entropy", [logits, targets], [reduction, -100, 0.0], [make("f32", np.array(y))]))
    table, ids, offsets = normal("f32", 5, 3), nothing("i32", 0), nothing("i32", 0)
    out.append(case("embedding_bag", [table, ids, offsets, None], [0], [nothing("f32", 0, 3)]))
    out.append(case("embedding_bag", [table, ids, make("i32", [0, 0]), None], [1], [nothing("f32", 2, 3)]))
    # Of no batch the statistics are 0/0, and what they move too.
    x, mean, variance, w = nothing("f32", 0, 2, 3), normal("f32", 2), positive("f32", 2), normal("f32", 2)
    unknown = make("f32", [math.nan] * 2)
    out.append(case("batch_norm_training", [x, mean, variance, w, w], [1e-5, 0.1], [x, unknown, unknown]))
    p = nothing("f32", 0)
    out.append(case("lamb_step", [p, p, p, p, scalar("f32", 0.125), scalar("f32", 3)], [0.9, 0.999, 1e-6, 0.1], [p, p, p]))
    return out
