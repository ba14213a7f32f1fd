"""FX graphs of ATen calls as programs in PyTorch's export schema, which Kiln reads without PyTorch.

The schema is torch/_export/serde/schema.py, major version 8; this writes the part of it that calls need, and no weights.
"""
from __future__ import annotations

import json
import math
import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

# ScalarType of the schema.
ELEMENTS = {torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7,
            torch.float64: 8, torch.bool: 12, torch.bfloat16: 13, torch.uint16: 28, torch.float8_e4m3fn: 29, torch.float8_e5m2: 30,
            torch.uint32: 34, torch.uint64: 35}


class Unsupported(Exception):
    """What a graph cannot have: the message says what."""


def target_of(node: Node) -> str | None:
    """"aten.add.Tensor", or None of what is no operator of a library."""
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else None


def place_of(node: Node) -> str:
    """The author's line, for messages."""
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else ""


def size(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.SymInt):
        known = value.node.maybe_as_int()
        return {"as_int": known} if known is not None else {"as_expr": {"expr_str": str(value.node.expr)}}
    return {"as_int": int(value)}


def tensor_meta(value: torch.Tensor) -> dict[str, Any]:
    if value.dtype not in ELEMENTS:
        raise Unsupported(f"there are no tensors of {value.dtype} in a graph")
    if value.layout is not torch.strided:
        raise Unsupported(f"there are no tensors of layout {value.layout} in a graph")
    return {"dtype": ELEMENTS[value.dtype], "sizes": [size(extent) for extent in value.shape]}


def constant_of(node: Node) -> torch.Tensor:
    """The tensor that a node of kind get_attr stands for: a constant of the program."""
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


class Writer:
    """One program, call by call."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.nodes: list[dict[str, Any]] = []
        self.metas: dict[str, Any] = {}
        self.sizes: dict[str, Any] = {}
        self.symbols: set[Any] = set()
        self.results: dict[Node, list[str]] = {}  # of calls with several

    def value(self, x: Any) -> Any:
        if not isinstance(x, Node):
            return x
        return constant_of(x) if x.op == "get_attr" else x.meta.get("val")

    def input(self, node: Node) -> None:
        """A tensor becomes an input; an int is what calls mention by its symbol."""
        value = self.value(node)
        if isinstance(value, torch.Tensor):
            self.inputs.append(node.name)
            self.metas[node.name] = tensor_meta(value)
            self.note(*value.shape)
        elif not isinstance(value, (int, torch.SymInt)):
            raise Unsupported(f"input {node.name} is no tensor, but {type(value).__name__}")

    def note(self, *values: Any) -> None:
        for value in values:
            if isinstance(value, torch.SymInt):
                self.symbols |= value.node.expr.free_symbols

    def int_name(self, value: torch.SymInt) -> str:
        """The name under which arguments mention a size."""
        self.note(value)
        name = f"size_{len(self.sizes)}"
        self.sizes[name] = size(value)
        return name

    def tensor(self, node: Node) -> dict[str, str]:
        return {"name": node.name}

    def list_argument(self, items: list[Any]) -> dict[str, Any]:
        values = [self.value(item) for item in items]
        if any(isinstance(value, torch.Tensor) for value in values):
            if all(isinstance(value, torch.Tensor) for value in values):
                return {"as_tensors": [self.tensor(item) for item in items]}
            return {"as_optional_tensors": [{"as_none": True} if item is None else {"as_tensor": self.tensor(item)} for item in items]}
        if all(isinstance(value, bool) for value in values) and values:
            return {"as_bools": values}
        if all(isinstance(value, (int, torch.SymInt)) for value in values):
            if any(isinstance(value, torch.SymInt) for value in values):
                return {"as_sym_ints": [{"as_name": self.int_name(v)} if isinstance(v, torch.SymInt) else {"as_int": v} for v in values]}
            return {"as_ints": values}
        if all(isinstance(value, (int, float)) for value in values):
            return {"as_floats": [number(float(value)) for value in values]}
        raise Unsupported(f"a list of {', '.join(sorted({type(value).__name__ for value in values}))}")

    def argument(self, item: Any) -> dict[str, Any]:
        value = self.value(item)
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.Tensor):
            return {"as_tensor": self.tensor(item)}
        if isinstance(value, (list, tuple)):
            return self.list_argument(list(item))
        if isinstance(value, torch.SymInt):
            return {"as_sym_int": {"as_name": self.int_name(value)}}
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": number(value)}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, torch.dtype):
            if value not in ELEMENTS:
                raise Unsupported(f"there are no tensors of {value} in a graph")
            return {"as_scalar_type": ELEMENTS[value]}
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return {"as_none": True}
        raise Unsupported(f"an argument of type {type(value).__name__}")

    def call(self, node: Node) -> None:
        if node.target is operator.getitem:
            return  # names that the call before gave
        target = target_of(node)
        value = node.meta.get("val")
        if isinstance(value, (int, float, bool, torch.SymInt, torch.SymBool, torch.SymFloat)):
            return  # sizes: arguments have their expressions
        if target is None:
            raise Unsupported(f"a call of {node.target}")
        schema = node.target._schema.arguments
        inputs = [(argument.name, given) for argument, given in zip(schema, node.args)] + list(node.kwargs.items())
        self.nodes.append({"target": "torch.ops." + target,
                           "inputs": [{"name": name, "arg": self.argument(given)} for name, given in inputs],
                           "outputs": self.outputs(node, value), "metadata": {"stack_trace": node.stack_trace or ""}})

    def outputs(self, node: Node, value: Any) -> list[dict[str, Any]]:
        """One name, or those of the getitem nodes behind a call with several results."""
        if isinstance(value, torch.Tensor):
            return [{"as_tensor": self.tensor(node)}]
        if not isinstance(value, (list, tuple)):
            return []
        names = {}
        for user in node.users:
            if user.target is operator.getitem:
                names.setdefault(user.args[1], user.name)
        self.results[node] = [names.get(i, f"{node.name}_unused_{i}") for i in range(len(value))]
        out = [{"as_tensor": {"name": name}} for name in self.results[node]]
        return [{"as_none": True} if each is None else named for each, named in zip(value, out)]

    def name_of(self, node: Node) -> str:
        if node.target is operator.getitem and isinstance(node.args[0], Node) and node.args[0] in self.results:
            return self.results[node.args[0]][node.args[1]]
        return node.name


def number(value: float) -> float | str:
    """JSON has no infinities."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def ranges(symbols: set[Any], shape_env: Any) -> dict[str, Any]:
    """What the symbols may be, as the guards around the program say."""
    out = {}
    for symbol in symbols:
        known = shape_env.var_to_range.get(symbol) if shape_env is not None else None
        low = int(known.lower) if known is not None and known.lower.is_Integer else 0
        high = int(known.upper) if known is not None and known.upper.is_Integer else None
        out[str(symbol)] = {"min_val": low, "max_val": high}
    return out


def shape_env_of(module: GraphModule) -> Any:
    for node in module.graph.nodes:
        value = node.meta.get("val")
        for size_ in [value] if isinstance(value, torch.SymInt) else value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size_, torch.SymInt):
                return size_.node.shape_env
    return None


def program_of(module: GraphModule) -> tuple[str, set[str]]:
    """The module's graph as JSON text, and the symbols that it mentions. Its inputs are the tensors among the placeholders and constants
    (get_attr), in the order of the nodes; its outputs computed_outputs, called y0, y1, …. Unsupported says what it has that no graph can
    have."""
    writer = Writer()
    outputs: list[str] = []
    for node in module.graph.nodes:
        try:
            if node.op in ("placeholder", "get_attr"):
                writer.input(node)
            elif node.op == "call_function":
                writer.call(node)
            elif node.op == "output":
                outputs = [writer.name_of(x) for x in computed_outputs(node)]
            else:
                raise Unsupported(f"a node of kind {node.op}")
        except Unsupported as refused:
            place = place_of(node)
            raise Unsupported(f"{node.format_node()}: {refused}" + (f" ({place})" if place else "")) from None
    tensors = [{"as_tensor": {"name": name}} for name in writer.inputs]
    graph = {"inputs": tensors, "outputs": [{"as_tensor": {"name": name}} for name in outputs], "nodes": writer.nodes,
             "tensor_values": writer.metas, "sym_int_values": writer.sizes}
    signature = {"input_specs": [{"user_input": {"arg": each}} for each in tensors],
                 "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": name}}}} for name in outputs]}
    program = json.dumps({"graph_module": {"graph": graph, "signature": signature}, "schema_version": {"major": 8, "minor": 1},
                          "range_constraints": ranges(writer.symbols, shape_env_of(module))})
    return program, {str(symbol) for symbol in writer.symbols}


def output_nodes(node: Node) -> list[Any]:
    given = node.args[0]
    return list(given) if isinstance(given, (list, tuple)) else [given]


def computed_outputs(output: Node) -> list[Node]:
    """The outputs that are tensors of calls, each once. What a module hands through, as a forward pass does with parameters that its
    backward reads, needs no copy."""
    return list(dict.fromkeys(x for x in output_nodes(output)
                              if isinstance(x, Node) and x.op == "call_function" and isinstance(x.meta.get("val"), torch.Tensor)))
