#!/usr/bin/env python3
"""export_models.py PROGRAM FOLDER: small models of PyTorch as graphs, for the tests of recognise() among others.

Each module of model_cases.py goes through torch.export at three levels: as it is written, the core ATen set, and all that PyTorch
decomposes. The calls become a graph, whose text is in FOLDER, and whose numbers are compared with the module's, before and after
recognise(). Those of DYNAMIC do so once more with dims for batch and sequence, and are compared at two sizes.
tests/graph/recognise/exported has them for the default suite.
"""
import inspect
import operator
import os
import sys

import torch
import torch.nn as nn

import extents
from kiln import TYPES, Failure, Reference, difference
from model_cases import DYNAMIC, MODELS
from program import Program, argument, arguments_of, overload_name, tensor

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
    """An exported program as a program of ATen calls."""

    def __init__(self, program, name, axes=()):
        self.program, self.names, self.numbers = Program(name), {}, {}
        signature = program.graph_signature
        states = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
        self.given = []  # the user's inputs in order
        self.dims, self.axes = {}, list(axes)  # PyTorch's symbols by ours; which axes of the inputs have a name
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self.input(node, states.get(node.name), program)
            elif isinstance(node.meta.get("val"), torch.SymInt):
                self.numbers[node] = self.extent(node.meta["val"])
            elif node.op == "call_function" and not isinstance(node.meta.get("val"), (torch.SymBool, torch.SymFloat)):
                self.call(node)
            elif node.op == "output":
                for i, y in enumerate(node.args[0]):
                    self.program.output(f"y{i}", self.names[y])

    def extent(self, e):
        return extents.plain(e.node.expr.subs(self.dims)) if isinstance(e, torch.SymInt) else e

    def input(self, node, state, program):
        if state is None:
            name, value = simple(node.name), node.meta["val"]
            self.given.append(name)
            for axis, dim in (self.axes.pop(0) if self.axes else {}).items():
                symbol = value.shape[axis].node.expr
                bounds = program.range_constraints[symbol]
                self.dims[symbol] = extents.dim(dim)
                self.program.dims[dim] = (int(bounds.lower), int(bounds.upper))
            self.names[node] = self.program.input(name, TYPES[value.dtype], [self.extent(e) for e in value.shape])
            return
        value = program.state_dict.get(state, program.constants.get(state))
        if value.numel() <= 1 and state not in program.state_dict:  # a number that was written down
            self.names[node] = node.name
            self.program.call("aten.full.default", {"size": list(value.shape), "fill_value": value.item(), "dtype": {"type": TYPES[value.dtype]}},
                              [node.name])
            return
        self.names[node] = self.program.given(simple(state), value.detach())

    def name_of(self, x):
        return self.names.get(x) if isinstance(x, torch.fx.Node) else None

    def value(self, x):
        """Without nodes that stand for numbers."""
        if isinstance(x, (list, tuple)):
            return [self.value(y) for y in x]
        if isinstance(x, torch.fx.Node) and x.target is torch.sym_float:  # beside floats an int is one
            return self.value(x.args[0])
        return self.numbers.get(x, x) if isinstance(x, torch.fx.Node) else x

    def call(self, node):
        if node.target is operator.getitem:
            self.names[node] = f"{node.args[0].name}_{node.args[1]}"
            return
        args, kwargs = self.value(node.args), {key: self.value(x) for key, x in node.kwargs.items()}
        if node.target._schema.name.startswith("prims::"):
            self.prim(node, arguments_of(node.target, args, kwargs, self.name_of))
            return
        several = isinstance(node.meta.get("val"), (list, tuple))
        results = [f"{node.name}_{i}" for i in range(len(node.meta["val"]))] if several else [node.name]
        self.names[node] = node.name
        place = (node.meta.get("stack_trace") or "").strip().splitlines()[-2:-1]
        self.program.call(overload_name(node.target), arguments_of(node.target, args, kwargs, self.name_of), results, place[0].strip() if place else "")

    def prim(self, node, arguments):
        """As the overload that it means."""
        self.names[node] = node.name
        name = node.target._schema.name.removeprefix("prims::")
        if name == "broadcast_in_dim":
            shape, axes = arguments["shape"], arguments["broadcast_dimensions"]
            given = [argument(self.extent(e), self.name_of) for e in node.args[0].meta["val"].shape]
            apart = [given[axes.index(i)] if i in axes else 1 for i in range(len(shape))]
            self.program.call("aten.view.default", {"self": arguments["a"], "size": apart}, [node.name + "_apart"])
            self.program.call("aten.expand.default", {"self": tensor(node.name + "_apart"), "size": shape}, [node.name])
            return
        target = PRIMS[name] + ("" if "." in PRIMS[name] else ".default")
        self.program.call("aten." + target, {WORDS.get(key, key): x for key, x in arguments.items()}, [node.name])


def main():
    program, folder = sys.argv[1:3]
    chosen = sys.argv[3:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reference = Reference(program)
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
            for level, table in (("written", None), ("core", CORE), ("exploded", exploded())):
                failed += not compared(reference, module, f"{full_name}_{level}", axes, points, table, allowed, folder)
    return 1 if failed else 0


def compared(reference, module, name, axes, points, table, allowed, folder):
    """Exports, writes, and compares at all points; whether all is well."""
    dims = {d: torch.export.Dim(d, min=2, max=64) for each in axes for d in each.values()}
    shapes = tuple({axis: dims[d] for axis, d in each.items()} for each in axes)
    if any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values()):
        shapes = (shapes,)
    try:
        with torch.no_grad():
            exported = torch.export.export(module, points[0], strict=False, dynamic_shapes=shapes if axes else None)
            exported = exported if table is None else exported.run_decompositions(table)
    except torch._dynamo.exc.UserError as error:
        print(f"{name}: PyTorch exports it with other dims only: {str(error).splitlines()[1].strip()}")
        return True
    model = Importer(exported, simple(name), axes)
    try:
        text = reference.passed(model.program.json())["text"]
    except Failure as failure:
        print(f"{name}: {failure}")
        return False
    worst, found = 0.0, {}
    for inputs in points:
        with torch.no_grad():
            expected = module(*inputs)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        given = {**dict(zip(model.given, inputs)), **model.program.tensors}
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
