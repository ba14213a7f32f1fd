#!/usr/bin/env python3
"""make_models.py: writes models/*.pt2 and models/expected.json, what the tests of the .pt2 reader read.

Small modules of our own, as torch.export.save stores them; expected.json has inputs and what PyTorch gives for them. Stack traces keep
the names of files alone. Needs PyTorch 2.8 or later, which the tests do not.
"""
import json
import os
import re
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
Dim = torch.export.Dim


class Mlp(nn.Module):
    """Weights that share memory, a buffer, a constant, a size that is known when it runs, two outputs."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(8, 6), nn.Linear(6, 8), nn.LayerNorm(6)
        self.second.weight = nn.Parameter(self.first.weight.detach().t())
        self.register_buffer("scale", torch.tensor([0.5, 2, 1]))
        self.shift = torch.arange(8) * 0.125

    def forward(self, x):
        hidden = F.gelu(self.norm(self.first(x)))
        halves = hidden.chunk(2, -1)
        return {"out": self.second(hidden) + self.shift * self.scale.max(), "parts": [halves[0].reshape(-1), halves[1].amax(1) / x.shape[0]]}


class Steps(nn.Module):
    """A batch norm that trains, a counter, and a part without gradients: saved as it was traced and decomposed."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(x)
        with torch.no_grad():
            z = y * 2
            w = z + y
        return z * w


class Attention(nn.Module):
    """bf16, a causal mask, extents of which one is twice another."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Tied(nn.Module):
    """An embedding and a linear layer that are one tensor, with a size worth keeping once."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(40, 64), nn.Linear(64, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


def scrub(trace):
    """File names without folders."""
    return re.sub(r'File "[^"]*/(torch/)?(?:[^"/]*/)*([^"/]+)"', lambda m: f'File "{m[1] or ""}{m[2]}"', trace or "")


def save(name, module, inputs, dynamic, decompose=True):
    program = torch.export.export(module, inputs, dynamic_shapes=dynamic, strict=False)
    if decompose:
        program = program.run_decompositions()
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                node.meta = {**node.meta, "stack_trace": scrub(node.meta.get("stack_trace"))}
                node.meta.pop("from_node", None)
                node.meta.pop("nn_module_stack", None)
    program.example_inputs = None
    torch.export.save(program, os.path.join(HERE, "models", name + ".pt2"))


def numbers(x):
    return {"shape": list(x.shape), "values": x.double().flatten().tolist()}


def main():
    torch.manual_seed(1)
    os.makedirs(os.path.join(HERE, "models"), exist_ok=True)
    expected = {}

    mlp, x = Mlp(), torch.randn(5, 8)
    save("mlp", mlp, (x,), {"x": {0: Dim("batch", min=2, max=100)}})
    save("mlp_traced", mlp, (x,), {"x": {0: Dim("batch", min=2, max=100)}}, decompose=False)
    y = mlp(x)
    expected["mlp"] = {"inputs": {"x": numbers(x)}, "outputs": {"out": numbers(y["out"]), "parts_0": numbers(y["parts"][0]), "parts_1": numbers(y["parts"][1])}}

    steps, x = Steps().train(), torch.randn(6, 4)
    save("steps", steps, (x,), {"x": {0: 2 * Dim("half", min=2, max=50)}})
    save("steps_traced", Steps().train(), (x,), {"x": {0: 2 * Dim("half", min=2, max=50)}}, decompose=False)
    y = steps(x)
    expected["steps"] = {"inputs": {"x": numbers(x)}, "outputs": {"y": numbers(y), "b_norm_running_mean_next": numbers(steps.norm.running_mean),
                         "b_norm_running_var_next": numbers(steps.norm.running_var), "b_norm_num_batches_tracked_next": numbers(steps.norm.num_batches_tracked)}}

    attention, x = Attention().bfloat16(), torch.randn(2, 3, 8).bfloat16()
    save("attention", attention, (x,), {"x": {1: Dim("tokens", min=2, max=64)}}, decompose=False)
    expected["attention"] = {"inputs": {"x": numbers(x)}, "outputs": {"y": numbers(attention(x))}}

    tied, ids = Tied(), torch.randint(40, (2, 3))
    save("tied", tied, (ids,), {"ids": {1: Dim("tokens", min=2, max=64)}})
    expected["tied"] = {"inputs": {"ids": numbers(ids)}, "outputs": {"y": numbers(tied(ids))}}
    with open(os.path.join(HERE, "models", "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
