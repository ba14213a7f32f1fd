#!/usr/bin/env python3
"""ops.py [--rounds N] [--seed N] PROGRAM [OP…]: ops of graphs and their gradients on random cases, by graph_reference and by PyTorch.

Each case is a graph of one node. Its results are compared; and where it has a gradient, the products of random vectors with its
Jacobian, by reverse mode, by reverse mode of its decomposition, and by forward mode. Prints a line for each op: cases, and the
greatest difference in units of what is allowed. Exits with 77 where there is no PyTorch. A long suite: KILN_PYTORCH names a
Python that has it (tests/README.md).
"""
import argparse
import math
import sys

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from kiln import Failure, Reference, difference
from op_cases import CASES, Random


def is_float(x):
    return x.dtype.is_floating_point


NO_GRADIENT = {"quantise", "dequantise"}  # compared by result alone


def gradients(case, inputs, r):
    """(what, passes, more inputs, expected by name) for each way to the gradients of a case."""
    wanted = [name for name, x in inputs.items() if is_float(x) and x.requires_grad]
    results = [(i, y) for i, y in enumerate(case.results) if is_float(y) and y.requires_grad]
    floats = [i for i, y in enumerate(case.results) if is_float(y)]
    if case.op in NO_GRADIENT or not wanted or not results:
        return
    weights = {i: torch.randn(y.shape, generator=r.generator, dtype=torch.float64).to(y.dtype).requires_grad_()
               for i, y in enumerate(case.results) if i in floats}
    for i in set(weights) - {i for i, _ in results}:
        weights[i] = torch.zeros_like(weights[i])
    points = [inputs[name] for name in wanted]
    found = torch.autograd.grad([y for _, y in results], points, [weights[i] for i, _ in results], create_graph=True,
                                allow_unused=True, materialize_grads=True)
    expected = {"d_" + name: g for name, g in zip(wanted, found)}
    more = {f"g_y{i}": w for i, w in weights.items()}
    names = " ".join(wanted)
    yield "vjp", [f"vjp {names}"], more, expected
    yield "vjp of primitives", ["decompose", f"vjp {names}"], more, expected
    if case.small:  # where PyTorch's second derivatives round at each step
        return
    moves = {f"t_{name}": torch.randn(x.shape, generator=r.generator, dtype=torch.float64).to(x.dtype) for name, x in zip(wanted, points)}
    linear = [(g, moves["t_" + name]) for name, g in zip(wanted, found) if g.requires_grad]
    if not linear:
        return
    try:  # forward mode is the transpose of reverse mode
        moved = torch.autograd.grad([g for g, _ in linear], [weights[i] for i, _ in results], [t for _, t in linear],
                                    allow_unused=True, materialize_grads=True)
    except RuntimeError:
        return  # an op whose gradient PyTorch does not differentiate
    yield "jvp", [f"jvp {names}"], moves, {f"t_y{i}": t for (i, _), t in zip(results, moved)}


def compare(reference, case, r):
    """The greatest difference of results and of gradients, how many gradients, and what differs."""
    inputs = {f"x{i}": x for i, x in enumerate(x for x in case.operands if x is not None)}
    worst, counted = 0.0, 0
    outputs, _ = reference.evaluate(case.text(), inputs)
    for i, y in enumerate(case.results):
        worst = max(worst, difference(outputs[f"y{i}"], y, case.exact))
    if worst > 1:
        return worst, 0.0, 0, f"results\n  Kiln    {outputs}\n  PyTorch {case.results}"
    slopes = 0.0
    for what, passes, more, expected in gradients(case, inputs, r):
        outputs, _ = reference.evaluate(case.text(), {**inputs, **more}, passes)
        for name, y in expected.items():
            apart = difference(outputs[name], y, times=case.slack)
            slopes, counted = max(slopes, apart), counted + 1
            if apart > 1:
                return worst, slopes, counted, f"{what}: {name}, of {more}\n  Kiln    {outputs[name]}\n  PyTorch {y}"
    return worst, slopes, counted, ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reference = Reference(arguments.kiln)
    total = slopes = failed = 0
    worst_of_all = 0.0
    for name in arguments.ops or CASES:
        worst = worst_slope = 0.0
        counted = 0
        for round_number in range(arguments.rounds):
            seed = arguments.seed * 1000003 + round_number
            r = Random(seed)
            case = CASES[name](r)
            try:
                apart, slope, count, what = compare(reference, case, r)
            except Failure as failure:
                apart, slope, count, what = math.inf, 0.0, 0, str(failure)
            worst, worst_slope, counted, total = max(worst, apart), max(worst_slope, slope), counted + count, total + 1
            if what:
                failed += 1
                print(f"{name}, seed {seed}: {what}\n{case.text()}  inputs {[x for x in case.operands if x is not None]}")
                break
        slopes, worst_of_all = slopes + counted, max(worst_of_all, worst, worst_slope)
        print(f"{name}: {round_number + 1} cases, worst {worst:.3f} of what is allowed; {counted} gradients, worst {worst_slope:.3f}",
              flush=True)
    print(f"{total} cases of {len(arguments.ops or CASES)} ops and {slopes} gradients beside PyTorch {torch.__version__}: "
          f"{failed} ops differ, worst {worst_of_all:.3f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
