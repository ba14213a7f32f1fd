#!/usr/bin/env python3
"""run_model.py NAME [--training] [--device D] [--dtype T] [--peer inductor] …: one model through torch.compile(backend="kiln").

Prints one JSON object: whether it ran whole, whether its numbers are right by PyTorch's own rule (torch._dynamo.utils.same beside
float64), what stayed with PyTorch and why, launches, seconds of the first call, milliseconds beside eager and Inductor, by turns.
"""
from __future__ import annotations

import argparse
import contextlib
import copy
import fcntl
import json
import statistics
import time
from typing import Any, Callable, Iterator

import torch
import torch.utils._pytree as pytree

import kiln_torch
from models import build, suite_of


def floats_to(tree: Any, dtype: torch.dtype, device: str) -> Any:
    def move(x: Any) -> Any:
        return x.to(device, dtype if x.is_floating_point() else x.dtype) if isinstance(x, torch.Tensor) else x
    return pytree.tree_map(move, tree)


def tensors_of(result: Any) -> list[torch.Tensor]:
    values = result.values() if isinstance(result, dict) else result
    return [x for x in pytree.tree_leaves(list(values) if not isinstance(values, torch.Tensor) else values) if isinstance(x, torch.Tensor)]


def loss_of(result: Any) -> torch.Tensor:
    return sum(x.float().pow(2).mean() for x in tensors_of(result) if x.is_floating_point())


def step(call: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any, training: bool) -> list[torch.Tensor]:
    """Outputs, and in training the gradients of parameters."""
    if not training:
        with torch.no_grad():
            return tensors_of(call(*args, **kwargs))
    module.zero_grad(set_to_none=True)
    result = call(*args, **kwargs)
    loss_of(result).backward()
    return [x.detach() for x in tensors_of(result)] + [p.grad for p in module.parameters() if p.grad is not None]


@contextlib.contextmanager
def alone(path: str) -> Iterator[None]:
    """Nobody else who names the file `path` is in here."""
    if not path:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def timed(functions: dict[str, Callable[[], Any]], seconds: float, device: str) -> dict[str, float]:
    """Median milliseconds of each, by turns."""
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(next(iter(times.values()))) < 3:
        for name, function in functions.items():
            wait()
            start = time.perf_counter()
            function()
            wait()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=0.0, help="to time for; 0: only whether it is right")
    parser.add_argument("--peer", default="", help="inductor: time it too")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--turns", default="", help="a file: of the processes that name it one times at once")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    row: dict[str, Any] = {"model": given.name, "suite": suite_of(given.name), "stage": "training" if given.training else "inference",
                           "device": given.device, "dtype": given.dtype, "torch": torch.__version__}
    module, args, kwargs = build(given.name, given.batch, given.length, given.training)
    dtype = getattr(torch, given.dtype)
    exact = copy.deepcopy(module).to(given.device, torch.float64)
    module = module.to(given.device, dtype)
    args64, kwargs64 = floats_to((args, kwargs), torch.float64, given.device)
    args, kwargs = floats_to((args, kwargs), dtype, given.device)
    state = copy.deepcopy(module.state_dict())
    try:
        reference = step(exact, exact, args64, kwargs64, given.training)
    except Exception as failed:  # ops without f64
        row["no_f64"], reference = str(failed)[:200], None
    del exact
    eager = step(module, module, args, kwargs, given.training)
    module.load_state_dict(state)

    compiled = torch.compile(module, backend="kiln")
    start = time.perf_counter()
    result = step(compiled, module, args, kwargs, given.training)
    row["cold_s"] = round(time.perf_counter() - start, 3)
    module.load_state_dict(state)
    report = kiln_torch.report()
    row |= {"parts": report["parts"], "launches": report["launches"], "eager_calls": report["eager_calls"], "fallbacks": report["fallbacks"]}
    row["whole"] = report["eager_calls"] == 0
    tolerance = 1e-3 if given.dtype == "float32" else 3e-2
    row["right"] = bool(torch._dynamo.utils.same(eager, result, reference, cos_similarity=False, tol=tolerance))
    row["error"] = max((float((a.double() - b.double()).abs().max()) for a, b in zip(eager, result) if a.is_floating_point() and a.numel()), default=0.0)
    if given.seconds > 0:
        functions = {"eager": lambda: step(module, module, args, kwargs, given.training),
                     "kiln": lambda: step(compiled, module, args, kwargs, given.training)}
        if given.peer == "inductor":
            torch._dynamo.reset()
            peer = torch.compile(module)
            start = time.perf_counter()
            step(peer, module, args, kwargs, given.training)
            row["inductor_cold_s"] = round(time.perf_counter() - start, 3)
            functions["inductor"] = lambda: step(peer, module, args, kwargs, given.training)
        with alone(given.turns):
            functions["kiln"]()
            row |= {f"{name}_ms": round(ms, 4) for name, ms in timed(functions, given.seconds, given.device).items()}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
