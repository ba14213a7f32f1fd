#!/usr/bin/env python3
"""aten.py [--rounds N] [--seed N] PROGRAM [OVERLOAD…]: the graphs of ATen operators beside the operators themselves.

Each case is a call with random arguments, of several element types: PyTorch's result, and that of the graph of the call. Prints
what differs, and how many overloads and calls were compared.
"""
import argparse
import sys

import torch

from aten_cases import CASES, Generator, properties
from kiln import Failure, Reference, difference
from program import Program, arguments_of, overload_name

NOTHING, VALUE, NO = 3, 4, 5  # AtenKind


def overload(name):
    base, _, rest = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), rest or "default")


# Results that a graph has, where these are not all.
RESULTS = {"aten::_embedding_bag": 1, "aten::_embedding_bag_forward_only": 1, "aten::log_sigmoid_forward": 1, "aten::_scaled_dot_product_efficient_attention": 2,
           "aten::_scaled_dot_product_flash_attention_for_cpu": 2, "aten::_scaled_dot_product_flash_attention": 2}


def call(function, arguments):
    """PyTorch's results, and the tensors that were written to, by the names of their arguments."""
    positional, named, written = [], {}, {}
    for argument in function._schema.arguments:
        value = arguments.get(argument.name, argument.default_value)
        value = value.clone() if isinstance(value, torch.Tensor) else value
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.Tensor):
            written[argument.name] = value
    out = function(*positional, **named)
    return list(out) if isinstance(out, (tuple, list)) else [out], written


def program_of(function, arguments, results, written):
    """The program of one call, whose tensors are its inputs."""
    program = Program()

    def name_of(x):
        return program.given(f"x{len(program.inputs)}", x) if isinstance(x, torch.Tensor) else None
    given = arguments_of(function, (), arguments, name_of)
    names = [f"r{i}" for i in range(results)]
    program.call(overload_name(function), given, names)
    for i, result in enumerate(names):
        program.output(f"y{i}", result)
    for key in written:
        program.output(f"w_{key}", given[key]["tensor"])
    return program


def compared(reference, name, case, slack):
    """What is wrong, if anything; how far apart; the numbers, and the graph where they are wrong."""
    function = overload(name)
    expected, written = call(function, case)
    expected = expected[:RESULTS.get(name, len(expected))]
    program = program_of(function, case, len(expected), written)
    got, _ = reference.evaluate(program.json(), program.tensors)
    if name in properties:
        return properties[name](case, [got[f"y{i}"] for i in range(len(expected))], expected), 0.0, got
    wanted = {**{f"y{i}": y for i, y in enumerate(expected)}, **{f"w_{key}": y for key, y in written.items()}}
    apart = {key: difference(got[key], y, times=slack) for key, y in wanted.items() if isinstance(y, torch.Tensor)}
    worst = max(apart.values(), default=0.0)
    what = f"{worst} of what is allowed" if worst > 1 else ""
    return what, worst, f"Kiln {got}\n  PyTorch {wanted}\n{reference.passed(program.json())['text']}" if what else got


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("overloads", nargs="*")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reference = Reference(arguments.kiln)
    rows = {row["name"]: row for row in reference.ask({"aten": True})["rows"]}
    computed = [name for name, row in rows.items() if row["kind"] not in (VALUE, NO)]
    total, failed, worst = 0, 0, 0.0
    names = [n if n.startswith("aten::") else "aten::" + n for n in arguments.overloads] or [n for n in computed if n in CASES]
    for name in names:
        for number in range(arguments.rounds):
            seed = arguments.seed * 1000003 + number
            r = Generator(seed)
            case = CASES[name](r)
            slack = case.pop("slack", 1)
            got = ""
            try:
                what, apart, got = compared(reference, name, case, slack)
                total, worst = total + 1, max(worst, min(apart, 1e9))
            except Failure as failure:
                what = f"refused: {failure}"
            except RuntimeError as error:
                what = f"PyTorch refuses it: {error}"
            if what:
                failed += 1
                print(f"{name}, seed {seed}: {what}\n  arguments {case}\n  {got}", flush=True)
                break
    print(f"{total} calls of {len(names)} overloads beside PyTorch {torch.__version__}: {failed} overloads differ, worst {worst:.3f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
