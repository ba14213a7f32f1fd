#!/usr/bin/env python3
"""export_models.py PROGRAM FOLDER: small models of PyTorch as graphs, exported exploded, for the tests of recognise().

Each module of model_cases.py goes through torch.export at two levels: the core ATen set, and all that PyTorch decomposes. The calls
become `.kg` text by the table of ATen operators (importer.py), in FOLDER, whose numbers are compared with the module's, before and
after recognise(). Those of DYNAMIC do so once more with dims for batch and sequence, and are compared at two sizes.
tests/graph/recognise/exported has them for the default suite.
"""
import inspect
import operator
import os
import sys

import torch
import torch.nn as nn

import handlers  # noqa: F401
import layer_handlers  # noqa: F401
import extents
from importer import Builder, convert
from kiln import TYPES, Reference, difference
from model_cases import DYNAMIC, MODELS

CORE = torch.export.default_decompositions()


def exploded():
    """Decompositions of all that recognise() looks for, beside those to the core."""
    names = ["_softmax", "_log_softmax", "native_layer_norm", "gelu", "silu", "sigmoid", "_native_batch_norm_legit_no_training",
             "native_batch_norm", "_native_batch_norm_legit", "linear", "addmm", "nll_loss_forward", "cross_entropy_loss", "mse_loss", "logsumexp", "var_mean", "softplus",
             "masked_fill", "rsub", "glu", "_fused_rms_norm", "rms_norm", "mean", "_safe_softmax"]
    table = dict(CORE)
    for name in names:
        packet = getattr(torch.ops.aten, name, None)
        for each in packet.overloads() if packet is not None else ():
            function = getattr(packet, each)
            known = torch._decomp.decomposition_table.get(function)
            if known is not None:
                table[function] = known
    return table


# What PyTorch's own decompositions are written in, as the overloads that it means.
PRIMS = {"neg": "neg", "exp": "exp", "add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor", "rsqrt": "rsqrt", "sqrt": "sqrt",
         "erf": "erf", "tanh": "tanh", "log": "log", "sum": "sum.dim_IntList", "var": "var.correction", "amax": "amax", "where": "where.self",
         "convert_element_type": "_to_copy", "pow": "pow.Tensor_Tensor", "view_of": "alias", "clone": "clone"}
WORDS = {"inp": "self", "a": "self", "b": "other", "dims": "dim", "x": "self", "y": "other", "pred": "condition"}


def simple(name):
    return "".join(c if c.isalnum() else "_" for c in name).strip("_")


class Importer:
    """An exported program as the text of a graph."""

    def __init__(self, reference, rows, program, name, axes=()):
        self.rows, self.builder, self.values, self.tensors = rows, Builder(reference, name), {}, {}
        signature = program.graph_signature
        states = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
        self.given = []  # the user's inputs in order
        self.dims, self.axes = {}, list(axes)  # PyTorch's symbols by ours; which axes of the inputs have a name
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self.input(node, states.get(node.name), program)
            elif isinstance(node.meta.get("val"), torch.SymInt):
                self.values[node] = self.extent(node.meta["val"])
            elif node.op == "call_function" and not isinstance(node.meta.get("val"), torch.SymBool):
                self.call(node)
            elif node.op == "output":
                for i, y in enumerate(node.args[0]):
                    self.builder.output(f"y{i}", self.values[y])

    def extent(self, e):
        return extents.plain(e.node.expr.subs(self.dims)) if isinstance(e, torch.SymInt) else e

    def input(self, node, state, program):
        if state is None:
            self.given.append(simple(node.name))
            value = node.meta["val"]
            for axis, name in (self.axes.pop(0) if self.axes else {}).items():
                symbol = value.shape[axis].node.expr
                bounds = program.range_constraints[symbol]
                self.dims[symbol] = extents.dim(name)
                self.builder.dims[name] = (int(bounds.lower), int(bounds.upper))
            self.values[node] = self.builder.input(simple(node.name), TYPES[value.dtype], [self.extent(e) for e in value.shape])
            return
        tensor = program.state_dict.get(state, program.constants.get(state))
        if tensor.numel() <= 1 and state not in program.state_dict:  # a number that was written down
            self.values[node] = self.builder.full(TYPES[tensor.dtype], list(tensor.shape), tensor.item())
            return
        name = simple(state)
        self.tensors[name] = tensor.detach()
        self.values[node] = self.builder.input(name, TYPES[tensor.dtype], tensor.shape)

    def argument(self, x):
        if isinstance(x, torch.fx.Node):
            return self.values[x]
        return [self.argument(y) for y in x] if isinstance(x, (list, tuple)) else x

    def call(self, node):
        if node.target is torch.sym_float:  # beside floats it is one
            self.values[node] = self.values[node.args[0]]
            return
        if node.target is operator.getitem:
            results = self.values[node.args[0]]
            self.values[node] = results[node.args[1]] if isinstance(results, list) else results
            return
        schema = node.target._schema
        arguments = {a.name: a.default_value for a in schema.arguments}
        arguments.update({a.name: self.argument(x) for a, x in zip(schema.arguments, node.args)})
        arguments.update({key: self.argument(x) for key, x in node.kwargs.items()})
        name = schema.name.removeprefix("aten::") + (f".{schema.overload_name}" if schema.overload_name else "")
        if not schema.returns or name.startswith("_assert"):
            return
        if name.startswith("prims::"):
            prim = name.removeprefix("prims::")
            if prim == "broadcast_in_dim":
                x, shape, axes = arguments["a"], list(arguments["shape"]), list(arguments["broadcast_dimensions"])
                apart = [x.shape[axes.index(i)] if i in axes else 1 for i in range(len(shape))]
                self.values[node] = self.builder.broadcast(self.builder.reshape(x, apart), shape)
                return
            arguments = {WORDS.get(key, key): x for key, x in arguments.items()}
            name = PRIMS[prim]
            known = torch.ops.aten
            for part in (name + ("" if "." in name else ".default")).split("."):
                known = getattr(known, part)
            arguments = {**{a.name: a.default_value for a in known._schema.arguments}, **arguments}
        results = convert(self.builder, self.rows, name, arguments)
        several = len(schema.returns) > 1 or "[]" in str(schema.returns[0].type) or str(schema.returns[0].type) == "List[Tensor]"
        self.values[node] = results if several else results[0]

    def text(self):
        """Without nodes that nothing uses."""
        b = self.builder
        used = {line.split("= ")[1].strip() for line in b.outputs}
        kept = []
        for line in reversed(b.lines):
            names, node = line.strip().split(" = ", 1)
            if used & set(names.split(", ")):
                kept.append(line)
                words = node.replace(",", " ").split()
                used |= {w for w in words if w.startswith("%")}
        b.lines = kept[::-1]
        return b.text()


def main():
    program, folder = sys.argv[1:3]
    chosen = sys.argv[3:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reference = Reference(program)
    rows = {row["name"]: row for row in reference.ask({"aten": True})["rows"]}
    failed = 0
    for name, (module, inputs, allowed) in MODELS.items():
        if chosen and name not in chosen:
            continue
        module = module.eval() if isinstance(module, nn.Module) else module
        versions = [(name, (), [inputs])]
        if name in DYNAMIC:
            axes, more = DYNAMIC[name]
            versions.append((name + "_dynamic", axes, [inputs, more]))
        for full_name, axes, points in versions:
            for level, table in (("core", CORE), ("exploded", exploded())):
                failed += not compared(reference, rows, module, f"{full_name}_{level}", axes, points, table, allowed, folder)
    return 1 if failed else 0


def compared(reference, rows, module, name, axes, points, table, allowed, folder):
    """Exports, writes, and compares at all points; whether all is well."""
    dims = {d: torch.export.Dim(d, min=2, max=64) for each in axes for d in each.values()}
    shapes = tuple({axis: dims[d] for axis, d in each.items()} for each in axes)
    if any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values()):
        shapes = (shapes,)
    with torch.no_grad():
        exported = torch.export.export(module, points[0], strict=False, dynamic_shapes=shapes if axes else None)
        exported = exported.run_decompositions(table)
    try:
        model = Importer(reference, rows, exported, simple(name), axes)
    except KeyError as error:
        print(f"{name}: no {error}")
        return False
    text = reference.passed(model.text())["text"]
    worst, found = 0.0, {}
    for inputs in points:
        with torch.no_grad():
            expected = module(*inputs)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        given = {**dict(zip(model.given, inputs)), **model.tensors}
        given = {key: x for key, x in given.items() if f"%{key}:" in text}
        for passes in ([], ["recognise"]):
            outputs, found = reference.evaluate(text, given, passes)
            apart = max(difference(outputs[f"y{i}"], y, times=allowed) for i, y in enumerate(expected))
            worst = max(worst, apart)
            if apart > 1:
                print(f"{name}, {passes}: {apart} of what is allowed\n{text}")
                if passes:
                    print(reference.passed(text, passes)["text"])
    print(f"{name}: {', '.join(f'{op} {count}' for op, count in sorted(found.items())) or 'nothing'} found, worst {worst:.3f}")
    with open(os.path.join(folder, f"{name}.kg"), "w") as file:
        file.write(text)
    return worst <= 1


if __name__ == "__main__":
    sys.exit(main())
