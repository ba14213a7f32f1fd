"""The rows of bench.py: what is computed, by which kernel and configs, beside which peers, and how it is checked.

A row's `make` gives, for each call, fresh random inputs (bench_base.py): arguments of the kernel, output, peers by name,
and what the output should be.
"""
import torch
import torch.nn.functional as F

import bench_peers as triton_peers
from bench_attention import attention, attention_backward, attention_decode, attention_f8, ragged_attention, windowed_attention
from bench_memory import (adamw, argmax, bias_gelu, column_sum, cross_entropy, cross_entropy_backward, cumsum, cumsum_tile,
                          dropout_row, elements, embedding, histogram, layer_norm, layer_norm_backward, log_softmax,
                          residual_rms_norm, rms_norm, rotary, row_sum, sampler, softmax, sort_rows, sum_all, sum_tile, topk,
                          transpose)
from bench_products import (batched_product, epilogue_cost, fused_product, grouped_product, product, prologue_cost,
                            scaled_product, weight_product)

BIG = 1 << 28


def table():
    """Functions that make a row each: a row may hold small tensors."""
    out = []
    add = lambda function, *arguments, **named: out.append(lambda: function(*arguments, **named))
    for n in (512, 1024, 2048, 4096, 8192):
        for layout in ("nt", "nn"):
            add(product, n, n, n, "bf16", layout)
        add(product, n, n, n, "bf16", "nt", "matmul_nt_blocks")
    add(product, 4096, 4096, 4096, "bf16", "nn", "matmul_blocks")
    add(product, 4096, 4096, 4096, "bf16", "tn")
    add(product, 4096, 14336, 4096, "bf16")
    add(product, 8192, 8192, 1024, "bf16", "nn")
    for m in (1, 16, 32, 128):
        add(product, m, 8192, 8192, "bf16")
    add(product, 16, 8192, 8192, "bf16", "nn")
    add(batched_product, 96, 512, 512, 64)
    add(batched_product, 32, 1024, 1024, 128)
    for layout in ("nt", "nn"):
        add(product, 512, 512, 16384, "bf16", layout)
    add(product, 1280, 1280, 8192, "bf16")
    add(product, 1000, 1000, 1000, "bf16", "nn")
    add(product, 1001, 777, 333, "bf16", "nn")
    add(fused_product, 4096, 4096, 4096)
    add(epilogue_cost, 4096, 4096, 4096)
    add(epilogue_cost, 8192, 8192, 1024)
    for weights in ("i8", "f8e4m3"):
        add(prologue_cost, 4096, 4096, 4096, weights)
        add(weight_product, 16, 8192, 8192, weights)
    add(grouped_product, 8192, 14336, 4096, 8)
    add(grouped_product, 8192, 1408, 2048, 64)
    add(product, 4096, 4096, 4096, "f16")
    for kernel in ("matmul_nt", "matmul_nt_blocks"):
        add(product, 4096, 4096, 4096, "f8e4m3", "nt", kernel)
        add(product, 4096, 4096, 4096, "i8", "nt", kernel)
    add(scaled_product, 4096, 4096, 4096)
    add(product, 4096, 4096, 4096, "tf32", "nn", "matmul_tf32")
    add(product, 4096, 4096, 4096, "f32", "nn")
    for batch, seq, width in ((4, 2048, 64), (4, 4096, 128), (1, 16384, 128)):
        for causal in (False, True):
            add(attention, batch, 32, seq, width, causal)
            add(attention_f8, batch, 32, seq, width, causal)
    for causal in (False, True):
        for seq, width in ((2048, 64), (4096, 128)):
            add(attention_backward, 4, 32, seq, width, causal)
        for width in (96, 256):
            add(attention, 4, 16, 4096, width, causal)
        add(attention, 4, 32, 4096, 128, causal, 8)
        add(ragged_attention, 8, 32, 4096, 128, causal)
    add(windowed_attention, 1, 32, 16384, 128, 1024)
    for batch, seq, splits in ((64, 4096, 1), (16, 8192, 8), (1, 32768, 64)):
        for page in (16, 64):
            add(attention_decode, batch, 32, 8, seq, 128, page, splits)
    for r, c in ((65536, 256), (16384, 1024), (16384, 4096), (16384, 16384)):
        add(softmax, r, c)
        add(layer_norm, r, c)
        add(rms_norm, r, c)
        add(residual_rms_norm, r, c)
    add(layer_norm_backward, 16384, 4096)
    add(softmax, 4096, 131072)
    add(log_softmax, 16384, 4096)
    add(log_softmax, 4096, 128256)
    add(softmax, 16384, 1000, "f32")
    add(bias_gelu, 16384, 4096)
    add(cross_entropy, 4096, 128256)
    add(cross_entropy_backward, 4096, 128256)
    add(rotary, 16384, 32, 128)
    add(elements, "vector_add", BIG, "f32", 2, lambda x, y, out: torch.add(x, y, out=out), 3, triton=triton_peers.add)
    add(elements, "gelu", BIG, "f32", 1, lambda x, out: F.gelu(x), 2)
    add(dropout_row, BIG)
    add(adamw, BIG >> 2)
    add(adamw, BIG >> 2, "bf16")
    add(histogram, BIG >> 1)
    add(sum_all, BIG)
    add(transpose, 8192, 8192)
    add(transpose, 8192, 8192, "bf16")
    add(transpose, 8191, 8193)
    add(row_sum, 8192, 8192)
    add(column_sum, 8192, 8192)
    add(cumsum, "cumsum_rows", 1, 8192, 8192)
    add(cumsum, "cumsum_columns", 0, 8192, 8192)
    add(argmax, 8192, 8192)
    add(topk, 8192, 8192, 64)
    add(sort_rows, 8192, 8192)
    # Few long rows: plans of several launches.
    add(sum_tile, 4, 1 << 22)
    add(cumsum_tile, 4, 1 << 22)
    add(argmax, 8, 1 << 20)
    add(topk, 8, 1 << 20, 64)
    add(sort_rows, 8, 1 << 20)
    add(embedding, 32768, 128256, 4096)
    for n in (10000, 1000000, 10000000):
        add(sampler, 1, n)
    add(sampler, 32, 10000)
    return out
