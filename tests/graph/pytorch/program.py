"""Programs of ATen calls as graph_reference takes them (aten_json.h), of calls with tensors of PyTorch."""
import math

import torch

import extents
from kiln import TYPES

# No meaning in a graph.
LEFT_OUT = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "cudnn_enable", "cudnn_enabled", "sparse", "sparse_grad"}


def overload_name(function):
    """"aten.add.Tensor" of the function."""
    schema = function._schema
    return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"


class Program:
    def __init__(self, name="test"):
        self.name, self.dims, self.inputs, self.calls, self.outputs, self.tensors = name, {}, [], [], [], {}

    def input(self, name, element, shape):
        self.inputs.append({"name": name, "type": element, "shape": [extents.text(e) if extents.is_extent(e) else int(e) for e in shape]})
        return name

    def given(self, name, x):
        """An input that is this tensor."""
        self.tensors[name] = x
        return self.input(name, TYPES[x.dtype], x.shape)

    def output(self, name, tensor):
        self.outputs.append([name, tensor])

    def call(self, target, arguments, results, place=""):
        self.calls.append({"target": target, "arguments": arguments, "results": results, "place": place})

    def json(self):
        return {"name": self.name, "dims": self.dims, "inputs": self.inputs, "calls": self.calls, "outputs": self.outputs}


def tensor(name):
    return {"tensor": name}


def argument(x, name_of):
    """As JSON; `name_of` gives the name of a tensor, or None of what is none."""
    if x is None or isinstance(x, bool):
        return x
    name = name_of(x)
    if name is not None:
        return tensor(name)
    if extents.is_extent(x):
        return {"dim": extents.text(x)}
    if isinstance(x, int):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"}
    if isinstance(x, str):
        return {"word": x}
    if isinstance(x, torch.dtype):
        return {"type": TYPES[x]}
    if isinstance(x, (list, tuple)):
        return [tensor("") if y is None else argument(y, name_of) for y in x]
    raise TypeError(f"no argument: {x!r}")


def arguments_of(function, args, kwargs, name_of):
    """By the names of the schema, without what has no meaning in a graph."""
    given = dict(zip((a.name for a in function._schema.arguments), args))
    given.update(kwargs)
    return {key: argument(x, name_of) for key, x in given.items() if key not in LEFT_OUT}
