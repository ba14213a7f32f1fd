#!/usr/bin/env python3
"""aten.py [--rounds N] [--seed N] PROGRAM [OVERLOAD…]: the expressions of the table of ATen operators beside the operators themselves.

Each case is a call with random arguments, of several element types: PyTorch's result, and that of the graph that the expression
gives (importer.py). Prints what differs, and how many overloads and calls were compared.
"""
import argparse
import sys

import torch

from aten_cases import CASES, Generator, properties
from importer import Builder, convert
import handlers  # noqa: F401
import layer_handlers  # noqa: F401
from kiln import TYPES, Failure, Reference, difference

NOTHING, VALUE, NO = 3, 4, 5  # AtenKind


def overload(name):
    base, _, rest = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), rest or "default")


def call(name, arguments):
    """PyTorch's results, and the arguments that it wrote to."""
    function = overload(name)
    positional, named = [], {}
    for argument in function._schema.arguments:
        value = arguments.get(argument.name, argument.default_value)
        value = value.clone() if isinstance(value, torch.Tensor) else value
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    out = function(*positional, **named)
    return list(out) if isinstance(out, (tuple, list)) else [out], positional


def imported(reference, rows, name, arguments):
    """The graph of a call, and what it gives for the call's tensors."""
    builder = Builder(reference)
    given, tensors = {}, {}

    def value(key, x):
        if isinstance(x, torch.Tensor):
            tensors[key] = x
            return builder.input(key, TYPES[x.dtype], x.shape)
        if isinstance(x, (list, tuple)):
            return [value(f"{key}{i}", y) for i, y in enumerate(x)]
        return x
    for argument in overload(name)._schema.arguments:
        given[argument.name] = value(argument.name, arguments.get(argument.name, argument.default_value))
    for key in ("seed", "offset"):
        if key in rows[name]["expression"] and key not in given:
            tensors[key] = torch.tensor(7, dtype=torch.uint64)
            given[key] = builder.input(key, "u64", [])
    results = convert(builder, rows, name.removeprefix("aten::"), given)
    for i, y in enumerate(results):
        builder.output(f"y{i}", y)
    outputs, _ = reference.evaluate(builder.text(), tensors)
    return builder, [outputs[f"y{i}"] for i in range(len(results))]


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
    missing = [name for name in computed if name not in CASES]
    if missing:
        print("no cases of", ", ".join(missing))
    total, failed, worst = 0, 0, 0.0
    names = [n if n.startswith("aten::") else "aten::" + n for n in arguments.overloads] or computed
    for name in names:
        for number in range(arguments.rounds if name in CASES else 0):
            seed = arguments.seed * 1000003 + number
            r = Generator(seed)
            case = CASES[name](r)
            slack = case.pop("slack", 1)
            what, builder, got = "", None, []
            try:
                expected, after = call(name, case)
            except RuntimeError as error:
                failed += 1
                print(f"{name}, seed {seed}: PyTorch refuses {case}: {error}")
                break
            try:
                builder, got = imported(reference, rows, name, case)
                total += 1
                if name in properties:
                    what = properties[name](case, got, expected)
                else:
                    if name == "aten::_native_batch_norm_legit" and case["training"]:
                        expected = [expected[0], after[3], after[4]]
                    for y, wanted in zip(got, expected):
                        apart = difference(y, wanted, times=slack)
                        worst = max(worst, min(apart, 1e9))
                        what = what or (f"{apart} of what is allowed" if apart > 1 else "")
            except (Failure, ValueError, AssertionError, KeyError, TypeError, AttributeError, IndexError) as failure:
                what = f"{type(failure).__name__}: {failure}"
            if what:
                failed += 1
                print(f"{name}, seed {seed}: {what}\n  arguments {case}\n  PyTorch {expected[:len(got) or 1]}\n  Kiln    {got}\n"
                      f"{builder.text() if builder else ''}", flush=True)
                break
    print(f"{total} calls of {len(names)} overloads beside PyTorch {torch.__version__}: {failed} overloads differ, worst {worst:.3f}")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
