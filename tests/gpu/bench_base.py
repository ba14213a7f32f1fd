"""What the rows of bench.py are made of."""
import dataclasses
import itertools
import math
import typing

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8, "i32": torch.int32,
          "f8e4m3": torch.float8_e4m3fn}
# ‖out - reference‖ / ‖reference‖ that a result of this type may have against float64.
BOUNDS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3, "i8": 0, "i32": 0, "f8e4m3": 1e-2, "tf32": 1e-3}


@dataclasses.dataclass
class Stage:
    """A kernel of a row. Of its configs the fastest that computes the right thing counts; a config's "kernel" is another
    one with the same parameters."""
    kernel: str
    type: str
    configs: list
    bound: float = 0


@dataclasses.dataclass
class Launch:
    """A list of arguments, or a function that makes it of the config that was chosen for the row's first kernel."""
    arguments: typing.Any
    out: torch.Tensor
    expected: typing.Callable  # () -> tensor, in higher precision where that fits; a corner of the output will do


@dataclasses.dataclass
class Row:
    area: str
    name: str
    kernel: str
    type: str
    configs: list
    make: typing.Callable  # () -> Inputs
    work: float
    unit: str = "TB/s"  # or "TFLOP/s"
    bound: float = 0
    then: list = dataclasses.field(default_factory=list)  # kernels that follow, timed as one with the first
    moves: float = 0  # bytes; 0: the work of what is measured in TB/s, and nothing of what is not
    # The names of two kernels, where the row says what the second costs above the first instead.
    pair: tuple = ()

    @property
    def stages(self):
        return [Stage(self.kernel, self.type, self.configs, self.bound), *self.then]

    @property
    def bytes(self):
        return self.moves or (self.work if self.unit == "TB/s" else 0)


@dataclasses.dataclass
class Inputs:
    arguments: typing.Any
    out: torch.Tensor
    peers: dict  # functions of no arguments by name
    expected: typing.Callable
    then: list = dataclasses.field(default_factory=list)  # a Launch for each of the row's
    restore: typing.Callable = lambda: None  # what a launch changes besides its output

    @property
    def launches(self):
        return [Launch(self.arguments, self.out, self.expected), *self.then]


def normal(*shape, type="f32"):
    if type == "i8":
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    return torch.randn(*shape, device="cuda").to(DTYPES[type])


def poisoned(*shape, type="f32"):
    dtype = DTYPES[type]
    value = -77 if dtype in (torch.int8, torch.int32) else math.nan
    return torch.full(shape, value, device="cuda", dtype=dtype)


def power_of_two(n):
    return 1 << (n - 1).bit_length()


def grid_of(**axes):
    """All combinations, as configs."""
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def with_warps(configs, *warps):
    """Also with so many warps, where a kernel's configs know them."""
    return configs + [dict(config, num_warps=w) for config in configs for w in warps]
