"""Arrays of others as kiln_array, without a copy: __array_interface__, DLPack, __cuda_array_interface__; and tensors."""

from __future__ import annotations

import array
import ctypes
import struct
from ctypes import c_char_p, c_int32, c_void_p, py_object
from typing import NamedTuple

from ._library import DEVICES, WRITABLE, Array, Error, Handle, check, library

TYPES = {library.kiln_type_name(number).decode(): number for number in range(1, 16)}
NAMES = {number: name for name, number in TYPES.items()}
_SIZES = {number: library.kiln_type_size(number) for number in NAMES}
# NumPy's letters; it has no bf16 and no f8.
_LETTERS = {"b1": "i1", **{f"{kind}{size}": f"{kind}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)},
            "f2": "f16", "f4": "f32", "f8": "f64"}
_INTERFACE_TYPES = {letters: TYPES[name] for letters, name in _LETTERS.items()}
_DLPACK_DEVICES = {"cpu": 1, "cuda": 2, "amd": 10}
_DEVICE_NAMES = {number: name for name, number in DEVICES.items()}

_python = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _python))
_is_capsule = ctypes.PYFUNCTYPE(c_int32, c_void_p, c_char_p)(("PyCapsule_IsValid", _python))
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _python))
_set_capsule_name = ctypes.PYFUNCTYPE(c_int32, py_object, c_char_p)(("PyCapsule_SetName", _python))
_CAPSULES = {b"dltensor_versioned": 1, b"dltensor": 0}
_USED = {b"dltensor_versioned": b"used_dltensor_versioned", b"dltensor": b"used_dltensor"}  # the names must stay


@ctypes.CFUNCTYPE(None, c_void_p)
def _drop_capsule(capsule):
    """Nobody took what a capsule of ours has: taking it and freeing it calls its deleter."""
    for name, versioned in _CAPSULES.items():
        if _is_capsule(capsule, name):
            Handle(library.kiln_tensor_from_dlpack, c_void_p(_capsule_pointer(capsule, name)), c_int32(versioned))


class View(NamedTuple):
    """A kiln_array, and what must live as long as it is used. Strides count elements; None: row-major."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    type: int
    device: int
    ordinal: int
    flags: int
    owner: object

    @property
    def is_row_major(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides or ())):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True


class Tensor(Handle):
    """An array that keeps its memory. NumPy, PyTorch and others take it as it is, by __array_interface__ or DLPack."""

    def __init__(self, make, *arguments):
        super().__init__(make, *arguments)
        self._show()

    @classmethod
    def owning(cls, handle: int) -> Tensor:
        tensor = cls.__new__(cls)
        tensor._as_parameter_ = c_void_p(handle)
        tensor._show()
        return tensor

    def _show(self) -> None:
        shown = Array()
        check(library.kiln_tensor_array(self, ctypes.byref(shown)))
        strides = tuple(shown.strides[: shown.rank]) if shown.strides else None
        self._view = View(shown.data or 0, tuple(shown.shape[: shown.rank]), strides, shown.type, shown.device, shown.ordinal,
                          shown.flags, None)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._view.shape

    @property
    def dtype(self) -> str:
        return NAMES[self._view.type]

    @property
    def device(self) -> str:
        name = _DEVICE_NAMES[self._view.device]
        return name if name == "cpu" else f"{name}:{self._view.ordinal}"

    @property
    def __array_interface__(self) -> dict:
        letters = next((key for key, name in _LETTERS.items() if name == self.dtype), None)
        if letters is None or self.device != "cpu":
            raise AttributeError(f"NumPy has no array of {self.dtype} on {self.device}")
        size = _SIZES[self._view.type]
        strides = tuple(stride * size for stride in self._view.strides) if self._view.strides else None
        return {"version": 3, "shape": self.shape, "strides": strides, "data": (self._view.data, not self._view.flags & WRITABLE),
                "typestr": ("|" if letters[1:] == "1" else "<") + letters}

    def numpy(self):
        """A NumPy array of the same memory."""
        import numpy

        return numpy.asarray(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_DEVICES[_DEVICE_NAMES[self._view.device]], self._view.ordinal

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a Tensor is handed on as it is, where it is")
        versioned = 1 if max_version is not None and max_version[0] >= 1 else 0
        managed = c_void_p()
        check(library.kiln_tensor_to_dlpack(self, c_int32(versioned), ctypes.byref(managed)))
        name = next(name for name, number in _CAPSULES.items() if number == versioned)
        return _new_capsule(managed, name, ctypes.cast(_drop_capsule, c_void_p))

    def __repr__(self) -> str:
        return f"kiln.Tensor({self.dtype}{list(self.shape)}, {self.device})"


def from_dlpack(value, stream: int | None = None) -> Tensor:
    """A tensor of the memory of an object with __dlpack__, or of a DLPack capsule, which it uses up."""
    capsule = _ask_for_capsule(value, stream) if hasattr(value, "__dlpack__") else value
    for name, versioned in _CAPSULES.items():
        if _is_capsule(c_void_p(id(capsule)), name):
            pointer = c_void_p(_capsule_pointer(c_void_p(id(capsule)), name))
            tensor = Tensor(library.kiln_tensor_from_dlpack, pointer, c_int32(versioned))
            _set_capsule_name(capsule, _USED[name])
            return tensor
    if any(_is_capsule(c_void_p(id(capsule)), name) for name in _USED.values()):
        raise Error("this DLPack capsule was used before")
    raise Error(f"{type(value).__name__} is no array: it has neither __dlpack__ nor an array interface")


def _ask_for_capsule(value, stream):
    options = {}
    device = value.__dlpack_device__()[0]
    if device != _DLPACK_DEVICES["cpu"]:
        # The driver's default stream, by the number that the protocol gives it.
        options["stream"] = stream if stream is not None else {_DLPACK_DEVICES["cuda"]: 1}.get(device, 0)
    try:
        return value.__dlpack__(max_version=(1, 1), **options)
    except TypeError:  # from before version 1
        return value.__dlpack__(**options)


def _of_interface(interface: dict, device: str, owner: object) -> View:
    letters = interface["typestr"]
    type_number = _INTERFACE_TYPES.get(letters[1:])
    if letters[0] == ">" or type_number is None:
        raise Error(f"Kiln has no elements like '{letters}'")
    strides = interface.get("strides")
    if strides is not None:
        size = _SIZES[type_number]
        if any(stride % size for stride in strides):
            raise Error("strides that are no multiple of an element's size are not supported")
        strides = tuple(stride // size for stride in strides)
    data, read_only = interface["data"]
    return View(data, interface["shape"], strides, type_number, DEVICES[device], 0, 0 if read_only else WRITABLE, owner)


def view(value, stream: int | None = None) -> View:
    if isinstance(value, Tensor):
        return value._view._replace(owner=value)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        return _of_interface(interface, "cpu", value)
    if not hasattr(value, "__dlpack__") and hasattr(value, "__cuda_array_interface__"):
        return _of_interface(value.__cuda_array_interface__, "cuda", value)
    tensor = from_dlpack(value, stream)
    return tensor._view._replace(owner=tensor)


_pack = struct.Struct("PPPQiIIiII").pack


def pack(views: list[View]) -> tuple[bytes, object]:
    """The kiln_arrays, one behind the other, and what must live: shapes, strides and owners."""
    packed, numbers = [], []
    for one in views:
        # Shape, then strides; a number more, so that there is an address where there are none.
        extents = array.array("q", (*one.shape, *(one.strides or ()), 0))
        shape = extents.buffer_info()[0]
        strides = shape + 8 * len(one.shape) if one.strides is not None else 0
        numbers.append(extents)
        packed.append(_pack(one.data, shape, strides, 0, len(one.shape), one.type, one.device, one.ordinal, one.flags, 0))
    return b"".join(packed), (views, numbers)
