"""Where a program's time goes: docs/use/profiling.md."""

from __future__ import annotations

from contextlib import contextmanager

from . import _library as _c
from ._library import check, library


class Profile:
    """What launches, copies, waits, compiles and runs of graphs take inside of the `with`; then `summary` is a table, and
    `trace` JSON for ui.perfetto.dev. `device`: also when GPUs run launches."""

    def __init__(self, device: bool = False):
        self._device = device
        self.summary = self.trace = ""

    def __enter__(self) -> Profile:
        check(library.kiln_profile_start(_c.c_int32(self._device)))
        return self

    def __exit__(self, *_) -> None:
        held = []
        self.summary = _c.take_text(lambda summary: held.append(_c.Handle(library.kiln_profile_stop, summary)) or 0)
        self.trace = _c.bytes_of(held[0]).decode()


def fallback(name: str, why: str, nbytes: int = 0) -> None:
    """Notes in a profile that something is done in another way than it was asked to, and why; `nbytes` went there and back."""
    check(library.kiln_profile_fallback(name.encode(), why.encode(), _c.c_uint64(nbytes)))


@contextmanager
def scope(name: str):
    """A part of the program by name, in profiles."""
    check(library.kiln_profile_begin(name.encode()))
    try:
        yield
    finally:
        check(library.kiln_profile_end())
