"""Element types for make_vectors.py: rounding, casts and JSON, written from the definitions and not from Kiln.

A tensor is (type name, NumPy array). Floats below 32 bits are kept as float64 arrays of values that the type has.
"""
import math
from fractions import Fraction

import numpy as np

INTS = {"i8": (8, True), "i16": (16, True), "i32": (32, True), "i64": (64, True),
        "u8": (8, False), "u16": (16, False), "u32": (32, False), "u64": (64, False)}
# name: (exponent bits, mantissa bits, has infinities)
FLOATS = {"f16": (5, 10, True), "bf16": (8, 7, True), "f32": (8, 23, True), "f64": (11, 52, True),
          "f8e4m3": (4, 3, False), "f8e5m2": (5, 2, True)}
ALL = ["i1", *INTS, *FLOATS]


def dtype(t):
    if t == "i1":
        return np.bool_
    if t in INTS:
        return np.dtype(("int" if INTS[t][1] else "uint") + str(INTS[t][0]))
    return np.float32 if t == "f32" else np.float64


def limits(t):
    bits, signed = INTS[t]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def wrap(t, value):
    bits, signed = INTS[t]
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def greatest(t):
    exponent, mantissa, inf = FLOATS[t]
    bias = (1 << (exponent - 1)) - 1
    if inf:
        return math.ldexp(2 - 2.0 ** -mantissa, bias)
    return math.ldexp(2 - 2.0 ** (1 - mantissa), bias + 1)  # all ones but the NaN


def round_to(t, value):
    """A float, int or Fraction to the nearest value of a float type, ties to even. f8 saturates."""
    if isinstance(value, float) and (math.isnan(value) or value == 0):
        return value
    exponent, mantissa, _ = FLOATS[t]
    small = t.startswith("f8")
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(greatest(t), value) if small else value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    bias = (1 << (exponent - 1)) - 1
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** e:
        e -= 1
    step = Fraction(2) ** (max(e, 1 - bias) - mantissa)
    steps = magnitude / step
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    rounded = whole * step
    sign = -1.0 if exact < 0 else 1.0
    if rounded > Fraction(greatest(t)):
        return sign * (greatest(t) if small else math.inf)
    return sign * float(rounded)


def round_all(t, values):
    if t == "f64":
        return np.asarray(values, np.float64)
    if t == "f32":
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values).astype(np.float32)
    flat = [round_to(t, float(v)) for v in np.asarray(values, np.float64).ravel()]
    return np.array(flat, np.float64).reshape(np.shape(values))


def cast_one(source, to, value):
    if source == to:
        return value
    if to == "i1":
        return bool(value != 0)
    if to in FLOATS:
        return round_to(to, value if isinstance(value, float) else int(value))
    if source in FLOATS:
        low, high = limits(to)
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        return min(max(int(value), low), high)
    return wrap(to, int(value))


def make(t, values):
    """A tensor of the type from numbers that it has, or that are rounded to it."""
    if t in FLOATS:
        return (t, np.asarray(round_all(t, values), dtype(t)))
    return (t, np.asarray(values, dtype(t)))


def elements(tensor):
    """As Python numbers, in row-major order."""
    t, a = tensor
    if t in FLOATS:
        return [float(v) for v in a.ravel()]
    return [bool(v) if t == "i1" else int(v) for v in a.ravel()]


def of_elements(t, values, shape):
    if t in FLOATS:
        return (t, np.array(values, dtype(t)).reshape(shape))
    return (t, np.array([int(v) for v in values], dtype(t)).reshape(shape))


def json_number(t, value):
    if t in FLOATS:
        value = float(value)
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        if value == 0 and math.copysign(1, value) < 0:
            return "-0"
        if t == "f32":  # the shortest that gives this f32
            value = float(str(np.float32(value)))
        return int(value) if value == int(value) and abs(value) < 1e6 else value
    return int(value)


def json_tensor(tensor):
    if tensor is None:
        return None
    t, a = tensor
    return {"t": t, "s": list(np.shape(a)), "d": [json_number(t, v) for v in np.asarray(a).ravel()]}
