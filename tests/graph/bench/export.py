#!/usr/bin/env python3
"""export.py [--dtype f32|bf16]… [--program GRAPH_REFERENCE] OUT [NAME…]: the models of models.py as graphs.

Writes OUT/NAME.DTYPE.kg, and beside it NAME.DTYPE.json: where each input of the graph comes from, and what its outputs are.
torch.export gives the calls; graph_reference makes a graph of them, as tests/graph/pytorch/export_models.py has it;
recognise() and simplify() go over it. A training step is the gradient that Kiln makes of the graph of the loss (`vjp`).
"""
import argparse
import json
import os
import pathlib
import sys
import time
import traceback

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pytorch"))
sys.path.insert(0, str(HERE))
import models  # noqa: E402
from export_models import Importer  # noqa: E402
from kiln import Failure, Reference  # noqa: E402

NO = 5  # AtenKind: no graph has it
ROOT = HERE.parent.parent.parent


def overload_name(function):
    schema = function._schema
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


def decompositions(rows):
    """PyTorch's own of all that the table has no row for."""
    table = torch.export.default_decompositions()
    known = {name for name, row in rows.items() if row["kind"] != NO}
    for function in list(table.keys()):
        if overload_name(function) in known:
            del table[function]
    return table


class ModelImporter(Importer):
    """An exported program, and where its inputs come from."""

    def __init__(self, program, name):
        self.sources, self.users = {}, 0
        super().__init__(program, name)

    def input(self, node, state, program):
        before = len(self.program.inputs)
        super().input(node, state, program)
        if len(self.program.inputs) == before:  # a number
            return
        name = self.names[node]
        signature = program.graph_signature
        if state is None:
            self.sources[name] = {"from": "user", "index": self.users}
            self.users += 1
        elif node.name in signature.inputs_to_parameters:
            self.sources[name] = {"from": "parameter", "name": state}
        elif node.name in signature.inputs_to_buffers:
            self.sources[name] = {"from": "buffer", "name": state}
        else:
            self.sources[name] = {"from": "constant", "data": self.program.tensors[name].flatten().tolist()}

    def text(self, reference):
        """Without states that nothing uses."""
        text = reference.passed(self.program.json())["text"]
        words = set(text[text.index(") {"):].replace(",", " ").split())
        self.program.inputs = [x for x in self.program.inputs if "%" + x["name"] in words or self.sources[x["name"]]["from"] == "user"]
        kept = {x["name"] for x in self.program.inputs}
        self.sources = {name: x for name, x in self.sources.items() if name in kept}
        return reference.passed(self.program.json())["text"]


def input_types(text):
    """Type and shape of each input, from the usual form of a graph."""
    out = {}
    head = text[text.index("graph "):]
    head = head[head.index("(") + 1:head.index(") {")]
    for part in head.split("%")[1:]:
        name, _, rest = part.partition(":")
        element, _, shape = rest.strip().partition("[")
        shape = shape[:shape.index("]")]
        out[name.strip()] = {"type": element, "shape": [int(e) for e in shape.split(",") if e.strip()]}
    return out


def export(reference, rows, case, found):
    with torch.no_grad():
        program = torch.export.export(case.module, case.inputs, strict=False).run_decompositions(decompositions(rows))
    model = ModelImporter(program, case.name)
    text = model.text(reference)
    passes = ["recognise", "simplify"]
    if case.trains:
        names = {x["name"]: name for name, x in model.sources.items() if x["from"] == "parameter"}
        order = [names[name] for name, _ in case.module.named_parameters()]
        passes += [f"vjp {' '.join(order)}", "simplify"]
    answer = reference.passed(text, passes)
    found.update(answer["found"])
    text, types = answer["text"], input_types(answer["text"])
    inputs = []
    for name, type in types.items():
        source = model.sources.get(name) or {"from": "constant", "data": [1.0]}  # the loss' own gradient
        if "data" in source and len(source["data"]) > 4096:
            raise ValueError(f"constant `{name}` has {len(source['data'])} elements: make it a buffer")
        inputs.append({"input": name, **type, **source})
    outputs = [{"output": output_name, **type} for output_name, type in zip(output_names(text), answer["outputs"], strict=True)]
    return text, {"name": case.name, "dtype": case.dtype, "inputs": inputs, "outputs": outputs, "dtypes": case.dtypes,
                  "torch": torch.__version__}


def output_names(text):
    return [line.split()[1] for line in text[text.index("graph "):].splitlines() if line.startswith("  output ")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", action="append", choices=list(models.DTYPES))
    parser.add_argument("--program", default=os.environ.get("KILN_GRAPH_REFERENCE", ROOT / "build/release/tests/graph/graph_reference"))
    options = parser.parse_intermixed_args()
    unknown = set(options.names) - set(models.MODELS)
    if unknown:
        sys.exit(f"export.py: there is no model {', '.join(sorted(unknown))}; there are {', '.join(models.MODELS)}")
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    reference = Reference(options.program)
    rows = {row["name"]: row for row in reference.ask({"aten": True})["rows"]}
    failed = 0
    for name in options.names or models.MODELS:
        wanted = [dtype for dtype in models.dtypes(name) if not options.dtype or dtype in options.dtype]
        for dtype in wanted or models.dtypes(name):
            begun, found = time.time(), {}
            try:
                text, about = export(reference, rows, models.case(name, dtype), found)
            except (KeyError, ValueError, TypeError, AttributeError, AssertionError, RuntimeError, Failure) as problem:
                failed += 1
                print(f"{name}.{dtype}: {type(problem).__name__}: {problem}", flush=True)
                if os.environ.get("KILN_TRACE"):
                    traceback.print_exc()
                continue
            (options.out / f"{name}.{dtype}.kg").write_text(text)
            (options.out / f"{name}.{dtype}.json").write_text(json.dumps(about) + "\n")
            print(f"{name}.{dtype}: {text.count(' = ')} lines, {', '.join(f'{op} {n}' for op, n in sorted(found.items())) or 'nothing'} found, "
                  f"{time.time() - begun:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
