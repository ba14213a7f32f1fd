"""Kernels and graphs that Kiln compiles, on arrays of NumPy, PyTorch and all that speak DLPack.

    import kiln, numpy as np
    fn = kiln.Graph("mlp.kg").compile(target="cpu")
    y = fn(x, w, b).numpy()

    kiln.load("vector_add.kiln").launch(x, y, out, len(x))

Arrays are used where they lie; nothing is copied. docs/use/python.md is the way in.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from ctypes import byref, c_char_p, c_int64, c_size_t, c_uint32, c_void_p, sizeof

from . import _library as _c
from ._arrays import NAMES, Tensor, from_dlpack, pack, view
from ._library import Error, Handle, check, library, take_text
from ._profile import Profile as profile
from ._profile import fallback, scope

__all__ = ["Client", "CompiledGraph", "Error", "Function", "Graph", "Kernel", "Model", "Safetensors", "Stream", "Tensor", "fallback", "from_dlpack",
           "library_kernel", "load", "load_graph", "profile", "scope", "version"]


def version() -> str:
    return library.kiln_version().decode()


class Client(Handle):
    """The way to the daemon, which it starts where none runs. Most programs need not make one."""

    _default: Client | None = None

    def __init__(self):
        options = _c.ClientOptions(size=sizeof(_c.ClientOptions), client_name=b"kiln-python")
        own = _c.PROGRAMS / "kilnd"
        if "KILN_KILND" not in os.environ and own.exists():  # a wheel's library and programs are of one build
            options.kilnd_path = os.fsencode(own)
        super().__init__(library.kiln_client_create, byref(options))

    @classmethod
    def default(cls) -> Client:
        if cls._default is None:
            cls._default = cls()
        return cls._default


class Stream(Handle):
    """A queue of work on "cpu", "cuda:0" or "amd:0": one of its own, or another library's by its native handle, which is
    `torch.cuda.current_stream().cuda_stream` for PyTorch."""

    def __init__(self, device: str = "cpu", native: int | None = None):
        kind, _, ordinal = device.partition(":")
        if kind not in _c.DEVICES or not (ordinal or "0").isdigit():
            raise Error(f"unknown device `{device}`; there are cpu, cuda and amd, with a number behind a colon")
        on = Handle(library.kiln_device_open, c_uint32(_c.DEVICES[kind]), _c.c_int32(int(ordinal or 0)))
        self.native = native
        if native is None:
            super().__init__(library.kiln_stream_create, on, None, c_size_t(0))
        else:
            super().__init__(library.kiln_stream_wrap, on, c_void_p(native))

    def synchronise(self) -> None:
        check(library.kiln_stream_synchronise(self))


def _read(kind: str, source) -> Handle:
    """A graph or kernel of a path, of text, or of bytes."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source and "{" not in source):
        return Handle(getattr(library, f"kiln_{kind}_read"), os.fsencode(source))
    data = source.encode() if isinstance(source, str) else bytes(source)
    return Handle(getattr(library, f"kiln_{kind}_parse"), data, c_size_t(len(data)), None)


class Graph:
    """A graph of a `.kg` file (a path), of its text, or of bytes of encode()."""

    def __init__(self, source: str | bytes | os.PathLike):
        self._handle = _read("graph", source)

    def text(self) -> str:
        return take_text(library.kiln_graph_text, self._handle)

    def encode(self) -> bytes:
        return _c.take_bytes(library.kiln_graph_encode, self._handle)

    def compile(self, target: str = "cpu", *, fuse: bool = True, full: bool = False, mode: str = "default",
                deadline_ms: int = 0, client: Client | None = None) -> CompiledGraph:
        options = _graph_options(target, fuse, full, mode, deadline_ms)
        return CompiledGraph(Handle(library.kiln_graph_compile, client or Client.default(), self._handle, byref(options)))


class Model:
    """What `torch.export.save` wrote, a `.pt2`: read without PyTorch."""

    def __init__(self, path: str | os.PathLike, name: str | None = None):
        self._handle = Handle(library.kiln_model_open, os.fsencode(path), name.encode() if name else None)
        names = [library.kiln_model_state(self._handle, c_size_t(i)) for i in range(library.kiln_model_state_count(self._handle))]
        self.states = {each.decode(): Tensor(library.kiln_model_value, self._handle, each) for each in names}

    def compile(self, target: str = "cpu", *, fuse: bool = True, full: bool = False, mode: str = "default",
                deadline_ms: int = 0, client: Client | None = None) -> CompiledGraph:
        """With its weights bound: a function of the states, then of forward()'s arguments."""
        options = _graph_options(target, fuse, full, mode, deadline_ms)
        return CompiledGraph(Handle(library.kiln_model_compile, client or Client.default(), self._handle, byref(options)))


class CompiledGraph:
    """A graph that is ready to run: a function of arrays. Any number of threads may call it."""

    def __init__(self, handle: Handle, kept: object = None):
        self._as_parameter_ = handle._as_parameter_
        self._kept = (handle, kept)
        self.inputs = self._tensors("input")
        self.outputs = self._tensors("output")

    def _tensors(self, kind: str) -> dict[str, str]:
        """Types by name, "f32[n, 784]"."""
        info, out = _c.TensorInfo(), {}
        for index in range(getattr(library, f"kiln_graph_{kind}_count")(self)):
            check(getattr(library, f"kiln_graph_{kind}")(self, c_size_t(index), byref(info)))
            out[info.name.decode()] = info.text.decode()
        return out

    @property
    def launches(self) -> int:
        return library.kiln_graph_launch_count(self)

    @property
    def target(self) -> str:
        return library.kiln_graph_target(self).decode()

    def __call__(self, *inputs, out=None, stream: Stream | None = None, sizes: Mapping[str, int] | None = None,
                 threads: int = 0):
        """Results are a Tensor, or a tuple of as many as the graph has outputs; with `out`, an array or a sequence of
        them, they are written there. With a stream the run is queued, and its arrays must stay until it is done."""
        if out is not None:
            self.ready(*inputs, out=out, stream=stream, sizes=sizes, threads=threads)()
            return out
        arrays, kept = _views(inputs, stream)
        handles = (c_void_p * len(self.outputs))()
        check(library.kiln_graph_results(self, arrays, c_size_t(len(inputs)), handles, c_size_t(len(handles)),
                                         _run_options(stream, sizes, threads)))
        results = tuple(Tensor.owning(handle) for handle in handles)
        return results[0] if len(results) == 1 else results

    def ready(self, *inputs, out, stream: Stream | None = None, sizes: Mapping[str, int] | None = None, threads: int = 0):
        """A function without arguments that runs with these arrays: what a loop calls."""
        outputs = out if isinstance(out, (tuple, list)) else (out,)
        given, kept = _views(inputs, stream)
        results, kept_too = _views(outputs, stream)
        options = _run_options(stream, sizes, threads)
        run, handle, n, m = library.kiln_graph_run, self._as_parameter_, c_size_t(len(inputs)), c_size_t(len(outputs))

        def call(kept=(self, kept, kept_too, stream)):
            status = run(handle, given, n, results, m, options)
            if status:
                check(status)

        return call

    def bind(self, **weights) -> CompiledGraph:
        """A function of the other inputs, in their order; these stay as they are, and must not be changed."""
        arrays, kept = _views(weights.values())
        names = (c_char_p * len(weights))(*(name.encode() for name in weights))
        handle = Handle(library.kiln_graph_bind, self, names, arrays, None, c_size_t(len(weights)), None)
        return CompiledGraph(handle, (self, kept))

    def prepare(self, *inputs) -> None:
        """Compiles the best code for such inputs; nothing runs."""
        arrays, kept = _views(inputs)
        check(library.kiln_graph_prepare(self, arrays, c_size_t(len(inputs)), None))

    def output_shapes(self, *inputs) -> dict[str, tuple[int, ...]]:
        arrays, kept = _views(inputs)
        extents = (c_int64 * (16 * len(self.outputs)))()
        check(library.kiln_graph_output_shapes(self, arrays, c_size_t(len(inputs)), extents, c_size_t(len(extents)), None))
        out, at, info = {}, 0, _c.TensorInfo()
        for index, name in enumerate(self.outputs):
            check(library.kiln_graph_output(self, c_size_t(index), byref(info)))
            out[name] = tuple(extents[at : at + info.rank])
            at += info.rank
        return out

    def memory(self, *inputs) -> dict[str, int]:
        """Bytes of the arena, of results, and of what is kept of bound inputs."""
        arrays, kept = _views(inputs)
        need = _c.MemoryNeed()
        check(library.kiln_graph_memory(self, arrays, c_size_t(len(inputs)), None, byref(need)))
        return {"arena": need.arena, "results": need.results, "bound": need.bound}

    def export(self, client: Client | None = None) -> bytes:
        """Plan and code, for load_graph() where no daemon is."""
        return _c.take_bytes(library.kiln_graph_export, client or Client.default(), self)

    def explain(self, **sizes: int) -> str:
        return take_text(library.kiln_graph_explain, self, _c.named_ints(sizes), c_size_t(len(sizes)))


def _graph_options(target: str, fuse: bool, full: bool, mode: str, deadline_ms: int):
    return _c.GraphOptions(size=sizeof(_c.GraphOptions), target=target.encode(), no_fuse=not fuse, full=full, mode=_c.mode_number(mode),
                           deadline_ms=deadline_ms)


def _views(values, stream: Stream | None = None):
    """Arrays as kiln.h has them, and what must live."""
    native = stream.native if stream else None
    return pack([view(value, native) for value in values])


def _run_options(stream, sizes, threads):
    if stream is None and not sizes and not threads:
        return None
    options = _c.RunOptions(sizeof(_c.RunOptions), threads)
    if stream is not None:
        options.stream = stream._as_parameter_
    if sizes:
        options.size_count, options.sizes = len(sizes), _c.named_ints(sizes)
    return byref(options)


class Kernel:
    """A tile kernel of a `.kiln` file (a path), of its text, or of bytes of encode()."""

    def __init__(self, source: str | bytes | os.PathLike | Handle):
        self._handle = source if isinstance(source, Handle) else _read("kernel", source)
        self._functions: dict[str, Function] = {}
        self.name = library.kiln_kernel_name(self._handle).decode()
        self._params = [_c.ParamInfo() for _ in range(library.kiln_kernel_param_count(self._handle))]
        for index, param in enumerate(self._params):
            check(library.kiln_kernel_param(self._handle, c_size_t(index), byref(param)))

    def text(self) -> str:
        return take_text(library.kiln_kernel_text, self._handle)

    def encode(self) -> bytes:
        return _c.take_bytes(library.kiln_kernel_encode, self._handle)

    def compile(self, target: str = "cpu", *, config: Mapping[str, int] | None = None, mode: str = "default",
                deadline_ms: int = 0, client: Client | None = None) -> Function:
        named = _c.named_ints(config or {})
        options = _c.KernelOptions(size=sizeof(_c.KernelOptions), target=target.encode(), constexprs=named,
                                   constexpr_count=len(named), mode=_c.mode_number(mode), deadline_ms=deadline_ms)
        handle = Handle(library.kiln_kernel_compile, client or Client.default(), self._handle, byref(options))
        return Function(handle, self)

    def custom(self, code: str | bytes, form: str, target: str = "cpu", *, entry: str | None = None, file: str | None = None,
               threads: int = 1, shared_bytes: int = 0, deadline_ms: int = 0, client: Client | None = None) -> Function:
        """Code of one's own for a kernel without ops, which declares it: docs/use/custom-kernels.md. `form`: "llvm", "ptx" or
        "amd"; `threads` of a block, on GPUs."""
        if form not in _c.CODE_FORMS:
            raise Error(f"unknown form `{form}`; there are {', '.join(_c.CODE_FORMS)}")
        text = code.encode() if isinstance(code, str) else bytes(code)
        options = _c.CustomCode(size=sizeof(_c.CustomCode), text=text, text_size=len(text), entry=entry and entry.encode(),
                                file=file and os.fsencode(file), target=target.encode(), form=_c.CODE_FORMS[form], threads=threads,
                                shared_bytes=shared_bytes, deadline_ms=deadline_ms)
        handle = Handle(library.kiln_kernel_compile_custom, client or Client.default(), self._handle, byref(options))
        return Function(handle, self)

    def of_object(self, path: str | os.PathLike, symbol: str) -> Function:
        """A function of a shared object, for a kernel without ops, which declares it. Its code is run."""
        return Function(Handle(library.kiln_function_of_object, self._handle, os.fsencode(path), symbol.encode()), self)

    def launch(self, *arguments, stream: Stream | None = None) -> None:
        """Compiles it for where its first array lies, once, and launches it there."""
        array = next((view(value) for value, param in zip(arguments, self._params) if param.is_pointer), None)
        target = next(name for name, number in _c.DEVICES.items() if number == (array.device if array else 0))
        if target not in self._functions:
            self._functions[target] = self.compile(target)
        self._functions[target].launch(*arguments, stream=stream)


class Function:
    """A kernel that is ready to launch. Any number of threads may do so."""

    def __init__(self, handle: Handle, kernel: Kernel):
        self._handle = handle
        self.kernel = kernel
        self._params = kernel._params

    def launch(self, *arguments, grid: Sequence[int] | None = None, threads: int = 0, stream: Stream | None = None) -> None:
        """Arrays and numbers in the order of the kernel's parameters. With a stream, and on a GPU, it is queued, and the
        arrays must stay until it is done."""
        given, kept = self._arguments(arguments, stream)
        extents = [*grid, 1, 1][:3] if grid is not None else [0, 0, 0]
        options = _c.LaunchOptions(size=sizeof(_c.LaunchOptions), threads=threads, grid_is_set=grid is not None,
                                   grid=(c_uint32 * 3)(*extents), stream=stream._as_parameter_ if stream else None)
        check(library.kiln_function_launch(self._handle, given, c_size_t(len(given)), byref(options)))

    def prepare(self, *arguments) -> None:
        """Compiles the best code for such arguments; nothing runs."""
        given, kept = self._arguments(arguments, None)
        check(library.kiln_function_prepare(self._handle, given, c_size_t(len(given))))

    def config(self, *arguments) -> dict[str, int]:
        """What a launch takes now: constexprs and schedule options."""
        given, kept = self._arguments(arguments, None) if arguments else (None, None)
        lines = take_text(library.kiln_function_config, self._handle, given, c_size_t(len(arguments))).splitlines()
        return {name: int(value) for name, _, value in (line.partition("=") for line in lines)}

    def _arguments(self, values, stream):
        if len(values) != len(self._params):
            raise Error(f"kernel `{self.kernel.name}` takes {len(self._params)} arguments, not {len(values)}")
        given = (_c.Argument * len(values))()
        kept = [self._set(given[i], values[i], param, stream) for i, param in enumerate(self._params)]
        return given, kept

    def _set(self, argument, value, param, stream):
        if not param.is_pointer:
            if NAMES[param.type].startswith(("f", "bf")):
                argument.kind, argument.value.f = _c.ARG_FLOAT, float(value)
            elif value < 0:
                argument.kind, argument.value.i = _c.ARG_INT, self._fit(param, value)
            else:
                argument.kind, argument.value.u = _c.ARG_UINT, self._fit(param, value)
            return None
        array = view(value, stream.native if stream else None)
        where = f"kernel `{self.kernel.name}`: `{param.name.decode()}`"
        if not array.is_row_major:
            raise Error(f"{where} is an array that is not row-major")
        if not param.read_only and not array.flags & _c.WRITABLE:
            raise Error(f"{where} is written to, and the array is read only")
        argument.kind, argument.type, argument.value.pointer = _c.ARG_POINTER, array.type, array.data
        argument.extent, argument.device, argument.ordinal = math.prod(array.shape), array.device, array.ordinal
        return array

    def _fit(self, param, value) -> int:
        if int(value) != value or not -(2**63) <= value < 2**64:
            raise Error(f"kernel `{self.kernel.name}`: `{param.name.decode()}` is no int of 64 bits")
        return int(value)


def load(source: str | bytes | os.PathLike) -> Kernel:
    """The kernel of a `.kiln` file, or of its text."""
    return Kernel(source)


def load_graph(package: bytes) -> CompiledGraph:
    """What export() gave. Its code is run: take it only from whom you trust."""
    return CompiledGraph(Handle(library.kiln_graph_import, package, c_size_t(len(package))))


def library_kernel(name: str) -> Kernel:
    """A kernel of the library, by its name in docs/use/kernels.md."""
    return Kernel(Handle(library.kiln_kernel_library, name.encode()))


class Safetensors(Mapping):
    """The tensors of a `.safetensors` file by name, which are read when they are used."""

    def __init__(self, path: str | os.PathLike):
        self._handle = Handle(library.kiln_safetensors_open, os.fsencode(path))
        count = library.kiln_safetensors_count(self._handle)
        self._names = [library.kiln_safetensors_name(self._handle, c_size_t(i)).decode() for i in range(count)]

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return Tensor(library.kiln_safetensors_get, self._handle, name.encode())

    def __iter__(self):
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
