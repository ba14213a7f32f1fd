"""Writes references.json: what PyTorch computes, in f64, for the examples of BERT, DLRM, diffusion and Mamba. Not run by tests.

    PYTHON_WITH_PYTORCH tests/graph/examples/make_references.py

Element i of input k is 0.3·sin(0.7·i + 1.3·k) (wave below, and in examples_test.cpp), but for the inputs that functions set.
"""
import json
import math
import os

import torch
import torch.nn.functional as F


def wave(k, *shape):
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    return (0.3 * torch.sin(0.7 * i + 1.3 * k)).reshape(shape)


def bert():
    width, heads, inner = 8, 2, 16
    x, mask = wave(0, 2, 3, width), torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    shapes = [(3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,), (inner, width), (inner,), (width, inner), (width,),
              (width,), (width,)]
    wqkv, bqkv, wo, bo, g1, h1, w1, b1, w2, b2, g2, h2 = (wave(k + 2, *s) for k, s in enumerate(shapes))
    q, k, v = (y.reshape(2, 3, heads, width // heads).transpose(1, 2) for y in F.linear(x, wqkv, bqkv).chunk(3, -1))
    mixed = F.scaled_dot_product_attention(q, k, v, mask[:, None, None, :]).transpose(1, 2).reshape(2, 3, width)
    y = F.layer_norm(x + F.linear(mixed, wo, bo), [width], g1, h1, 1e-12)
    return F.layer_norm(y + F.linear(F.gelu(F.linear(y, w1, b1)), w2, b2), [width], g2, h2, 1e-12)


def dlrm():
    tables, rows, width, dense = 3, 4, 4, 3
    x = F.relu(F.linear(wave(0, 2, dense), wave(1, width, dense), wave(2, width)))
    pairs = (tables + 1) * tables // 2
    bags = []
    for i in range(tables):
        ids = torch.tensor([(3 * j + i) % rows for j in range(5)])
        bags.append(F.embedding_bag(ids, wave(5 + 3 * i, rows, width), torch.tensor([0, i + 1]), mode="sum"))
    z = torch.stack([x] + bags, 1)
    products = z @ z.transpose(1, 2)
    row, column = torch.tril_indices(tables + 1, tables + 1, -1)
    features = torch.cat([x, products[:, row, column]], 1)
    return torch.sigmoid(F.linear(features, wave(3, 1, width + pairs), wave(4, 1)))[:, 0]


def diffusion():
    c, width, size = 4, 8, 8
    image, alpha, following = wave(0, 2, 3, size, size), torch.tensor([0.5, 0.25]).double(), torch.tensor([0.75, 0.5]).double()
    step = torch.tensor([3.0, 10.0]).double()
    shapes = [(c, 3, 3, 3), (c, c, 3, 3), (c, width), (c, c, 3, 3), (2 * c, 2 * c, 3, 3), (2 * c, width), (c, 2 * c, 3, 3), (3, c, 3, 3)]
    first, down1, down_time, down2, up1, up_time, up2, last = (wave(k + 4, *s) for k, s in enumerate(shapes))
    angles = step[:, None] * torch.exp(torch.arange(width // 2) * (-9.2103404 / (width // 2)))
    time = torch.cat([torch.sin(angles), torch.cos(angles)], -1)

    def block(x, w1, w_time, w2):
        y = F.conv2d(F.silu(F.group_norm(x, 4)), w1, padding=1)
        y = y + F.linear(F.silu(time), w_time)[:, :, None, None]
        return F.conv2d(F.silu(F.group_norm(y, 4)), w2, padding=1)
    x = F.conv2d(image, first, padding=1)
    down = block(F.max_pool2d(x, 2), down1, down_time, down2)
    places = down.flatten(2).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(places, places, places).transpose(1, 2).reshape(down.shape) + down
    up = torch.cat([x, F.interpolate(mixed, size=(size, size), mode="nearest")], 1)
    noise = F.conv2d(F.silu(block(up, up1, up_time, up2)), last, padding=1)
    a, b = alpha[:, None, None, None], following[:, None, None, None]
    clean = ((image - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
    return b.sqrt() * clean + (1 - b).sqrt() * noise


def mamba():
    width, states, window, n = 4, 2, 3, 5
    shapes = [(width,), (2 * width, width), (width, 1, window), (states, width), (states, width), (width, width), (width,), (width, states), (width,),
              (width, width)]
    norm, into, kernel, to_b, to_c, to_rate, rate_bias, log_a, skip, out = (wave(k + 1, *s) for k, s in enumerate(shapes))
    x = wave(0, 2, n, width)
    first, gate = F.linear(F.rms_norm(x, [width], norm, 1e-6), into).chunk(2, -1)
    u = F.silu(F.conv1d(F.pad(first.transpose(1, 2), (window - 1, 0)), kernel, groups=width).transpose(1, 2))
    rate, b, c = F.softplus(F.linear(u, to_rate, rate_bias)), F.linear(u, to_b), F.linear(u, to_c)
    state, ys = torch.zeros(2, width, states).double(), []
    for t in range(n):
        state = state * torch.exp(-rate[:, t, :, None] * log_a.exp()) + torch.einsum("bw,bs,bw->bws", rate[:, t], b[:, t], u[:, t])
        ys.append(torch.einsum("bws,bs->bw", state, c[:, t]) + skip * u[:, t])
    return x + F.linear(torch.stack(ys, 1) * F.silu(gate), out)


def main():
    out = {}
    for name, function in (("bert_layer", bert), ("dlrm", dlrm), ("diffusion_step", diffusion), ("mamba_block", mamba)):
        y = function()
        out[name] = {"shape": list(y.shape), "data": [float(f"{v:.7g}") for v in y.flatten().tolist()]}
    with open(os.path.join(os.path.dirname(__file__), "references.json"), "w") as file:
        file.write("{\n" + ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in out.items()) + "\n}\n")


main()
