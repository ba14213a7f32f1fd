"""Writes vectors/*.json: inputs, attributes and results of the ops of graphs, by NumPy. Not run by tests.

    python3 tests/graph/evaluate/make_vectors.py

A case is {"op", "in": [tensor or null], "at": [attributes in the table's order], "out": [tensor]}, where "=" are the inputs of the case
before; with "tol": [relative,
absolute] results are compared as numbers, with "eq": "value" zeros of both signs are equal, else bits must be.
"""
import json
import math
import os

import numpy as np
from element_types import *  # noqa: F403

from composites import composite_cases
from empty import empty_cases

np.seterr(all="ignore")
NAN, INF = math.nan, math.inf
random = np.random.default_rng(1)


def case(op, inputs, attrs, outputs, **more):
    return {"op": op, "in": [json_tensor(x) for x in inputs], "at": attrs,
            "out": [json_tensor(x) for x in outputs], **more}


def normal(t, *shape):
    return make(t, random.standard_normal(shape).round(2))


def ints(t, low, high, *shape):
    return make(t, random.integers(low, high, shape))


# --- make ---
def philox(key, counter):
    c = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def make_cases():
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answers
    out = []
    for t in ALL:
        values = elements(make(t, [1, 0, 1, 1, 0, 1]))
        written = [json_number(t, v) for v in values]
        out.append(case("constant", [], [t, [2, 3], written], [of_elements(t, values, (2, 3))]))
        out.append(case("full", [], [t, [2, 0 if t == "i8" else 2], written[0]],
                        [of_elements(t, [values[0]] * (0 if t == "i8" else 4), (2, 0 if t == "i8" else 2))]))
        if t == "i1":
            continue
        numbers = [cast_one("i64", t, i) for i in range(5)]
        grid = np.broadcast_to(np.array(numbers, dtype(t)).reshape(1, 5, 1), (2, 5, 1))
        out.append(case("iota", [], [t, [2, 5, 1], 1], [(t, grid)]))
    out.append(case("iota", [], ["i8", [300], 0], [("i8", np.array([wrap("i8", i) for i in range(300)], np.int8))]))
    for seed, offset, shape in [(0, 0, (7,)), (2**64 - 1, 2**64 - 1, (2, 3)), (0x123456789ABCDEF, 2**32 - 1, (9,)),
                                (5, 6, ()), (5, 6, (0, 4))]:
        count = int(np.prod(shape))
        words = [philox(seed, (offset + i // 4) % 2**64)[i % 4] for i in range(count)]
        out.append(case("philox", [make("u64", np.uint64(seed)), make("u64", np.uint64(offset))], [list(shape)],
                        [of_elements("u32", words, shape)]))
    return out


# --- elementwise ---
def edges(t):
    if t in FLOATS:
        big, least = greatest(t), 2.0 ** (2 - (1 << (FLOATS[t][0] - 1)) - FLOATS[t][1])
        infinite = INF if FLOATS[t][2] else big
        return [0.0, -0.0, 1.0, -1.5, 3.75, infinite, -infinite, NAN, big, -least, 0.1, -7.0]
    low, high = limits(t)
    return [0, 1, high, low, high - 1, 2, 5, low + 1 if low else 77, -7 if low else 200]


def pairs(t):
    e = edges(t)
    a = make(t, [e, e])
    b = make(t, [e[1:] + e[:1], e[5:] + e[:5]])
    return a, b


def arithmetic(t):
    """The type that a float type computes in, with one rounding to it."""
    return np.float64 if t == "f64" else np.float32


def fma(t, a, b, c):
    if any(math.isnan(v) or math.isinf(v) for v in (a, b, c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c)) if not math.isinf(c) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)  # noqa: F405
    if exact == 0:
        product_sign = math.copysign(1, a) * math.copysign(1, b)
        both_negative = product_sign < 0 and math.copysign(1, c) < 0
        return -0.0 if both_negative and Fraction(a) * Fraction(b) == 0 else 0.0  # noqa: F405
    wide = round_to("f64" if t == "f64" else "f32", exact)
    return round_to(t, wide)


def float_cases():
    out = []
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod}
    for t in ["f32", "f64", "f16", "bf16"]:
        a, b = pairs(t)
        x, y = a[1].astype(arithmetic(t)), b[1].astype(arithmetic(t))
        for op, function in binary.items():
            out.append(case(op, [a, b], [], [make(t, function(x, y))]))
        for op, function in {"min": np.minimum, "max": np.maximum}.items():
            out.append(case(op, [a, b], [], [make(t, function(x, y))], eq="value"))
        c = make(t, b[1][::-1])
        fused = [fma(t, *v) for v in zip(elements(a), elements(b), elements(c))]
        out.append(case("fma", [a, b, c], [], [of_elements(t, fused, a[1].shape)]))
        out.append(case("neg", [a], [], [make(t, -a[1])]))
        out.append(case("abs", [a], [], [make(t, np.abs(a[1]))]))
        sign = np.where(a[1] > 0, 1, np.where(a[1] < 0, -1, a[1]))
        out.append(case("sign", [a], [], [make(t, sign)]))
        out.append(case("stop_gradient", [a], [], [a]))
        out.append(case("copysign", [a, b], [], [make(t, np.copysign(a[1], b[1]))]))
    return out


def truncated(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def int_op(t, op, a, b):
    bits, signed = INTS[t]
    amount = b % (1 << bits)
    exact = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
        "div": lambda: 0 if b == 0 else truncated(a, b),
        "rem": lambda: a if b == 0 else a - truncated(a, b) * b,
        "mulhi": lambda: (a * b) >> bits, "min": lambda: min(a, b), "max": lambda: max(a, b),
        "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
        "shl": lambda: 0 if amount >= bits else a << amount,
        "shr": lambda: (-1 if a < 0 else 0) if amount >= bits else a >> amount,
        "neg": lambda: -a, "abs": lambda: abs(a), "sign": lambda: (a > 0) - (a < 0), "not": lambda: ~a,
    }[op]()
    return wrap(t, exact)


def int_cases():
    out = []
    for t in ["i8", "u8", "i64", "u64"]:
        a, b = pairs(t)
        values = list(zip(elements(a), elements(b)))
        for op in ["add", "sub", "mul", "div", "rem", "mulhi", "min", "max", "and", "or", "xor", "shl", "shr"]:
            out.append(case(op, [a, b], [], [of_elements(t, [int_op(t, op, *v) for v in values], a[1].shape)]))
        for op in ["neg", "abs", "sign", "not"]:
            if op in ("neg", "abs", "sign") and not INTS[t][1] and op != "sign":
                continue
            out.append(case(op, [a], [], [of_elements(t, [int_op(t, op, *v) for v in values], a[1].shape)]))
    p, q = make("i1", [0, 0, 1, 1]), make("i1", [0, 1, 0, 1])
    for op, function in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items():
        out.append(case(op, [p, q], [], [make("i1", function(p[1], q[1]))]))
    out.append(case("not", [p], [], [make("i1", ~p[1])]))
    return out


def choice_cases():
    out = []
    preds = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    for t in ["f32", "bf16", "i8", "u64"]:
        a, b = pairs(t)
        for number, function in enumerate(preds):
            out.append(case("cmp", [a, b], [number], [make("i1", function(a[1], b[1]))]))
    condition = make("i1", random.integers(0, 2, (2, 12)))
    for t in ["f32", "f16"]:
        a, b = pairs(t)
        out.append(case("select", [condition, a, b], [], [make(t, np.where(condition[1], a[1], b[1]))]))
    return out


def cast_cases():
    out = []
    for source in ALL:
        values = [0, 1] if source == "i1" else edges(source)
        if source in FLOATS:
            values = values + [2.5, -3.5, 127.5, 300.0, -129.0]
        x = make(source, values)
        for to in ALL:
            y = of_elements(to, [cast_one(source, to, v) for v in elements(x)], x[1].shape) if to in FLOATS else \
                (to, np.array([cast_one(source, to, v) for v in elements(x)], dtype(to)))
            out.append(case("cast", [x], [to], [y]))
    bits = make("f32", [1.0, -0.0, -INF, 3.5])
    out.append(case("bitcast", [bits], ["i32"], [("i32", bits[1].view(np.int32))]))
    out.append(case("bitcast", [("i32", bits[1].view(np.int32))], ["f32"], [bits]))
    out.append(case("bitcast", [make("u8", [0, 1, 255, 128])], ["i8"], [make("i8", [0, 1, -1, -128])]))
    return out


def math_cases():
    out = []
    domain = [0.0, -0.0, 0.5, -0.25, 1.0, -1.0, 2.0, -3.5, 10.0, 1e-4, INF, -INF, NAN]
    erf = np.vectorize(math.erf, otypes=[np.float64])
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    unary = {"exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
             "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
             "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": erf, "erfc": erfc,
             "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}
    exact = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc}
    tests = {"signbit": np.signbit, "isnan": np.isnan, "isinf": np.isinf}
    tolerance = {"f32": [1.2e-7, 1e-44], "f64": [4e-16, 0], "f16": [1e-3, 6e-8], "bf16": [8e-3, 1e-40]}
    for t in ["f32", "f64", "f16", "bf16"]:
        x = make(t, domain)
        wide = x[1].astype(np.float64)
        for op, function in unary.items():
            if t in ("f16", "bf16") and op not in ("exp", "log", "tanh", "erf", "sqrt", "rsqrt"):
                continue
            out.append(case(op, [x], [], [make(t, function(wide))], tol=tolerance[t]))
        for op, function in exact.items():
            out.append(case(op, [x], [], [make(t, function(wide))]))
        for op, function in tests.items():
            out.append(case(op, [x], [], [make("i1", function(wide))]))
        y = make(t, domain[3:] + domain[:3])
        for op, function in {"atan2": np.arctan2, "pow": np.power, "hypot": np.hypot}.items():
            out.append(case(op, [x, y], [], [make(t, function(wide, y[1].astype(np.float64)))], tol=tolerance[t]))
    return out


# --- views, cat ---
def view_cases():
    out = []
    x = make("f32", np.arange(24).reshape(2, 3, 4))
    a = x[1]
    for shape in [(24,), (4, 6), (1, 24, 1), (2, 2, 2, 3)]:
        out.append(case("reshape", [x], [list(shape)], [make("f32", a.reshape(shape))]))
    out.append(case("reshape", [make("i8", np.zeros((0, 3)))], [[3, 0, 2]], [make("i8", np.zeros((3, 0, 2)))]))
    out.append(case("reshape", [make("i8", np.array(7))], [[1, 1]], [make("i8", [[7]])]))
    for order in [(2, 0, 1), (0, 2, 1), (0, 1, 2)]:
        out.append(case("permute", [x], [list(order)], [make("f32", a.transpose(order))]))
    deep = make("u8", np.arange(16).reshape((2,) + (1,) * 6 + (2,) + (1,) * 4 + (2, 1, 1, 2)))
    order = [int(v) for v in random.permutation(16)]
    out.append(case("permute", [deep], [order], [("u8", deep[1].transpose(order))]))
    for source, shape in [((3, 1), (2, 3, 4)), ((4,), (3, 4)), ((), (2, 2)), ((1, 0), (5, 0)), ((1,), (0,)), ((3,), (3,))]:
        b = make("i32", np.arange(int(np.prod(source))).reshape(source))
        out.append(case("broadcast", [b], [list(shape)], [("i32", np.broadcast_to(b[1], shape))]))
    for start, end, step in [((0, 1, 0), (2, 3, 4), (1, 1, 3)), ((1, 0, 2), (1, 3, 4), (1, 2, 1)),
                             ((0, 0, 0), (2, 3, 4), (1, 1, 1)), ((1, 2, 3), (2, 3, 4), (5, 1, 9))]:
        cut = a[tuple(slice(*v) for v in zip(start, end, step))]
        out.append(case("slice", [x], [list(start), list(end), list(step)], [make("f32", cut)]))
    for axes in [(0,), (1, 2), (), (0, 1, 2)]:
        out.append(case("reverse", [x], [list(axes)], [make("f32", np.flip(a, axes) if axes else a)]))
    for low, high, inner in [((1, 0), (0, 2), (0, 0)), ((0, 0), (0, 0), (1, 2)), ((2, 1), (1, 1), (0, 1))]:
        b = ints("i16", -9, 9, 2, 3)
        shape = [l + h + n + (n - 1) * i for l, h, n, i in zip(low, high, (2, 3), inner)]
        y = np.full(shape, -5, np.int16)
        y[tuple(slice(l, l + (n - 1) * (i + 1) + 1, i + 1) for l, n, i in zip(low, (2, 3), inner))] = b[1]
        out.append(case("pad", [b, make("i16", np.array(-5))], [list(low), list(high), list(inner)], [("i16", y)]))
    out.append(case("pad", [make("f32", np.zeros((0,))), make("f32", np.array(2.0))], [[1], [2], [3]],
                    [make("f32", np.array([2.0] * 3))]))
    parts = [normal("f32", 2, n, 2) for n in (1, 0, 3)]
    out.append(case("cat", parts, [1], [make("f32", np.concatenate([p[1] for p in parts], 1))]))
    parts = [ints("i8", 0, 9, 2), ints("i8", 0, 9, 1)]
    out.append(case("cat", parts, [0], [("i8", np.concatenate([p[1] for p in parts]))]))
    return out


# --- index ---
COMBINE = {0: lambda old, new: new, 1: lambda old, new: old + new, 2: lambda old, new: old * new,
           3: np.minimum, 4: np.maximum}


def index_cases():
    out = []
    x = normal("f32", 3, 4)
    for axis, t, index in [(0, "i64", [[0, -1, 2, 1], [2, 2, -3, 0]]), (1, "i32", [[3], [-4], [0]]), (1, "u8", [[1, 1], [0, 3], [2, 2]]),
                           (0, "i8", np.zeros((0, 4)))]:
        i = make(t, index)
        wrapped = np.where(i[1].astype(np.int64) < 0, i[1].astype(np.int64) + x[1].shape[axis], i[1].astype(np.int64))
        out.append(case("gather", [x, i], [axis], [make("f32", np.take_along_axis(x[1], wrapped, axis))]))
        values = normal("f32", *i[1].shape)
        for kind, function in COMBINE.items():
            y = x[1].astype(np.float64)
            for place in np.ndindex(*i[1].shape):
                at = list(place)
                at[axis] = wrapped[place]
                y[tuple(at)] = function(y[tuple(at)], values[1][place])
            more = {} if kind in (0, 3, 4) else {"tol": [1e-6, 1e-6]}
            out.append(case("scatter", [x, i, values], [axis, kind], [make("f32", y)], **more))
    t = make("i32", np.arange(24).reshape(2, 3, 4))
    a, b = make("i64", [[0, 1, -1], [1, 1, 0]]), make("i16", [[2, 0, 1], [-1, -3, 2]])
    a_row, b_row = a[1] % 2, b[1] % 3
    for axes, points, y in [([0], [a], t[1][a_row]), ([1], [b], np.moveaxis(t[1], 1, 0)[b_row]), ([0, 1], [a, b], t[1][a_row, b_row]),
                            ([1, 0], [b, a], t[1][a_row, b_row]), ([0, 1, 2], [a, b, a], t[1][a_row, b_row, a[1] % 4])]:
        out.append(case("index", [t] + points, [axes], [("i32", y)]))
        values = ints("i32", -9, 9, *y.shape)
        for kind, function in COMBINE.items():
            z = t[1].astype(np.int64)
            view = np.moveaxis(z, axes, range(len(axes)))
            for place in np.ndindex(*a[1].shape):
                at = tuple(int(p[1][place]) for p in points)
                view[at] = function(view[at], values[1][place])
            out.append(case("index_put", [t, values] + points, [axes, kind], [("i32", z.astype(np.int32))]))
    return out


# --- reduce, scan, order ---
def reduce_cases():
    out = []
    kinds = [np.sum, np.prod, np.min, np.max]
    for t in ["f32", "f16", "i32", "u8"]:
        x = normal(t, 2, 3, 2) if t in FLOATS else ints(t, *((-9, 9) if t == "i32" else (0, 256)), 2, 3, 2)
        for axes in [(0,), (2, 1), (0, 1, 2), ()]:
            for kind, function in enumerate(kinds):
                wide = x[1].astype(np.float64) if t in FLOATS else x[1].astype(np.int64)
                y = function(wide, axis=axes) if axes else wide
                tol = {"tol": [1e-3, 1e-3] if t == "f16" else [1e-6, 1e-6]} if t in FLOATS and kind < 2 else {}
                made = make(t, y) if t in FLOATS else of_elements(t, [wrap(t, int(v)) for v in np.ravel(y)], np.shape(y))
                out.append(case("reduce", [x], [kind, list(axes), 0], [made], **tol))
    bits = ints("u8", 0, 256, 3, 4)
    for kind, function in {4: np.bitwise_and, 5: np.bitwise_or, 6: np.bitwise_xor}.items():
        out.append(case("reduce", [bits], [kind, [1], 1], [("u8", function.reduce(bits[1], axis=1, keepdims=True))]))
        truth = make("i1", random.integers(0, 2, (4, 3)))
        out.append(case("reduce", [truth], [kind, [0], 0], [("i1", function.reduce(truth[1], axis=0))]))
    special = make("f32", [[1, NAN, 2], [-0.0, -0.0, -0.0], [INF, 1, -INF], [3, 2, 1]])
    for kind, function in enumerate(kinds):
        out.append(case("reduce", [special], [kind, [1], 0], [make("f32", function(special[1], axis=1))], eq="value"))
    neutral = {"f32": [0, 1, INF, -INF], "f8e4m3": [0, 1, 448, -448], "f8e5m2": [0, 1, INF, -INF], "i8": [0, 1, 127, -128],
               "u32": [0, 1, 2**32 - 1, 0]}
    for t, values in neutral.items():
        for kind, value in enumerate(values):
            y = of_elements(t, [float(value) if t in FLOATS else value] * 2, (2,))
            out.append(case("reduce", [make(t, np.zeros((2, 0)))], [kind, [1], 0], [y]))
    out.append(case("reduce", [make("u8", np.zeros((0,)))], [4, [0], 0], [make("u8", np.array(255))]))
    # Sums of small floats are kept in f32: 4096 ones are 4096 in f16, where ones would be lost one by one.
    ones = make("f16", np.ones(3000))
    out.append(case("reduce", [ones], [0, [0], 0], [make("f16", np.array(3000.0))]))
    for t, rows in [("f32", [[1, 5, 5], [NAN, 1, NAN], [-0.0, 0.0, -1], [2, NAN, 9]]), ("i8", [[3, 3, -4], [0, 0, 0]]), ("u64", [[2**64 - 1, 0, 2**63]])]:
        x = (t, np.array(rows, dtype(t)))
        for kind, function in enumerate([np.argmin, np.argmax]):
            out.append(case("arg_reduce", [x], [kind, 1, 0], [("i64", function(x[1], axis=1))]))
            out.append(case("arg_reduce", [x], [kind, 0, 1], [("i64", function(x[1], axis=0)[None])]))
    out.append(case("arg_reduce", [make("f32", np.zeros((0, 3)))], [0, 1, 0], [make("i64", np.zeros((0,)))]))
    return out


def scan_line(kind, line, exclusive):
    neutral = {0: 0, 1: 1, 2: INF, 3: -INF}[kind]
    step = [lambda a, b: a + b, lambda a, b: a * b, np.minimum, np.maximum][kind]
    out, running = [], neutral
    for v in line:
        if exclusive:
            out.append(running)
        running = step(running, v)
        if not exclusive:
            out.append(running)
    return np.array(out)


def scan_cases():
    out = []
    for t in ["f32", "i32", "bf16"]:
        x = normal(t, 2, 4) if t != "i32" else ints(t, -9, 9, 2, 4)
        for axis in (0, 1):
            for kind in range(4):
                for reverse in (0, 1):
                    for exclusive in (0, 1):
                        if t == "i32" and kind > 1 and exclusive:
                            continue
                        wide = x[1].astype(np.float64)
                        wide = np.flip(wide, axis) if reverse else wide
                        y = np.apply_along_axis(lambda v: scan_line(kind, v, exclusive), axis, wide)
                        y = np.flip(y, axis) if reverse else y
                        tol = {} if t == "i32" or kind > 1 else {"tol": [8e-3 if t == "bf16" else 1e-6, 1e-6]}
                        out.append(case("scan", [x], [kind, axis, reverse, exclusive], [make(t, y)], **tol))
    out.append(case("scan", [make("i8", [127, 127, 3])], [0, 0, 0, 0], [make("i8", [127, -2, 1])]))
    out.append(case("scan", [make("i8", [5, -7])], [2, 0, 0, 1], [make("i8", [127, 5])]))
    out.append(case("scan", [make("u8", [6, 3])], [6, 0, 0, 0], [make("u8", [6, 5])]))
    out.append(case("scan", [make("f32", np.zeros((2, 0)))], [0, 1, 0, 0], [make("f32", np.zeros((2, 0)))]))
    return out


def sorted_line(line, descending):
    """Places in order: NaN is greatest, equal ones stay as they stand."""
    nans = [i for i, v in enumerate(line) if v != v]
    rest = sorted((i for i, v in enumerate(line) if v == v), key=lambda i: -line[i] if descending else line[i])
    return nans + rest if descending else rest + nans


def order_cases():
    out = []
    rows = {"f32": [[2, NAN, -1, 2, -0.0, 0.0], [INF, 1, -INF, NAN, NAN, 1]], "i8": [[5, -128, 127, 5, 0, -1]], "u64": [[2**63, 1, 2**63, 0, 7, 7]], "f16": [[0.5, 0.25, 0.5, -3, 8, 1]]}
    for t, values in rows.items():
        x = make(t, values) if t != "u64" else (t, np.array(values, np.uint64))
        for descending in (0, 1):
            lines = [sorted_line([float(v) if t in FLOATS else int(v) for v in row], descending) for row in x[1]]
            index = np.array(lines, np.int64)
            y = np.take_along_axis(x[1], index, 1)
            out.append(case("sort", [x], [1, descending], [(t, y), ("i64", index)]))
            out.append(case("sort", [(t, x[1].T)], [0, descending], [(t, y.T), ("i64", index.T)]))
            for k in (0, 1, 4):
                out.append(case("topk", [x], [k, 1, descending], [(t, y[:, :k]), ("i64", index[:, :k])]))
    out.append(case("sort", [make("f32", np.zeros((2, 0)))], [1, 0], [make("f32", np.zeros((2, 0))), make("i64", np.zeros((2, 0)))]))
    for t, values in [("i32", [[0, 3, -1], [3, 2, 9]]), ("u8", [[0, 255, 1], [1, 1, 4]])]:
        x = make(t, values)
        y = [int(np.sum(x[1].astype(np.int64) == b)) for b in range(5)]
        out.append(case("histogram", [x], [5], [make("i64", y)]))
    return out


# --- contract, convolve, window, resize ---
def dot_cases():
    out = []

    def add(a, b, spec, axes, t, precision=0, tol=None):
        wide = np.float64 if a[0] in FLOATS else np.int64
        y = np.einsum(spec, a[1].astype(wide), b[1].astype(wide))
        made = make(t, y) if t in FLOATS else of_elements(t, [wrap(t, int(v)) for v in y.ravel()], y.shape)
        out.append(case("dot", [a, b], axes + [t, precision], [made], **({"tol": tol} if tol else {})))

    f, i = [1e-6, 1e-6], None
    add(normal("f32", 2, 3), normal("f32", 3, 4), "ik,kj->ij", [[], [], [1], [0]], "f32", tol=f)
    add(normal("f32", 3, 2), normal("f32", 4, 3), "ki,jk->ij", [[], [], [0], [1]], "f64", tol=f)
    add(normal("f16", 2, 3), normal("f16", 3, 4), "ik,kj->ij", [[], [], [1], [0]], "f32", tol=f)
    add(normal("bf16", 2, 5), normal("bf16", 5, 2), "ik,kj->ij", [[], [], [1], [0]], "bf16", tol=[8e-3, 1e-3])
    add(normal("f8e4m3", 2, 3), normal("f8e4m3", 3, 2), "ik,kj->ij", [[], [], [1], [0]], "f32", tol=f)
    add(normal("f64", 4, 2, 3), normal("f64", 2, 4, 5), "bmk,mbj->bmkj", [[0, 1], [1, 0], [], []], "f64", tol=[1e-14, 1e-14])
    add(normal("f32", 2, 3, 4), normal("f32", 4, 2, 3), "bmk,kbm->b", [[0], [1], [1, 2], [2, 0]], "f32", tol=f)
    add(normal("f32", 3, 2, 2), normal("f32", 2, 5, 3), "bik,kjb->bij", [[0], [2], [2], [0]], "f32", tol=f)
    add(normal("f32", 3), normal("f32", 3), "k,k->", [[], [], [0], [0]], "f32", tol=f)
    add(normal("f32", 2, 0), normal("f32", 0, 3), "ik,kj->ij", [[], [], [1], [0]], "f32")
    add(normal("f32", 0, 2), normal("f32", 2, 3), "ik,kj->ij", [[], [], [1], [0]], "f32")
    add(ints("i8", -128, 128, 2, 3), ints("i8", -128, 128, 3, 2), "ik,kj->ij", [[], [], [1], [0]], "i32")
    add(ints("u8", 0, 256, 2, 3), ints("u8", 0, 256, 3, 2), "ik,kj->ij", [[], [], [1], [0]], "i64")
    add(ints("i32", -(2**31), 2**31, 2, 3), ints("i32", -(2**31), 2**31, 3, 2), "ik,kj->ij", [[], [], [1], [0]], "i32")
    return out


def conv_value(x, w, strides, low, high, dilation, groups, y_shape):
    """Sums written out: also the transposes, by which operand is None."""
    n, space = len(x), len(strides)
    y = np.zeros(y_shape)
    per = w.shape[0] // groups
    for place in np.ndindex(*y_shape):
        b, k = place[:2]
        for c in range(w.shape[1]):
            for tap in np.ndindex(*w.shape[2:]):
                at = tuple(place[2 + d] * strides[d] - low[d] + tap[d] * dilation[d] for d in range(space))
                if all(0 <= p < e for p, e in zip(at, x.shape[2:])):
                    y[place] += x[(b, k // per * w.shape[1] + c) + at] * w[(k, c) + tap]
    return y


CONVS = [((2, 3, 5), (4, 3, 3), [1], [1], [1], [1], 1), ((1, 4, 6), (2, 2, 2), [2], [0], [1], [2], 2), ((1, 2, 5, 4), (3, 2, 2, 3), [2, 1], [1, 0], [0, 2], [1, 1], 1),
         ((1, 2, 4, 4), (2, 1, 3, 1), [1, 2], [-1, 1], [2, -1], [1, 1], 2), ((1, 1, 3, 3, 2), (2, 1, 2, 2, 2), [1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 2, 1], 1),
         ((0, 1, 4), (1, 1, 2), [1], [0], [0], [1], 1), ((2, 1, 0), (1, 1, 2), [1], [1], [1], [1], 1)]


def conv_cases():
    out = []
    for x_shape, w_shape, strides, low, high, dilation, groups in CONVS:
        x, w = normal("f32", *x_shape), normal("f32", *w_shape)
        attrs = [strides, low, high, dilation, groups]
        space = [(e + l + h - d * (k - 1) - 1) // s + 1 for e, l, h, d, k, s in zip(x_shape[2:], low, high, dilation, w_shape[2:], strides)]
        y_shape = (x_shape[0], w_shape[0], *space)
        value = lambda a, b: conv_value(a, b, strides, low, high, dilation, groups, y_shape)  # noqa: E731
        out.append(case("conv", [x, w], attrs, [make("f32", value(x[1], w[1]))], tol=[1e-5, 1e-5]))
        # Transposes: the gradient of sum(g·conv(x, w)), one unit vector at a time.
        g = normal("f32", *y_shape)
        dx, dw = np.zeros(x_shape), np.zeros(w_shape)
        for place in np.ndindex(*x_shape):
            unit = np.zeros(x_shape)
            unit[place] = 1
            dx[place] = np.sum(g[1] * value(unit, w[1].astype(np.float64)))
        for place in np.ndindex(*w_shape):
            unit = np.zeros(w_shape)
            unit[place] = 1
            dw[place] = np.sum(g[1] * value(x[1].astype(np.float64), unit))
        out.append(case("conv_input", [g, w], [list(x_shape[2:])] + attrs, [make("f32", dx)], tol=[1e-5, 1e-5]))
        out.append(case("conv_weight", [x, g], [list(w_shape[2:])] + attrs, [make("f32", dw)], tol=[1e-5, 1e-5]))
    a, b = ints("i8", -9, 9, 1, 2, 4), ints("i8", -9, 9, 2, 2, 2)
    y = conv_value(a[1].astype(np.float64), b[1].astype(np.float64), [1], [0], [0], [1], 1, (1, 2, 3))
    out.append(case("conv", [a, b], [[1], [0], [0], [1], 1], [of_elements("i8", [wrap("i8", int(v)) for v in y.ravel()], y.shape)]))
    return out


def windows(shape, size, strides, low, high, dilation):
    out_shape = [(e + l + h - d * (k - 1) - 1) // s + 1 for e, l, h, d, k, s in zip(shape, low, high, dilation, size, strides)]
    found = {}
    for place in np.ndindex(*out_shape):
        inside = []
        for tap in np.ndindex(*size):
            at = tuple(p * s - l + k * d for p, s, l, k, d in zip(place, strides, low, tap, dilation))
            if all(0 <= p < e for p, e in zip(at, shape)):
                inside.append(at)
        found[place] = inside
    return out_shape, found


def window_cases():
    out = []
    for shape, size, strides, low, high, dilation in [((6,), [2], [2], [0], [0], [1]), ((2, 5), [1, 3], [1, 2], [0, 1], [0, 1], [1, 1]), ((4, 5), [2, 2], [1, 1], [0, 1], [1, 0], [2, 1]),
                                                      ((3,), [2], [1], [3], [0], [1]), ((0, 3), [2, 1], [1, 1], [1, 0], [1, 0], [1, 1])]:
        x = make("f32", random.integers(-4, 5, shape))  # ties
        out_shape, found = windows(shape, size, strides, low, high, dilation)
        attrs = [size, strides, low, high, dilation]
        g = normal("f32", *out_shape)
        t = normal("f32", *shape)
        for kind, (function, empty) in enumerate([(sum, 0), (max, -INF), (min, INF)]):
            y, spread, pick = np.zeros(out_shape), np.zeros(shape), np.zeros(out_shape)
            for place, inside in found.items():
                values = [float(x[1][at]) for at in inside]
                y[place] = function(values) if values else empty
                for at in inside if kind == 0 else [inside[values.index(function(values))]] if inside else []:
                    spread[at] += g[1][place]
                    pick[place] = t[1][at]
            out.append(case("window", [x], [kind] + attrs, [make("f32", y)], eq="value"))
            out.append(case("window_spread", [x, g], [kind] + attrs, [make("f32", spread)], tol=[1e-6, 1e-6]))
            if kind > 0:
                out.append(case("window_pick", [x, t], [kind - 1] + attrs, [make("f32", pick)], eq="value"))
    nan = make("f32", [1, NAN, 3, 2])
    out.append(case("window", [nan], [1, [2], [1], [0], [0], [1]], [make("f32", [NAN, NAN, 3])]))
    out.append(case("window_spread", [nan, make("f32", [1, 10, 100])], [1, [2], [1], [0], [0], [1]], [make("f32", [0, 11, 100, 0])]))
    return out


def resize_weights(mode, corners, n, m):
    w = np.zeros((m, n))
    for i in range(m):
        if mode == 0:
            w[i, i * n // m] = 1
            continue
        at = (i * (n - 1) / (m - 1) if m > 1 else 0.0) if corners else (i + 0.5) * n / m - 0.5
        f = math.floor(at)
        for k in range(f - 1, f + 3):
            d = abs(at - k)
            if mode == 1:
                weight = max(0.0, 1 - d)
            else:
                weight = 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3 if d < 2 else 0
            w[i, min(max(k, 0), n - 1)] += weight
    return w


def resize_cases():
    out = []
    for shape, to in [((2, 3), (6,)), ((2, 5), (3,)), ((1, 3, 2), (4, 3)), ((3, 1), (4,)), ((3, 2), (1,)), ((0, 3), (6,)), ((1, 2, 2, 2), (3, 2, 3))]:
        x = normal("f32", *shape)
        for mode in (0, 1, 2):
            for corners in (0, 1):
                axes = len(to)
                y, rows = x[1].astype(np.float64), []
                for d in range(axes):
                    w = resize_weights(mode, corners, shape[len(shape) - axes + d], to[d])
                    rows.append(w)
                    y = np.moveaxis(np.tensordot(w, y, (1, len(shape) - axes + d)), 0, len(shape) - axes + d)
                tol = {} if mode == 0 else {"tol": [1e-6, 1e-6]}
                out.append(case("resize", [x], [list(to), mode, corners], [make("f32", y)], **tol))
                g = normal("f32", *y.shape)
                back = g[1].astype(np.float64)
                for d in range(axes):
                    back = np.moveaxis(np.tensordot(rows[d].T, back, (1, len(shape) - axes + d)), 0, len(shape) - axes + d)
                out.append(case("resize_spread", [g], [list(shape[len(shape) - axes:]), mode, corners], [make("f32", back)], tol=[1e-6, 1e-6]))
    return out


def main():
    elementwise, math_of, casts = float_cases() + int_cases() + choice_cases(), math_cases(), cast_cases()
    families = {
        "make": make_cases(), "elementwise": elementwise, "math": math_of, "cast": casts,
        "view": view_cases(), "index": index_cases(), "reduce": reduce_cases(), "scan": scan_cases(), "order": order_cases(),
        "dot": dot_cases(), "conv": conv_cases(), "window": window_cases(), "resize": resize_cases(), "composites": composite_cases(case, philox),
    }
    families["empty"] = empty_cases(case, elementwise + math_of + casts, families["composites"])
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors")
    for family, cases in families.items():
        lines, before = [], None
        for c in cases:
            same, before = c["in"] == before, c["in"]
            lines.append(json.dumps({**c, "in": "="} if same and before else c, separators=(",", ":")))
        with open(os.path.join(folder, family + ".json"), "w") as file:
            file.write("[\n" + ",\n".join(lines) + "\n]\n")
        print(family, len(cases))


if __name__ == "__main__":
    main()
