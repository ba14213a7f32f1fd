#!/usr/bin/env python3
"""count_inductor.py [PART OF A NAME]: what TorchInductor makes of the programs of fusion_test.cpp on a CPU, for the table there. Its
output code calls functions of the library and functions of its own, of one loop nest or several that run one after the other: a launch
is a nest or a call of the library. Bytes are what it counts itself."""
import re
import sys

import torch
import torch.nn.functional as F
from torch._inductor import metrics
from torch._inductor.utils import run_and_get_code

# Bytes are counted for this log alone, and only of what is compiled anew.
torch._logging.set_logs(inductor_metrics=True)
torch._inductor.config.fx_graph_cache = False
torch._functorch.config.enable_autograd_cache = False

ROWS, COLUMNS = 64, 96
LIBRARY = re.compile(r"^\s+(?:\w+ = )?(?:extern_kernels\.\w+\(|torch\.ops\.[\w.]+\()", re.MULTILINE)
OWN = re.compile(r"^\s+(cpp_fused\w*)\(", re.MULTILINE)


def x(*shape, type=torch.float32):
    return torch.rand(shape).to(type)


def attention_of_rows(t, mask):
    q, k, v = (p.reshape(2, ROWS, 3, 32).permute(0, 2, 1, 3) for p in t.split(COLUMNS, 2))
    causal = torch.ones(ROWS, ROWS, dtype=torch.bool).tril()
    seen = (mask != 0).reshape(2, 1, 1, ROWS) & causal
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).permute(0, 2, 1, 3).reshape(2, ROWS, COLUMNS)


def attention_and_layer(q, k, v, w):
    return F.linear(F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3).reshape(2, ROWS, COLUMNS), w)


def norm_and_quantise(t, w):
    y = F.rms_norm(t, (COLUMNS,), w, 1e-5)
    scale = y.abs().amax(1, keepdim=True) / 127
    return torch.round(y / scale).to(torch.int8), scale


def adam(p, g, m, v, lr, t):
    m2, v2 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - lr * (m2 / (1 - 0.9**t)) / ((v2 / (1 - 0.999**t)).sqrt() + 1e-8), m2, v2


def bags(s, t, ids):
    starts = torch.arange(ROWS) * 4
    return F.embedding_bag(ids[0], s, starts, mode="sum"), F.embedding_bag(ids[1], t, starts, mode="sum")


def gradient_of_norm(t, w, b, g):
    mean, rstd = t.mean(1, keepdim=True), (t.var(1, keepdim=True, correction=0) + 1e-5).rsqrt()
    return torch.ops.aten.native_layer_norm_backward(g, t, [COLUMNS], mean, rstd, w, b, [True, True, True])


def sums_by_index(t, ids, v):
    return t.index_add(0, ids, torch.exp(v))


BF16 = torch.bfloat16
MATRIX, ROW = (ROWS, COLUMNS), (COLUMNS,)
PROGRAMS = {
    "an elementwise chain with a broadcast": (lambda a, b: torch.tanh(torch.exp(a + b) * 2) - 1, x(*MATRIX), x(*ROW)),
    "views of both operands": (lambda a, b: torch.exp(a.T) + b.flip(0), x(*MATRIX), x(COLUMNS, ROWS)),
    "softmax of scaled rows": (lambda a: F.softmax(a * 0.5, 1), x(*MATRIX)),
    "softmax of long rows": (lambda a: F.softmax(a, 1), x(4, 100_000)),
    "layer norm of a sum": (lambda a, r, w, b: F.layer_norm(a + r, ROW, w, b), x(*MATRIX), x(*MATRIX), x(*ROW), x(*ROW)),
    "rms norm, its largest, quantised": (norm_and_quantise, x(*MATRIX), x(*ROW)),
    "column sums of squares": (lambda a: (a * a).sum(0), x(*MATRIX)),
    "a layer with bias and gelu": (lambda a, w, b: F.gelu(F.linear(a, w, b)), x(*MATRIX), x(*MATRIX), x(ROWS)),
    "a layer and a residual": (lambda a, w, r: F.linear(a, w) + r, x(*MATRIX, type=BF16), x(COLUMNS, COLUMNS, type=BF16),
                               x(*MATRIX, type=BF16)),
    "a norm between two layers in bf16": (lambda a, w, r, g: F.linear(F.rms_norm(F.linear(a, w) + r, ROW, g, 1e-5), w),
                                          x(*MATRIX, type=BF16), x(COLUMNS, COLUMNS, type=BF16), x(*MATRIX, type=BF16),
                                          x(*ROW, type=BF16)),
    "two results of one operand": (lambda a: (torch.exp(a), a * 2), x(*MATRIX)),
    "a step of Adam": (adam, x(*ROW), x(*ROW), x(*ROW), x(*ROW), x(), x()),
    "two parts of one result": (lambda a, b: torch.cat([torch.exp(a), b + 1], 0), x(*MATRIX), x(*MATRIX)),
    "attention of heads in rows": (attention_of_rows, x(2, ROWS, 3 * COLUMNS), torch.ones(2, ROWS, dtype=torch.int64)),
    "attention and a layer": (attention_and_layer, x(2, 3, ROWS, 32), x(2, 3, ROWS, 32), x(2, 3, ROWS, 32), x(COLUMNS, COLUMNS)),
    "the largest of what is computed": (lambda a: torch.topk(a / 0.8, 50, 1), x(8, 50_257)),
    "bags of two tables": (bags, x(1000, COLUMNS), x(500, COLUMNS), torch.zeros(2, ROWS * 4, dtype=torch.int64)),
    "a layer of quantised weights": (lambda a, q, s: F.linear(a, q.float() * s[:, None]), x(*MATRIX),
                                     torch.ones(COLUMNS, COLUMNS, dtype=torch.int8), x(*ROW)),
    "a layer of a table's rows": (lambda t, i, w: F.linear(F.embedding(i, t), w), x(1000, COLUMNS),
                                  torch.zeros(ROWS, dtype=torch.int64), x(COLUMNS, COLUMNS)),
    "queries, keys and values": (lambda a, q, k, v: (F.linear(a, q), F.linear(a, k), F.linear(a, v)), x(*MATRIX),
                                 x(COLUMNS, COLUMNS), x(COLUMNS, COLUMNS), x(COLUMNS, COLUMNS)),
    "a layer and cross entropy": (lambda a, w, i: F.cross_entropy(F.linear(a, w), i), x(*MATRIX), x(1000, COLUMNS),
                                  torch.zeros(ROWS, dtype=torch.int64)),
    "gradient of a norm": (gradient_of_norm, x(*MATRIX), x(*ROW), x(*ROW), x(*MATRIX)),
    "sums by index of what is computed": (sums_by_index, x(*MATRIX), torch.zeros(ROWS, dtype=torch.int64), x(*MATRIX)),
    "padded": (lambda a: F.pad(torch.exp(a), (1, 1, 1, 1)), x(*MATRIX)),
    "a result and its sum": (lambda a: (torch.exp(a), torch.exp(a).sum(1)), x(*MATRIX)),
    "rows of a table": (lambda t, i, b: F.embedding(i, t) * 2 + b, x(1000, COLUMNS), torch.zeros(ROWS, dtype=torch.int64), x(*ROW)),
}


def count(function, *inputs):
    torch._dynamo.reset()
    metrics.reset()
    with torch.no_grad():
        _, codes = run_and_get_code(torch.compile(function, dynamic=False), *inputs)
    launches = 0
    for code in codes:
        functions, body = code[:code.index("def call(")], code[code.index("def call("):]
        body = body[:body.find("def benchmark_compiled_module")]
        nests = {name: len(re.findall(r"^    \{$", text, re.MULTILINE))
                 for name, text in re.findall(r"^(cpp_fused\w*) = async_compile(.*?)^'''", functions, re.MULTILINE | re.DOTALL)}
        launches += len(LIBRARY.findall(body)) + sum(nests[name] for name in OWN.findall(body))
    return launches, metrics.num_bytes_accessed


print(f"PyTorch {torch.__version__}")
for name, (function, *inputs) in PROGRAMS.items():
    if len(sys.argv) > 1 and sys.argv[1] not in name:
        continue
    launches, moved = count(function, *inputs)
    print(f"{name}: {launches} launches, {moved} bytes")
