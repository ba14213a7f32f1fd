"""libkiln.so as ctypes sees it: its structs, its functions, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

SONAME = "libkiln.so.0"
PROGRAMS = pathlib.Path(__file__).with_name("bin")  # of a wheel
WRITABLE = 1
DEVICES = {"cpu": 0, "cuda": 1, "amd": 2}
MODES = {"default": 0, "autotune": 1, "max": 2, "fixed": 3}
CODE_FORMS = {"llvm": 0, "ptx": 1, "amd": 2}
ARG_POINTER, ARG_INT, ARG_UINT, ARG_FLOAT = 1, 2, 3, 4


class Error(RuntimeError):
    """What a call of libkiln's gave: `code` is "INVALID_ARGUMENT" and so on, as in kiln.h without KILN_."""

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT"):
        super().__init__(message)
        self.code = code


class ClientOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), *((name, c_char_p) for name in ("runtime_dir", "kilnd_path", "worker_path", "programs_dir", "client_name")),
                *((name, c_int32) for name in ("no_autostart", "any_build", "no_pipe", "no_background")),
                ("start_timeout_ms", c_uint32), ("daemon_arg_count", c_uint32), ("daemon_args", POINTER(c_char_p))]


class Array(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("bytes", c_uint64),
                ("rank", c_int32), ("type", c_uint32), ("device", c_uint32), ("ordinal", c_int32), ("flags", c_uint32),
                ("ignored", c_uint32)]


class NamedInt(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("shape", POINTER(c_int64)), ("rank", c_int32), ("type", c_uint32)]


class ParamInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_uint32), ("is_pointer", c_int32), ("read_only", c_int32)]


class MemoryNeed(ctypes.Structure):
    _fields_ = [("arena", c_uint64), ("results", c_uint64), ("bound", c_uint64)]


class GraphOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("target", c_char_p), ("no_fuse", c_int32), ("full", c_int32), ("deadline_ms", c_uint32),
                ("mode", c_int32), ("tune_budget_ms", c_uint32), ("tune_wait_ms", c_uint32), ("cancel", c_void_p)]


class RunOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("size_count", c_uint32), ("sizes", POINTER(NamedInt)),
                ("memory_limit", c_uint64), ("cancel", c_void_p), ("stream", c_void_p), ("print", c_void_p),
                ("print_data", c_void_p), ("launch_ms", POINTER(c_double))]


class KernelOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("target", c_char_p), ("constexprs", POINTER(NamedInt)), ("constexpr_count", c_uint32),
                ("deadline_ms", c_uint32), ("mode", c_int32), ("tune_budget_ms", c_uint32), ("tune_wait_ms", c_uint32),
                ("quick_start", c_int32)]


class LaunchOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("grid_is_set", c_int32), ("grid", c_uint32 * 3),
                ("ignored", c_uint32), ("stream", c_void_p), ("print", c_void_p), ("print_data", c_void_p)]


class CustomCode(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("text", c_char_p), ("text_size", c_size_t), ("entry", c_char_p), ("file", c_char_p),
                ("target", c_char_p), ("form", c_int32), ("threads", c_uint32), ("shared_bytes", c_uint64), ("deadline_ms", c_uint32),
                ("ignored", c_uint32)]


class Value(ctypes.Union):
    _fields_ = [("pointer", c_void_p), ("i", c_int64), ("u", c_uint64), ("f", c_double)]


class Argument(ctypes.Structure):
    _fields_ = [("kind", c_uint32), ("type", c_uint32), ("value", Value), ("extent", c_int64), ("device", c_uint32),
                ("ordinal", c_int32)]


def _load() -> ctypes.CDLL:
    """KILN_LIBRARY, else beside this package, else by name."""
    named = os.environ.get("KILN_LIBRARY")
    beside = pathlib.Path(__file__).with_name(SONAME)
    path = named or (str(beside) if beside.exists() else SONAME)
    try:
        return ctypes.CDLL(path)
    except OSError as failure:
        raise ImportError(f"{path} cannot be loaded ({failure}); KILN_LIBRARY says where libkiln.so is") from failure


library = _load()
for _name, _type in {"kiln_version": c_char_p, "kiln_error_message": c_char_p, "kiln_status_name": c_char_p,
                     "kiln_bytes_data": c_void_p, "kiln_bytes_size": c_size_t, "kiln_type_name": c_char_p,
                     "kiln_type_size": c_size_t, "kiln_graph_input_count": c_size_t, "kiln_graph_output_count": c_size_t,
                     "kiln_graph_launch_count": c_size_t, "kiln_graph_target": c_char_p, "kiln_kernel_name": c_char_p,
                     "kiln_kernel_param_count": c_size_t, "kiln_safetensors_count": c_size_t,
                     "kiln_safetensors_name": c_char_p, "kiln_model_state_count": c_size_t, "kiln_model_state": c_char_p}.items():
    getattr(library, _name).restype = _type


def check(status: int) -> None:
    if status != 0:
        message = library.kiln_error_message().decode(errors="replace")
        raise Error(message, library.kiln_status_name(status).decode())


class Handle:
    """Owns a handle: what makes it is a function of kiln.h that takes the place of a handle last."""

    def __init__(self, make, *arguments):
        self._as_parameter_ = c_void_p()
        check(make(*arguments, ctypes.byref(self._as_parameter_)))

    def __del__(self, free=library.kiln_free):
        handle = getattr(self, "_as_parameter_", None)
        if handle:
            free(handle)


def bytes_of(held: Handle) -> bytes:
    return ctypes.string_at(library.kiln_bytes_data(held), library.kiln_bytes_size(held))


def take_bytes(make, *arguments) -> bytes:
    return bytes_of(Handle(make, *arguments))


def take_text(make, *arguments) -> str:
    return take_bytes(make, *arguments).decode(errors="replace")


def named_ints(values: dict[str, int]):
    return (NamedInt * len(values))(*(NamedInt(name.encode(), int(value)) for name, value in values.items()))


def mode_number(mode: str) -> int:
    if mode not in MODES:
        raise Error(f"unknown mode `{mode}`; there are {', '.join(MODES)}")
    return MODES[mode]
