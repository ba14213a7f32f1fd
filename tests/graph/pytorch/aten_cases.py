"""Random arguments for overloads of ATen, by name: of all that the table has an expression for."""
import math

import torch

from kiln import TORCH, TYPES, difference

CASES, properties = {}, {}


class Generator:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def int(self, low, high):  # both included
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def pick(self, items):
        return items[self.int(0, len(items) - 1)]

    def chance(self, one_in=2):
        return self.int(1, one_in) == 1

    def shape(self, low=0, high=4, least=1):
        return [self.pick([least, 1, 2, 3, 5]) for _ in range(self.int(low, high))]

    def normal(self, shape, t="f32"):
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(TORCH[t])

    def ints(self, shape, low, high, t="i64"):
        return torch.randint(low, high + 1, shape, generator=self.generator).to(TORCH[t])

    def floats(self):
        return self.pick(["f32", "f32", "f64", "f16", "bf16"])

    def wide(self):
        return self.pick(["f32", "f32", "f64"])

    def tensor(self, shape, t):
        if t == "i1":
            return self.ints(shape, 0, 1, t)
        return self.normal(shape, t) * 2 if t[0] in "fb" else self.ints(shape, 0 if t[0] == "u" else -9, 9, t)

    def any(self, shape, ints=True, bools=False):
        return self.tensor(shape, self.pick(["f32", "f64", "f16", "bf16"] + ["i32", "i64", "i8", "u8"] * ints + ["i1"] * bools))

    def broadcast(self, shape):
        """A shape that broadcasts to this one."""
        shape = [1 if self.chance(4) else e for e in shape]
        return shape[self.int(0, len(shape)):] if self.chance(3) else shape

    def permutation(self, n):
        return torch.randperm(n, generator=self.generator).tolist()

    def axis(self, x):
        n = x.dim() if isinstance(x, torch.Tensor) else x
        return self.int(-n, n - 1)

    def axes(self, n):
        return [d - n if self.chance() else d for d in range(n) if self.chance()] or [self.int(-n, n - 1)]


def op(*names):
    def register(function):
        for name in names:
            CASES["aten::" + name] = lambda r, name=name: function(r, name)
        return function
    return register


def coarse(*tensors):
    """More is allowed where small floats round at each op of an expression."""
    return 8 if any(x.dtype in (torch.float16, torch.bfloat16) for x in tensors) else 1


# --- one element at a time ---
UNARY = ("abs acos asin atan ceil cos cosh erf exp expm1 floor log log10 log1p log2 round rsqrt sigmoid sin sinh sqrt tan tanh trunc acosh asinh "
         "atanh relu neg sign sgn isnan isinf signbit bitwise_not logical_not reciprocal silu mish hardsigmoid hardswish erfc exp2 alias clone "
         "detach contiguous lift_fresh_copy").split()
NO_INTS = {"silu", "mish", "hardsigmoid", "hardswish", "gelu"}


@op(*UNARY)
def unary(r, name):
    shape = r.shape(least=0)
    if name == "bitwise_not":
        return {"self": r.tensor(shape, r.pick(["i1", "i8", "i32", "u8"]))}
    x = r.any(shape, ints=name not in NO_INTS)
    if x.dtype == torch.uint8 and name == "neg":
        x = x.to(torch.int16)
    if not x.dtype.is_floating_point:
        if name in ("log", "log10", "log1p", "log2", "rsqrt", "sqrt", "acosh"):
            x = x.abs() + 1
        if name in ("acos", "asin", "atanh"):
            x = x.clamp(0, 1) * (name != "atanh")
        return {"self": x % 5 if name in ("sinh", "cosh", "exp", "expm1", "exp2") else x}
    if name in ("log", "log10", "log1p", "log2", "rsqrt", "sqrt"):
        x = x.abs() + 0.125
    if name == "acosh":
        x = x.abs() + 1.125
    if name in ("acos", "asin", "atanh", "tan"):
        x = x.clamp(-0.9, 0.9)
    if name in ("isnan", "isinf", "relu", "sign", "trunc", "abs") and r.chance():
        x = torch.where(r.ints(shape, 0, 3) == 0, torch.full_like(x, r.pick([math.nan, math.inf, -math.inf])), x)
    return {"self": x, "slack": coarse(x) if name in ("acosh", "asinh", "atanh", "reciprocal") else 1}


@op("gelu", "leaky_relu", "elu", "hardtanh", "softplus", "bernoulli.p", "dropout", "native_dropout", "logit")
def parametric(r, name):
    x = r.any(r.shape(), ints=False)
    a = r.int(1, 8) / 8
    return {"gelu": {"self": x, "approximate": r.pick(["none", "tanh"])}, "leaky_relu": {"self": x, "negative_slope": a},
            "elu": {"self": x, "alpha": a, "scale": r.pick([1, 1.5]), "input_scale": r.pick([1, 0.5]), "slack": coarse(x)},
            "logit": {"self": torch.sigmoid(x), "eps": r.pick([None, 0.125]), "slack": coarse(x) * 4},
            "hardtanh": {"self": x, "min_val": -a, "max_val": a}, "softplus": {"self": x, "beta": r.pick([1, 2, 0.5]), "threshold": 1e9, "slack": coarse(x)},
            "bernoulli.p": {"self": r.normal([40, 50]), "p": a}, "dropout": {"input": r.normal([40, 50], r.wide()), "p": a / 2, "train": r.chance()},
            "native_dropout": {"input": r.normal([40, 50], r.wide()), "p": a / 2, "train": r.pick([True, False])}}[name]


def pair(r, ints=True, bools=False):
    shape = r.shape(least=0)
    t = r.pick(["f32", "f64", "f16", "bf16"] + ["i32", "i64", "u8", "i8"] * ints + ["i1"] * bools)
    other = t if r.chance() else r.pick(["f32", "f64", "f16"] + ["i64", "i32", "i8"] * ints)
    return r.tensor(r.broadcast(shape), t), r.tensor(r.broadcast(shape), other)


def scalar(r, x):
    return r.int(-4, 4) if r.chance() or not x.dtype.is_floating_point and r.chance() else r.int(-16, 16) / 4


@op(*[f"{n}.{k}" for n in ("add", "sub", "mul", "div", "rsub", "fmod", "remainder", "ne", "eq", "ge", "le", "gt", "lt") for k in ("Tensor", "Scalar")],
    "div.Tensor_mode", "div.Scalar_mode")
def arithmetic(r, name):
    base, kind = name.split(".")
    compares = base in ("ne", "eq", "ge", "le", "gt", "lt")
    x, y = pair(r, bools=base in ("mul", "ne", "eq"))
    if base in ("sub", "rsub", "add"):
        x, y = (v.to(torch.int16) if v.dtype == torch.uint8 else v for v in (x, y))
    if compares:
        x, y = (v.round() if v.dtype != torch.bool else v for v in (x, y))
    y = y if "Tensor" in kind else scalar(r, x)
    divides = base in ("div", "fmod", "remainder")
    if divides:
        y = torch.where(y.abs() < 0.5, torch.ones_like(y), y) if isinstance(y, torch.Tensor) else y or 3
        if isinstance(y, int) and x.dtype == torch.uint8:
            y = abs(y)
    if isinstance(y, (int, float)) and x.dtype == torch.uint8 and y < 0:
        y = -y
    # Quotients are compared where their whole parts do not hang on a rounding.
    if divides and base != "div" or "mode" in kind:
        x = x.to(torch.float64) if x.dtype in (torch.float16, torch.bfloat16) else x
        y = y.to(torch.float64) if isinstance(y, torch.Tensor) and y.dtype.is_floating_point else y
        x = x.to(torch.float64) if x.dtype.is_floating_point else x
    out = {"self": x, "other": y}
    if base in ("add", "sub", "rsub") and r.chance():
        whole = not torch.result_type(x, y).is_floating_point
        out["alpha"] = r.int(2, 3) if whole else r.int(1, 8) / 4
    if "mode" in kind:
        out["rounding_mode"] = r.pick([None, "floor", "trunc"])
    tensors = [v for v in (x, y) if isinstance(v, torch.Tensor)]
    return {**out, "slack": coarse(*tensors)}


@op("logical_xor", "logical_and", "logical_or", *[f"bitwise_{n}.{k}" for n in ("and", "or", "xor") for k in ("Scalar", "Tensor")],
    "bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor")
def bits(r, name):
    shape = r.shape()
    if "logical" in name:
        return {"self": r.any(shape).round(), "other": r.any(shape, bools=True)}
    t = r.pick(["i8", "i32", "i64", "u8"] + ["i1"] * ("shift" not in name))
    x = r.tensor(shape, t)
    y = r.ints(r.broadcast(shape), 0, 6, t) if "shift" in name else r.tensor(r.broadcast(shape), t) if "Tensor" in name else r.int(0, 1 if t == "i1" else 9)
    return {"self": x, "other": bool(y) if t == "i1" and not isinstance(y, torch.Tensor) else y}


@op("maximum", "minimum", "max.other", "min.other", "fmax", "fmin", "atan2", "hypot", "copysign.Tensor", "logaddexp", "pow.Tensor_Tensor",
    "pow.Scalar", "pow.Tensor_Scalar")
def two(r, name):
    x, y = pair(r, ints=name in ("maximum", "minimum", "max.other", "min.other"))
    if name in ("fmax", "fmin", "maximum", "minimum") and x.dtype.is_floating_point and r.chance():
        x = torch.where(r.ints(x.shape, 0, 2) == 0, torch.full_like(x, math.nan), x)
    if name in ("hypot", "logaddexp", "copysign.Tensor", "atan2"):
        y = y.to(x.dtype)
    if name == "logaddexp" and r.chance(4):
        x, y = torch.full_like(x, -math.inf), torch.full_like(y, -math.inf)
    if name.startswith("pow"):
        if r.chance(3):
            x, y = r.ints(x.shape, 1, 5), r.ints(y.shape, 0, 5)
            return {"self": x if name != "pow.Scalar" else 3, "exponent": y if name != "pow.Tensor_Scalar" else r.int(0, 4)}
        x = x.abs() + 0.125
        return {"self": x if name != "pow.Scalar" else r.int(1, 9) / 4, "exponent": y if name != "pow.Tensor_Scalar" else r.pick([0, 1, 2, 3, -1, 0.5, -0.5, 1.75]),
                "slack": coarse(x, y)}
    return {"self": x, "other": y, "slack": coarse(x, y) * (4 if name == "logaddexp" else 1)}


@op("where.self", "masked_fill.Scalar", "masked_fill.Tensor", "clamp", "clamp.Tensor", "clamp_min", "clamp_max", "addcmul", "addcdiv", "lerp.Scalar",
    "lerp.Tensor", "threshold_backward", "sigmoid_backward", "tanh_backward", "silu_backward", "gelu_backward")
def three(r, name):
    shape = r.shape()
    x = r.any(shape, ints=name in ("where.self", "clamp", "clamp_min", "clamp_max", "masked_fill.Scalar"))
    t = TYPES[x.dtype]
    y, z = r.tensor(r.broadcast(shape), t), r.tensor(r.broadcast(shape), t)
    mask = r.ints(r.broadcast(shape), 0, 1, "i1")
    if name == "where.self":
        return {"condition": mask, "self": x, "other": y if r.chance() else r.any(r.broadcast(shape), ints=t[0] in "iu")}
    if name.startswith("masked"):
        return {"self": x, "mask": mask, "value": r.int(0, 5) if "Scalar" in name else r.tensor([], t)}
    if name == "clamp":
        low, high = r.int(0, 3), r.int(1, 5)
        if x.dtype.is_floating_point or r.chance(3):
            low, high = -low / 2 if t[0] != "u" else low / 2, high / 2
        missing = r.int(0, 3)
        return {"self": x, "min": None if missing == 1 else low, "max": None if missing == 2 else high}
    if name == "clamp.Tensor":
        missing = r.int(0, 3)
        return {"self": x, "min": None if missing == 1 else y, "max": None if missing == 2 else z}
    if name in ("clamp_min", "clamp_max"):
        return {"self": x, name[-3:]: r.int(0, 4) if not x.dtype.is_floating_point else r.int(-4, 4) / 4}
    slack = coarse(x)
    if name.startswith("addc"):
        z = z.abs() + 0.5 if "div" in name else z
        return {"self": x, "tensor1": y, "tensor2": z, "value": r.int(1, 6) / 4, "slack": slack}
    if name.startswith("lerp"):
        return {"self": x, "end": r.tensor(shape, t), "weight": r.int(0, 4) / 4 if "Scalar" in name else r.tensor(shape, t).abs(), "slack": 4 * slack}
    g = r.tensor(shape, t)
    if name == "threshold_backward":
        return {"grad_output": g, "self": x, "threshold": r.int(-2, 2) / 2}
    if "silu" in name or "gelu" in name:
        return {"grad_output": g, "self": x, "slack": slack * 2, **({"approximate": r.pick(["none", "tanh"])} if "gelu" in name else {})}
    return {"grad_output": g, "output": torch.sigmoid(x) if "sigmoid" in name else torch.tanh(x), "slack": slack}


# --- made ---
@op("arange.start_step", "empty.memory_format", "empty_strided", "zeros", "ones", "full", "full_like", "fill.Scalar", "zeros_like", "ones_like",
    "scalar_tensor", "rand", "randn", "randperm", "copy", "_to_copy", "masked_scatter")
def made(r, name):
    shape, dtype = r.shape(), TORCH[r.pick(["f32", "f16", "i64", "i8"])]
    x = r.any(shape)
    value = r.int(0, 9) if r.chance() else r.int(0, 9) / 4
    if name == "arange.start_step":
        if r.chance():
            return {"start": r.int(-5, 5), "end": r.int(6, 12), "step": r.int(1, 3), "dtype": r.pick([None, torch.int64, torch.float32])}
        return {"start": r.int(-5, 5) / 4, "end": r.int(6, 12) / 2, "step": r.int(1, 5) / 4, "dtype": r.pick([None, torch.float64, torch.float32])}
    if name in ("zeros", "ones", "empty.memory_format", "full"):
        return {"size": shape, "dtype": dtype, **({"fill_value": value} if name == "full" else {})}
    if name == "empty_strided":
        return {"size": shape, "stride": list(reversed(range(1, len(shape) + 1))), "dtype": dtype}
    if name in ("full_like", "fill.Scalar", "zeros_like", "ones_like"):
        like = {"dtype": r.pick([None, dtype])} if "like" in name else {}
        return {"self": x, **like, **{"full_like": {"fill_value": value}, "fill.Scalar": {"value": value}}.get(name, {})}
    if name == "scalar_tensor":
        return {"s": value, "dtype": dtype}
    if name in ("rand", "randn"):
        return {"size": [60, 70], "dtype": torch.float32}
    if name == "randperm":
        return {"n": r.int(1, 50), "dtype": torch.int64}
    if name == "copy":
        return {"self": x, "src": r.any(r.broadcast(shape)).abs()}  # C++ leaves open what negative floats are as u8
    if name == "_to_copy":
        return {"self": x, "dtype": r.pick([None, dtype])}
    mask = r.ints(shape, 0, 1, "i1")
    return {"self": x, "mask": mask, "source": r.tensor([max(1, int(mask.sum()) + r.int(0, 2))], TYPES[x.dtype])}


def shape_and_type(case, got, expected):
    y = expected[0]
    return "" if got[0].shape == y.shape and got[0].dtype == y.dtype else "another type"


def uniform(case, got, expected):
    x = got[0].double()
    return "" if 0 <= float(x.min()) and float(x.max()) < 1 and abs(float(x.mean()) - 0.5) < 0.02 and abs(float(x.var()) - 1 / 12) < 0.01 else "not uniform"


def gaussian(case, got, expected):
    x = got[0].double()
    kurtosis = float(((x - x.mean()) ** 4).mean() / x.var() ** 2)
    return "" if abs(float(x.mean())) < 0.06 and abs(float(x.var()) - 1) < 0.08 and abs(kurtosis - 3) < 0.4 else "not normal"


def permutation(case, got, expected):
    return "" if torch.equal(got[0].sort().values, torch.arange(case["n"])) else "no permutation"


def dropped(case, got, expected):
    x, p = case["input"], case["p"]
    if case["train"] is False:
        return "" if torch.equal(got[0], x) and all(bool(m.all()) for m in got[1:]) else "not the input"
    kept = got[1] if len(got) > 1 else got[0] != 0
    right = difference(got[0], torch.where(kept, x / (1 - p), torch.zeros_like(x))) <= 1
    return "" if right and abs(float(kept.double().mean()) - (1 - p)) < 0.06 else "not as many, or other values"


def tossed(case, got, expected):
    return "" if abs(float(got[0].double().mean()) - case["p"]) < 0.05 and got[0].dtype == expected[0].dtype else "not as many"


properties.update({"aten::empty.memory_format": shape_and_type, "aten::empty_strided": shape_and_type, "aten::rand": uniform, "aten::randn": gaussian,
                   "aten::randperm": permutation, "aten::dropout": dropped, "aten::native_dropout": dropped, "aten::bernoulli.p": tossed})
from layer_cases import *  # noqa: F401,F403,E402
