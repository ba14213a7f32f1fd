"""Rows of attention: bench_cases.py lists the shapes."""
import dataclasses
import functools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import bench_peers as triton_peers
from bench_base import Inputs, Launch, Row, Stage, grid_of, normal, poisoned, power_of_two


def sdpa_peers(q, k, v, suffix="", **named):
    def by(backend):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, **named)
        return run

    return {"cudnn" + suffix: by(SDPBackend.CUDNN_ATTENTION), "flash2" + suffix: by(SDPBackend.FLASH_ATTENTION)}


def exact_attention(q, k, v, **named):
    """Of the first sequence's first head alone, where all of them would not fit."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*(t[:1, :1].double() for t in (q, k, v)), **named)


def attention_configs(width, causal):
    mask = dict(D=width, CAUSAL=int(causal))
    if width > 128:  # what shared memory has room for
        tiles = [(64, 32, 4, 2), (64, 64, 4, 2), (64, 64, 8, 2), (128, 32, 8, 2), (128, 32, 8, 3), (128, 64, 8, 1),
                 (128, 64, 8, 2)]
        return [dict(mask, BM=bm, BN=bn, num_warps=w, num_stages=s, warp_specialise=mode)
                for bm, bn, w, s in tiles for mode in (0, 1, 2)]
    configs = [dict(mask, BM=bm, BN=bn) for bm, bn in [(64, 64), (128, 64), (128, 128), (64, 128)]]
    configs = [dict(c, num_warps=w, num_stages=s) for c in configs for w in (4, 8) for s in (2, 3)]
    return configs + [dict(mask, BM=16 * w, BN=128, num_warps=w, num_stages=stages, warp_specialise=s)
                      for w, stages in [(8, 2), (8, 3), (4, 2)] for s in (1, 2, 3)]


def kind_of(batch, heads, kv_heads, seq, width, causal):
    groups = "" if heads == kv_heads else f"/{kv_heads}"
    return f"b{batch} h{heads}{groups} s{seq} d{width} {'causal' if causal else 'full'}"


def attention(batch, heads, seq, width, causal, kv_heads=None, type="bf16"):
    kv_heads = kv_heads or heads

    def make():
        q, k, v = (normal(batch, h, seq, width, type=type) for h in (heads, kv_heads, kv_heads))
        out = poisoned(batch, heads, seq, width, type=type)
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        peers = sdpa_peers(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
        if heads == kv_heads and width == power_of_two(width):
            peers["triton"] = triton_peers.attention(q, k, v, causal)
        return Inputs([q, k, v, out, lengths, batch, heads, kv_heads, seq, 1 / math.sqrt(width)], out, peers,
                      lambda: exact_attention(q, k, v, is_causal=causal))

    return Row("attention", kind_of(batch, heads, kv_heads, seq, width, causal), "attention", type,
               attention_configs(width, causal), make, 4.0 * batch * heads * seq * seq * width * (0.5 if causal else 1),
               "TFLOP/s", 2e-2)


def ragged_attention(batch, heads, seq, width, causal, type="bf16"):
    """Sequences half as long as their place on average. Peers: FlashAttention-2 of sequences packed one behind the other
    (varlen), SDPA with a mask, and cuDNN and FlashAttention-2 of the places as a whole, which do more than asked."""
    lengths = [seq * (2 * i + 1) // (2 * batch) - 5 * i - 3 for i in range(batch)]

    def make():
        q, k, v = (normal(batch, heads, seq, width, type=type) for _ in range(3))
        out = poisoned(batch, heads, seq, width, type=type)
        there = torch.tensor(lengths, device="cuda", dtype=torch.int32)
        inside = (torch.arange(seq, device="cuda") < there[:, None])[:, None, None, :]
        mask = inside & torch.ones(seq, seq, device="cuda", dtype=torch.bool).tril() if causal else inside
        packed = [torch.cat([t[b, :, :length].transpose(0, 1) for b, length in enumerate(lengths)]) for t in (q, k, v)]
        ends = F.pad(there.cumsum(0), (1, 0)).to(torch.int32)

        def varlen():
            return torch.ops.aten._flash_attention_forward(*packed, ends, ends, max(lengths), max(lengths), 0.0, causal, False)

        def expected():
            first = exact_attention(*(t[:, :, :lengths[0]] for t in (q, k, v)), is_causal=causal)
            return F.pad(first, (0, 0, 0, seq - lengths[0]))

        peers = {"flash2 varlen": varlen, "sdpa mask": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)}
        return Inputs([q, k, v, out, there, batch, heads, heads, seq, 1 / math.sqrt(width)], out,
                      peers | sdpa_peers(q, k, v, " padded", is_causal=causal), expected)

    return Row("attention", f"ragged {kind_of(batch, heads, heads, seq, width, causal)}", "attention", type,
               attention_configs(width, causal), make,
               4.0 * heads * sum(length * length for length in lengths) * width * (0.5 if causal else 1), "TFLOP/s", 2e-2)


def attention_f8(batch, heads, seq, width, causal):
    """Of e4m3 into bf16, beside attention of the same numbers in bf16: PyTorch has none of f8."""
    def make():
        q, k, v = (normal(batch, heads, seq, width, type="f8e4m3") for _ in range(3))
        values = v.transpose(-1, -2).contiguous()
        scales = [torch.empty(batch, heads, device="cuda").uniform_(0.5, 1.5) for _ in range(3)]
        out = poisoned(batch, heads, seq, width, type="bf16")
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        wide = [t.to(torch.bfloat16) for t in (q, k, v)]

        def expected():
            few = [t[:1, :1].double() * s[:1, :1, None, None].double() for t, s in zip((q, k, v), scales)]
            return exact_attention(*few, is_causal=causal)

        return Inputs([q, k, values, *scales, out, lengths, batch, heads, heads, seq, 1 / math.sqrt(width)], out,
                      sdpa_peers(*wide, " bf16", is_causal=causal), expected)

    tiles = [(64, 64, 4, 0), (64, 128, 4, 0), (128, 64, 8, 0), (128, 128, 8, 0), (128, 64, 8, 1), (128, 128, 8, 1)]
    tiles += [(128, 256, 8, 1)] if width == 64 else []
    configs = [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn, num_warps=w, num_stages=s, warp_specialise=alone)
               for bm, bn, w, alone in tiles for s in (2, 3)]
    return Row("attention", f"f8 {kind_of(batch, heads, heads, seq, width, causal)}", "attention_f8", "bf16",
               configs, make, 4.0 * batch * heads * seq * seq * width * (0.5 if causal else 1), "TFLOP/s", 4e-2)


def attention_backward(batch, heads, seq, width, causal, type="bf16"):
    """All three kernels of the gradient, one behind the other, beside all of the peers' backward pass."""
    def make():
        q, k, v, dout = (normal(batch, heads, seq, width, type=type) for _ in range(4))
        for tensor in (q, k, v):
            tensor.requires_grad_()
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            lse = torch.ops.aten._scaled_dot_product_flash_attention(q.detach(), k.detach(), v.detach(), 0.0, causal)[1]

        @functools.cache
        def exact():  # dq, dk, dv of the first head
            few = [t[:1, :1].detach().double().requires_grad_() for t in (q, k, v)]
            return torch.autograd.grad(exact_attention(*few, is_causal=causal), few, dout[:1, :1].double())

        @functools.cache
        def by_cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        delta, dq = poisoned(batch, heads, seq), poisoned(batch, heads, seq, width, type=type)
        dkv = poisoned(2, batch, heads, seq, width, type=type)
        arrays = [q.detach(), k.detach(), v.detach(), dout, lse.float(), delta]
        last = [lengths, batch, heads, heads, seq, 1 / math.sqrt(width)]
        return Inputs([out.detach(), dout, delta, batch * heads * seq], delta,
                      {"flash2": lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True),
                       "cudnn": lambda: torch.autograd.grad(by_cudnn(), (q, k, v), dout, retain_graph=True)},
                      lambda: (out[:1, :1].detach().double() * dout[:1, :1].double()).sum(-1),
                      [Launch([*arrays, dkv[0], dkv[1], *last], dkv, lambda: torch.stack(exact()[1:])),
                       Launch([*arrays, dq, *last], dq, lambda: exact()[0])])

    tiles = [(64, 64, 4), (32, 64, 4), (64, 64, 8), (32, 128, 8), (64, 128, 8), (128, 64, 8), (128, 128, 8), (64, 128, 4)]
    configs = [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn, num_warps=w, num_stages=s) for bm, bn, w in tiles for s in (1, 2, 3)]
    configs += [dict(D=width, CAUSAL=int(causal), BM=bm, BN=bn, num_warps=w, num_stages=s, warp_specialise=mode)
                for bm, bn, w in [(64, 64, 4), (64, 128, 8), (128, 64, 8), (128, 128, 8), (32, 128, 8)] for s in (2, 3) for mode in (1, 2)]
    return Row("attention", f"backward {kind_of(batch, heads, heads, seq, width, causal)}", "attention_delta", type,
               grid_of(D=[width], BM=[16, 32, 64, 128], num_warps=[4, 8]), make,
               10.0 * batch * heads * seq * seq * width * (0.5 if causal else 1), "TFLOP/s", 1e-3,
               [Stage(f"attention_backward_{what}", type, configs, 2e-2) for what in ("keys", "queries")])


def windowed_attention(batch, heads, seq, width, window, type="bf16"):
    row = attention(batch, heads, seq, width, True, type=type)

    def make():
        inputs = row.make()
        q, k, v = inputs.arguments[:3]
        near = torch.ones(seq, seq, device="cuda", dtype=torch.bool).tril().triu(1 - window)

        def expected():
            return F.scaled_dot_product_attention(*(t[:1, :1].double() for t in (q, k, v)), attn_mask=near)

        peers = {"sdpa": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=near)}
        return dataclasses.replace(inputs, peers=peers, expected=expected)

    return dataclasses.replace(row, name=f"{row.name} window {window}", make=make,
                               configs=[dict(c, WINDOW=window) for c in row.configs],
                               work=4.0 * batch * heads * seq * window * width)


def attention_decode(batch, heads, kv_heads, seq, width, page, splits, type="bf16"):
    """attention_decode and attention_combine. All sequences are `seq` long, and a split is a whole number of blocks. The
    peers have keys and values in one piece instead of in pages."""
    def make():
        q = normal(batch, 1, heads, width, type=type)
        k, v = (normal(batch * seq // page, page, kv_heads, width, type=type) for _ in range(2))
        table = torch.randperm(batch * seq // page, device="cuda").to(torch.int32).view(batch, -1)
        lengths = torch.full((batch,), seq, device="cuda", dtype=torch.int32)
        partial, lse = poisoned(batch, heads, splits, width), poisoned(batch, heads, splits)
        out = poisoned(batch, heads, width, type=type)
        gathered = [t[table.long()].view(batch, seq, kv_heads, width).transpose(1, 2).contiguous() for t in (k, v)]
        queries = q.transpose(1, 2).contiguous()

        def expected(parts=splits):
            keys, values = (t.view(batch, kv_heads, 1, parts, seq // parts, width).double() for t in gathered)
            grouped = queries.view(batch, kv_heads, heads // kv_heads, 1, 1, width).double()
            scores = grouped @ keys.transpose(-1, -2) / math.sqrt(width)
            return (scores.softmax(-1) @ values).view(batch, heads, parts, width)

        peers = sdpa_peers(queries, *gathered, enable_gqa=True)
        peers["sdpa"] = lambda: F.scaled_dot_product_attention(queries, *gathered, enable_gqa=True)
        return Inputs([q, k, v, table, lengths, partial, lse, batch, 1, heads, kv_heads, seq // page, splits,
                       1 / math.sqrt(width)], partial, peers, expected,
                      [Launch([partial, lse, out, batch * heads, splits], out,
                              lambda: expected(1).view(batch, heads, width))])

    configs = grid_of(D=[width], PAGE=[page], ROWS=[16], BN=[16, 32, 64], num_warps=[1, 2, 4], num_stages=[2, 3, 4])
    combine = grid_of(D=[width], BLOCK=sorted({min(block, max(4, power_of_two(splits))) for block in (4, 8, 16, 32)}),
                      num_warps=[1, 2, 4])
    return Row("attention", f"decode b{batch} h{heads}/{kv_heads} s{seq} d{width} page {page} splits {splits}", "attention_decode",
               type, configs, make, 4.0 * batch * kv_heads * seq * width, "TB/s", 2e-2,
               [Stage("attention_combine", type, combine, 2e-2)])
