"""Gradients of PyTorch's fused attentions in simple calls, for its backends keep numbers for them that a graph does not have.

With P = softmax(s·Q·Kᵀ + mask) and O = P·V: dV = Pᵀ·dO, dS = P ∘ (dO·Vᵀ - rowsum(dO ∘ O)), dQ = s·dS·K, dK = s·dSᵀ·Q, and dS is the gradient
of the mask (Dao et al., FlashAttention, 2022, appendix B.2).
"""
from __future__ import annotations

import math
from typing import Any, Callable

import torch

aten = torch.ops.aten
_NAMES = ["_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_flash_attention_backward",
          "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_cudnn_attention_backward"]


def _gradients(given: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
    """Of query, key, value and scores; None of what this does not cover."""
    grad, query, key, value = given.get("grad_out", given.get("grad_out_")), given["query"], given["key"], given["value"]
    if given["dropout_p"] != 0.0 or key.shape[1] != query.shape[1]:
        return None
    scale = given.get("scale")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = given.get("attn_mask", given.get("attn_bias"))
    dtype = query.dtype
    q, k, v, g, o = (x.float() if dtype in (torch.float16, torch.bfloat16) else x for x in (query, key, value, grad, given["out"]))
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask
    if given["is_causal"]:
        rows = torch.arange(scores.shape[-2], device=scores.device)[:, None]
        scores = torch.where(torch.arange(scores.shape[-1], device=scores.device)[None, :] <= rows, scores, -math.inf)
    p = torch.softmax(scores, -1)
    ds = p * (torch.matmul(g, v.transpose(-1, -2)) - (g * o).sum(-1, keepdim=True))
    dq, dk, dv = torch.matmul(ds, k) * scale, torch.matmul(ds.transpose(-1, -2), q) * scale, torch.matmul(p.transpose(-1, -2), g)
    return dq.to(dtype), dk.to(dtype), dv.to(dtype), ds


def _decomposition(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    names = [argument.name for argument in overload._schema.arguments]
    results = len(overload._schema.returns)

    def decompose(*args: Any, **kwargs: Any) -> Any:
        given = {argument.name: argument.default_value for argument in overload._schema.arguments} | dict(zip(names, args)) | kwargs
        wants_mask = results == 4 and given["grad_input_mask"][3]
        found = None if wants_mask else _gradients(given)
        if found is None:
            return NotImplemented
        return (*found[:3], None) if results == 4 else found[:3]

    return decompose


def decompositions() -> dict[Any, Callable[..., Any]]:
    out = {}
    for name in _NAMES:
        packet = getattr(aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            out[getattr(packet, overload)] = _decomposition(getattr(packet, overload))
    return out
