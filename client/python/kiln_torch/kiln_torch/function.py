"""A compiled part of a program as a Python function of tensors and sizes."""
from __future__ import annotations

import ctypes
import threading
from typing import Any

import kiln
import torch
from kiln import _library as c
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node

from .program import computed_outputs, constant_of, output_nodes, program_of

_TYPES = {torch.bool: "i1", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
          torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.float32: "f32", torch.float64: "f64", torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
_BY_NAME = {name: dtype for dtype, name in _TYPES.items()}
_NUMBERS = {dtype: kiln._arrays.TYPES[name] for dtype, name in _TYPES.items()}


class _Slots:
    """kiln_arrays for tensors of known types and ranks. A call fills in addresses, and shapes where they change."""

    def __init__(self, values: list[torch.Tensor], device: torch.device, flags: int, types: list[torch.dtype] | None = None) -> None:
        self.arrays = (c.Array * max(len(values), 1))()
        self.shapes = [(ctypes.c_int64 * max(value.dim(), 1))() for value in values]
        self.changing = []
        for i, value in enumerate(values):
            array = self.arrays[i]
            array.shape, array.rank, array.flags = self.shapes[i], value.dim(), flags
            array.type = _NUMBERS[types[i] if types else value.dtype]
            array.device, array.ordinal = c.DEVICES[device.type], device.index or 0
            known = [extent for extent in value.shape if isinstance(extent, int)]
            if len(known) == value.dim():
                self.shapes[i][: value.dim()] = known
            else:
                self.changing.append(i)

    def fill(self, tensors: list[torch.Tensor]) -> None:
        for i in self.changing:
            self.shapes[i][: tensors[i].dim()] = tensors[i].shape
        for i, tensor in enumerate(tensors):
            self.arrays[i].data = tensor.data_ptr()


def _physical_order(value: torch.Tensor) -> list[int] | None:
    """The axes from the outermost in memory; None where they are in order, or no order of axes is."""
    if value.dim() < 2 or value.is_contiguous():
        return None
    order = sorted(range(value.dim()), key=lambda axis: -int(value.stride(axis)))
    moved = value.permute(order)
    return order if order != list(range(value.dim())) and moved.is_contiguous() else None


class Function:
    """Takes and gives what the module does. Any number of threads may call it."""

    def __init__(self, module: GraphModule, device: torch.device, options: dict[str, Any]) -> None:
        self.module, self.device = module, device
        program, symbols = program_of(module)
        self.compiled = kiln.Graph(program.encode()).compile(target=device.type, full=options["full"], mode=options["mode"],
                                                                        deadline_ms=options["deadline_ms"])
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        # What the program takes, in order: places of arguments, and constants.
        self.takes: list[int | torch.Tensor] = []
        for node in module.graph.nodes:
            if node.op == "get_attr":
                with unset_fake_temporarily():  # backends are called in a mode where tensors have no memory
                    self.takes.append(constant_of(node).detach().to(device).contiguous())
            elif node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
                self.takes.append(placeholders.index(node))
        self.inputs = [placeholders[x].meta["val"] if isinstance(x, int) else x for x in self.takes]
        self.scalars = [k for k, value in enumerate(self.inputs) if value.device != device]
        self.ints = self._free_sizes(placeholders, symbols)
        # seed and offset of random numbers
        self.randoms = len(self.compiled.inputs) - len(self.takes)
        output = next(node for node in module.graph.nodes if node.op == "output")
        computed = computed_outputs(output)
        self.outputs = [node.meta["val"] for node in computed]
        self.gives = [self._source_of(result, placeholders, computed) for result in output_nodes(output)]
        # What PyTorch says that they are; statistics of norms have other types there than in a graph.
        self.types = [_BY_NAME[text.partition("[")[0]] for text in self.compiled.outputs.values()]
        self.orders = [_physical_order(value) for value in self.outputs]
        self.ranks = [value.dim() for value in self.outputs]
        self.known_shapes = None
        if all(isinstance(extent, int) for value in self.outputs for extent in value.shape):
            self.known_shapes = [tuple(value.shape) for value in self.outputs]
        self.local = threading.local()
        self.streams: dict[int, kiln.Stream] = {}

    def _source_of(self, result: Any, placeholders: list[Node], computed: list[Node]) -> tuple[str, Any]:
        """Where what the module gives comes from: a result of the program, an argument by its place, or a value that never changes."""
        if not isinstance(result, Node):
            return ("value", result)
        if result.op == "placeholder":
            return ("argument", placeholders.index(result))
        if result.op == "get_attr":
            with unset_fake_temporarily():
                return ("value", constant_of(result))
        return ("result", computed.index(result))

    def _free_sizes(self, placeholders: list[Node], symbols: set[str]) -> list[tuple[int, bytes]]:
        """Ints among the arguments whose symbols the program mentions, and no tensor's shape has."""
        said = {str(extent.node.expr) for value in self.inputs for extent in value.shape if isinstance(extent, torch.SymInt)}
        out = {}
        for i, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and str(value.node.expr) in symbols - said:
                out.setdefault(str(value.node.expr).encode(), i)
        return [(i, name) for name, i in out.items()]

    def _slots(self) -> tuple[_Slots, _Slots]:
        """Of this thread: calls on others do not write to them."""
        slots = getattr(self.local, "slots", None)
        if slots is None:
            randoms = [torch.empty((), dtype=torch.uint64)] * self.randoms
            slots = self.local.slots = (_Slots(self.inputs + randoms, self.device, 0), _Slots(self.outputs, self.device, c.WRITABLE, self.types))
        return slots

    def _options(self, arguments: tuple[Any, ...]) -> Any:
        if self.device.type == "cpu" and not self.ints:
            return None
        options = c.RunOptions(ctypes.sizeof(c.RunOptions))
        if self.ints:
            options.size_count = len(self.ints)
            options.sizes = (c.NamedInt * len(self.ints))(*(c.NamedInt(name, int(arguments[i])) for i, name in self.ints))
        if self.device.type != "cpu":
            native = torch.cuda.current_stream(self.device).cuda_stream
            if native not in self.streams:
                self.streams[native] = kiln.Stream(f"cuda:{self.device.index or 0}", native)
            options.stream = self.streams[native]._as_parameter_
        return ctypes.byref(options)

    def _shapes(self, given: _Slots, options: Any) -> list[tuple[int, ...]]:
        if self.known_shapes is not None:
            return self.known_shapes
        extents = (ctypes.c_int64 * (sum(self.ranks) + 1))()
        c.check(c.library.kiln_graph_output_shapes(self.compiled, given.arrays, ctypes.c_size_t(len(self.takes) + self.randoms), extents,
                                                   ctypes.c_size_t(len(extents)), options))
        out, at = [], 0
        for rank in self.ranks:
            out.append(tuple(extents[at:at + rank]))
            at += rank
        return out

    def __call__(self, *arguments: Any) -> list[Any]:
        tensors = [arguments[x].contiguous() if isinstance(x, int) else x for x in self.takes]
        for k in self.scalars:
            tensors[k] = tensors[k].to(self.device)
        for _ in range(self.randoms):
            tensors.append(torch.randint(2**62, (), dtype=torch.int64).to(self.device))
        given, results = self._slots()
        given.fill(tensors)
        options = self._options(arguments)
        outputs = [torch.empty(shape, dtype=dtype, device=self.device) for shape, dtype in zip(self._shapes(given, options), self.types)]
        results.fill(outputs)
        c.check(c.library.kiln_graph_run(self.compiled, given.arrays, ctypes.c_size_t(len(tensors)), results.arrays,
                                         ctypes.c_size_t(len(outputs)), options))
        for k, order in enumerate(self.orders):
            if self.types[k] != self.outputs[k].dtype:
                outputs[k] = outputs[k].to(self.outputs[k].dtype)
            if order is not None:
                outputs[k] = torch.empty_permuted(outputs[k].shape, order, dtype=outputs[k].dtype, device=self.device).copy_(outputs[k])
        sources = {"result": outputs, "argument": arguments}
        return [value if kind == "value" else sources[kind][value] for kind, value in self.gives]
