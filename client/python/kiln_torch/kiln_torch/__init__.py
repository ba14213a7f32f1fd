"""torch.compile(model, backend="kiln"): PyTorch's programs compiled by Kiln.

    import torch, kiln_torch
    fast = torch.compile(model, backend="kiln")

What Kiln has no graph of stays with PyTorch inside the same function: it is named once in the log `kiln_torch`, and counted in
report(). options={"full": True} makes it an error. docs/use/python.md says more.
"""
from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Callable

import kiln
import torch
from kiln import _library as c
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from . import attention
from .function import Function
from .partition import Support, device_of, split
from .program import Unsupported

__all__ = ["backend", "report", "reset_report"]

_log = logging.getLogger("kiln_torch")
_DEFAULTS = {"full": False, "mode": "default", "deadline_ms": 0}
_MODES = {"default": "default", "reduce-overhead": "default", "max-autotune": "autotune", "max-autotune-no-cudagraphs": "autotune"}
_counts: Counter[str] = Counter()
_fallbacks: Counter[str] = Counter()


def report() -> dict[str, Any]:
    """What this process compiled so far: `parts` compiled functions, their `launches`, `eager_calls` that stayed with PyTorch, and
    `fallbacks`, those by name."""
    return {**{key: _counts[key] for key in ("parts", "launches", "eager_calls")}, "fallbacks": dict(_fallbacks)}


def reset_report() -> None:
    _counts.clear()
    _fallbacks.clear()


def knows(target: str) -> bool:
    return bool(c.library.kiln_graph_knows_aten(target.encode()))


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What Kiln has no graph of, in simpler calls where PyTorch knows such."""
    core = {overload: function for overload, function in core_aten_decompositions().items()
            if isinstance(overload, torch._ops.OpOverload) and not knows(str(overload))}
    return core | attention.decompositions()


def _fall_back(reason: str, count: int = 1) -> None:
    if reason not in _fallbacks:
        _log.warning("stays with PyTorch: %s", reason)
    kiln.fallback("torch.compile", f"stays with PyTorch: {reason}")
    _fallbacks[reason] += count
    _counts["eager_calls"] += count


class _Guarded:
    """A compiled part, and the module that does the same should a run of it fail: a daemon that is gone, too little memory."""

    def __init__(self, function: Function, full: bool) -> None:
        self.function, self.full = function, full

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.function(*arguments)
        except kiln.Error as failed:
            if self.full:
                raise
            _fall_back(f"a run that failed: {failed}")
            return self.function.module(*arguments)


def _compile_part(module: GraphModule, device: torch.device, options: dict[str, Any]) -> Callable[..., Any] | None:
    """None where it stays with PyTorch."""
    try:
        function = Function(module, device, options)
    except (kiln.Error, Unsupported) as failed:
        if options["full"]:
            raise RuntimeError(f"kiln: {failed}") from failed
        calls = sum(node.op == "call_function" for node in module.graph.nodes)
        _fall_back(str(failed), max(calls, 1))
        return None
    _counts["parts"] += 1
    _counts["launches"] += function.compiled.launches
    return _Guarded(function, options["full"])


class _Part(torch.nn.Module):
    """In the place of a submodule that was compiled."""

    def __init__(self, call: Callable[..., Any], single: bool) -> None:
        super().__init__()
        self.call, self.single = call, single

    def forward(self, *arguments: Any) -> Any:
        results = self.call(*arguments)
        return results[0] if self.single else results


def _compile(module: GraphModule, options: dict[str, Any]) -> Callable[..., Any]:
    """A function of the module's inputs: one part where Kiln has all of it, else its parts with PyTorch between them."""
    device = device_of(module)
    support = Support(knows, device)
    supported = [support.is_node_supported({}, node) for node in module.graph.nodes if node.op == "call_function"]
    refused = support.refused()
    if refused and options["full"]:
        raise RuntimeError(f"kiln: there is no graph of {', '.join(refused)}, and options={{'full': True}} asks for the whole program")
    for reason, count in refused.items():
        _fall_back(reason, count)
    if not any(supported):
        return module.forward
    if all(supported):
        whole = _compile_part(module, device, options)
        return whole if whole is not None else module.forward
    parted, names = split(module, support)
    for name in names:
        part = parted.get_submodule(name)
        compiled = _compile_part(part, device, options)
        if compiled is not None:
            single = not isinstance(next(n for n in part.graph.nodes if n.op == "output").args[0], (list, tuple))
            setattr(parted, name, _Part(compiled, single))
    return parted.forward


def _boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """As AOTAutograd calls it: with a list that the callee empties, so that what is not needed is freed."""

    def call(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        arguments.clear()
        return function(*given)

    call._boxed_call = True
    return call


def backend(module: GraphModule, example_inputs: list[Any], *, options: dict[str, Any] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """The backend "kiln". Options: full (what stays with PyTorch is an error), mode ("default", "autotune", "max"), deadline_ms."""
    chosen = {**_DEFAULTS, **(options or {})}
    unknown = sorted(set(chosen) - set(_DEFAULTS))
    if unknown:
        raise ValueError(f"kiln has no option {', '.join(unknown)}; there are {', '.join(_DEFAULTS)}")
    if mode is not None:
        if mode not in _MODES:
            raise ValueError(f"kiln has no mode {mode}; there are {', '.join(_MODES)}")
        chosen["mode"] = _MODES[mode]

    def compiler(graph: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return _boxed(_compile(graph, chosen))

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions(),
                        partition_fn=min_cut_rematerialization_partition)(module, example_inputs)
