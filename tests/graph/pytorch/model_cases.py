"""Modules that export_models.py exports: MODELS, (module, example inputs, times what is allowed); and those of them that have dims,
DYNAMIC: (names of axes, by input, inputs of another size)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def normal(*shape, t=torch.float32):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape) + 7)).to(t)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class Masked(Function):
    def forward(self, q, k, v, mask):
        return self.function(q, k, v, mask)


class RmsNorm(nn.Module):
    """As LLaMA has it: in f32, by pow and rsqrt."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(normal(width))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class T5Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(normal(width))

    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def attention(q, k, v, mask=None, scale=None, causal=False):
    """softmax(q·kᵀ·scale + mask)·v, written out."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    if mask is not None:
        scores = scores + mask
    return torch.matmul(torch.softmax(scores, -1), v)


def gpt2_attention(q, k, v, mask):
    """As GPT-2 has it: causal by where(seen, scores, finfo.min), then an additive mask of the batch."""
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / torch.full([], v.size(-1) ** 0.5, dtype=scores.dtype)
    n = k.size(-2)
    seen = torch.tril(torch.ones((n, n), dtype=torch.bool)).view(1, 1, n, n)
    scores = torch.where(seen, scores, torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype))
    scores = scores + (1.0 - mask[:, None, None, :]) * torch.finfo(scores.dtype).min
    return torch.matmul(F.softmax(scores, dim=-1), v)


def causal_by_min(q, k, v):
    """Causal by where(seen, scores, finfo.min) alone."""
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    n = k.size(-2)
    seen = torch.tril(torch.ones((n, n), dtype=torch.bool)).view(1, 1, n, n)
    scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
    return torch.matmul(F.softmax(scores, dim=-1), v)


def padded_by_min(q, k, v, mask):
    """Places of padding by masked_fill(finfo.min)."""
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(mask[:, None, None, :] == 0, torch.finfo(scores.dtype).min)
    return torch.matmul(F.softmax(scores, dim=-1), v)


def llama_attention(q, k, v):
    """As LLaMA has it: an additive causal mask of finfo.min above the diagonal; grouped heads repeated; softmax in f32."""
    b, g, n, d = k.shape
    k = k[:, :, None, :, :].expand(b, g, 2, n, d).reshape(b, 2 * g, n, d)
    v = v[:, :, None, :, :].expand(b, g, 2, n, d).reshape(b, 2 * g, n, d)
    mask = torch.full((n, n), torch.finfo(q.dtype).min, dtype=q.dtype)
    at = torch.arange(n)
    mask = mask.masked_fill(at < (at + 1).view(n, 1), 0)[None, None]
    weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(d) + mask
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, v)


def bert_attention(q, k, v, mask):
    """As BERT has it: (1 - mask)·finfo.min is added."""
    extended = (1.0 - mask[:, None, None, :].to(q.dtype)) * torch.finfo(q.dtype).min
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return torch.matmul(F.softmax(scores + extended, dim=-1), v)


class BertLayer(nn.Module):
    def __init__(self, width=16, heads=2, inner=32):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def split(self, x):
        b, n, width = x.shape
        return x.view(b, n, self.heads, width // self.heads).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        y = bert_attention(self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)), mask)
        y = y.permute(0, 2, 1, 3).contiguous().view(x.shape)
        x = self.norm1(self.out(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class GptBlock(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = (y.view(b, n, self.heads, width // self.heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(width, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def rows(x):
    return x - x.mean(-1, keepdim=True)


def scaled_after_mask(q, k, v, mask):
    return torch.matmul(torch.softmax((torch.matmul(q, k.transpose(-2, -1)) + mask) / math.sqrt(q.shape[-1]), -1), v)


def over_queries(q, k, v):
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 2, -2), v)


def low_mask(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) / 2
    return torch.matmul(torch.softmax(scores.masked_fill(mask[:, None, None, :] == 0, -100.0), -1), v)


def dropped_weights(q, k, v):
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 2, -1) * 0.5, v)


Q, K, V = normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 3)
K5, V5 = normal(2, 3, 5, 4), normal(2, 3, 5, 3)
HALF = torch.bfloat16
SHOWN = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
MODELS = {
    "softmax": (Function(lambda x: torch.softmax(x, -1)), (normal(3, 7),), 1),
    "softmax_half": (Function(lambda x: torch.softmax(x, 1)), (normal(2, 5, 3, t=HALF),), 1),
    "log_softmax": (Function(lambda x: F.log_softmax(x, 1)), (normal(3, 7),), 1),
    "layer_norm": (nn.LayerNorm(6), (normal(2, 3, 6),), 1),
    "layer_norm_two": (nn.LayerNorm([3, 6], elementwise_affine=False), (normal(2, 3, 6),), 1),
    "rms_norm": (nn.RMSNorm(6, eps=1e-5), (normal(2, 3, 6),), 1),
    "rms_norm_llama": (RmsNorm(6), (normal(2, 3, 6),), 1),
    "rms_norm_t5": (T5Norm(6), (normal(2, 3, 6),), 1),
    "group_norm": (nn.GroupNorm(2, 4), (normal(2, 4, 3, 3),), 1),
    "batch_norm": (nn.BatchNorm2d(4), (normal(2, 4, 3, 3),), 1),
    "gelu": (nn.GELU(), (normal(3, 7),), 1),
    "gelu_half": (nn.GELU(), (normal(3, 7, t=HALF),), 1),
    "gelu_tanh": (nn.GELU(approximate="tanh"), (normal(3, 7),), 1),
    "gelu_new": (Function(lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))), (normal(3, 7),), 1),
    "gelu_quick": (Function(lambda x: x * torch.sigmoid(1.702 * x)), (normal(3, 7),), 1),  # not gelu, nor silu
    "silu": (nn.SiLU(), (normal(3, 7),), 1),
    "swiglu": (Function(lambda x, y: F.silu(x) * y), (normal(3, 7), normal(3, 7)), 1),
    "logsumexp": (Function(lambda x: torch.logsumexp(x, -1)), (normal(3, 7),), 1),
    "linear": (nn.Linear(4, 3), (normal(2, 5, 4),), 1),
    "cross_entropy": (Function(F.cross_entropy), (normal(4, 5), torch.tensor([0, 3, -100, 2])), 1),
    "cross_entropy_sum": (Function(lambda x, t: F.cross_entropy(x, t, reduction="sum")), (normal(4, 5), torch.tensor([0, 3, 1, 2])), 1),
    "cross_entropy_none": (Function(lambda x, t: F.cross_entropy(x, t, reduction="none")), (normal(4, 5), torch.tensor([0, 3, -100, 2])), 1),
    "cross_entropy_smooth": (Function(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1)), (normal(4, 5), torch.tensor([0, 3, -100, 2])), 1),
    "attention": (Function(attention), (Q, K, V), 2),
    "attention_scale": (Function(lambda q, k, v: attention(q, k, v, scale=0.25)), (Q, K, V), 2),
    "attention_causal": (Function(lambda q, k, v: attention(q, k, v, causal=True)), (Q, K5, V5), 2),
    "attention_mask": (Masked(attention), (Q, K, V, normal(2, 1, 5, 6)), 2),
    "attention_causal_min": (Function(causal_by_min), (Q, K5, V5), 2),
    "attention_padding_min": (Masked(padded_by_min), (Q, K, V, SHOWN), 2),
    "attention_bert": (Masked(bert_attention), (Q, K, V, SHOWN), 2),
    "attention_gpt2": (Masked(gpt2_attention), (Q, K5, normal(2, 3, 5, 4), SHOWN[:, :5].float()), 2),
    "attention_llama": (Function(llama_attention), (normal(2, 4, 5, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)), 2),
    "attention_llama_half": (Function(llama_attention), tuple(normal(2, h, 5, 4, t=HALF) for h in (4, 2, 2)), 2),
    "sdpa": (Function(F.scaled_dot_product_attention), (Q, K, V), 2),
    "sdpa_causal": (Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), (Q, K5, V5), 2),
    "sdpa_mask": (Masked(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m)), (Q, K, V, normal(2, 1, 5, 6)), 2),
    "sdpa_shown": (Masked(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m)), (Q, K, V, SHOWN[:, None, None, :] == 1), 2),
    "sdpa_scale": (Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3)), (Q, K, V), 2),
    "multihead": (nn.MultiheadAttention(8, 2, batch_first=True), (normal(2, 5, 8), normal(2, 6, 8), normal(2, 6, 8)), 2),
    "encoder_layer": (nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=True), (normal(2, 5, 8),), 4),
    "bert_layer": (BertLayer(), (normal(2, 6, 16), SHOWN), 4),
    "gpt_block": (GptBlock(), (normal(2, 5, 16),), 4),
    # what only looks like one
    "not_softmax": (Function(lambda x: x.exp() / x.exp().sum(-1, keepdim=True)), (normal(3, 7),), 1),
    "not_log_softmax": (Function(lambda x: x.softmax(-1).log()), (normal(3, 7),), 1),
    "not_layer_norm": (Function(lambda x: rows(x) * torch.rsqrt(x.var(-1, correction=1, keepdim=True) + 1e-5)), (normal(2, 3, 6),), 1),
    "not_rms_norm": (Function(lambda x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)), (normal(2, 3, 6),), 1),
    "not_gelu": (Function(lambda x: 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.044715 * torch.pow(x, 3.0))))), (normal(3, 7),), 1),
    "not_silu": (Function(lambda x: x * torch.sigmoid(x + 1)), (normal(3, 7),), 1),
    "not_logsumexp": (Function(lambda x: x.exp().sum(-1).log()), (normal(3, 7),), 1),
    "not_cross_entropy": (Function(lambda x, t: F.log_softmax(x, 1).gather(1, t[:, None]).mean()), (normal(4, 5), torch.tensor([0, 3, 1, 2])), 1),
    "not_attention": (Masked(scaled_after_mask), (Q, K, V, normal(2, 1, 5, 6)), 2),
    "not_attention_axis": (Function(over_queries), (Q, K, V), 2),
    "not_attention_low": (Masked(low_mask), (Q, K, V, SHOWN), 2),
    "not_attention_factor": (Function(dropped_weights), (Q, K, V), 2),
}

B, BN, BHM = {0: "b"}, {0: "b", 1: "n"}, {0: "b", 2: "m"}  # batch; sequence; batch of heads
BH = {0: "b", 2: "n"}
BIG = (normal(3, 3, 7, 4), normal(3, 3, 4, 4), normal(3, 3, 4, 3))  # q, k, v
BIG7 = (normal(3, 3, 7, 4), normal(3, 3, 7, 4), normal(3, 3, 7, 3))
PLACES = torch.tensor([[1] * (7 - 2 * i) + [0] * 2 * i for i in range(3)])
DYNAMIC = {
    "softmax": ([{0: "b", 1: "n"}], (normal(4, 9),)),
    "softmax_half": ([{0: "b", 1: "n"}], (normal(3, 8, 3, t=HALF),)),
    "log_softmax": ([{0: "b", 1: "n"}], (normal(4, 9),)),
    "layer_norm": ([BN], (normal(3, 5, 6),)),
    "rms_norm": ([BN], (normal(3, 5, 6),)),
    "rms_norm_llama": ([BN], (normal(3, 5, 6),)),
    "rms_norm_t5": ([BN], (normal(3, 5, 6),)),
    "group_norm": ([{0: "b", 2: "n", 3: "m"}], (normal(3, 4, 5, 2),)),
    "batch_norm": ([B], (normal(3, 4, 3, 3),)),
    "gelu": ([B], (normal(4, 7),)),
    "gelu_tanh": ([B], (normal(4, 7),)),
    "swiglu": ([B, B], (normal(4, 7), normal(4, 7))),
    "logsumexp": ([{0: "b", 1: "n"}], (normal(4, 9),)),
    "linear": ([BN], (normal(3, 6, 4),)),
    "cross_entropy": ([B, B], (normal(6, 5), torch.tensor([1, -100, 4, 0, 2, -100]))),
    "cross_entropy_smooth": ([B, B], (normal(6, 5), torch.tensor([1, -100, 4, 0, 2, -100]))),
    "attention": ([BH, BHM, BHM], BIG),
    "attention_causal": ([BH, BH, BH], BIG7),
    "attention_mask": ([BH, BHM, BHM, {0: "b", 2: "n", 3: "m"}], BIG[:3] + (normal(3, 1, 7, 4),)),
    "attention_padding_min": ([BH, BHM, BHM, {0: "b", 1: "m"}], BIG7 + (PLACES,)),
    "attention_bert": ([BH, BHM, BHM, {0: "b", 1: "m"}], BIG7 + (PLACES,)),
    "attention_gpt2": ([BH, BH, BH, BN], BIG7[:2] + (normal(3, 3, 7, 4), PLACES.float())),
    "attention_llama": ([BH, BH, BH], (normal(3, 4, 7, 4), normal(3, 2, 7, 4), normal(3, 2, 7, 4))),
    "sdpa": ([BH, BHM, BHM], BIG),
    "sdpa_causal": ([BH, BH, BH], BIG7),
    "sdpa_mask": ([BH, BHM, BHM, {0: "b", 2: "n", 3: "m"}], BIG[:3] + (normal(3, 1, 7, 4),)),
    "multihead": ([BN, {0: "b", 1: "m"}, {0: "b", 1: "m"}], (normal(3, 4, 8), normal(3, 7, 8), normal(3, 7, 8))),
    "encoder_layer": ([BN], (normal(3, 7, 8),)),
    "bert_layer": ([BN, BN], (normal(3, 7, 16), PLACES)),
    "gpt_block": ([BN], (normal(3, 7, 16),)),
    "not_softmax": ([{0: "b", 1: "n"}], (normal(4, 9),)),
    "not_layer_norm": ([BN], (normal(3, 5, 6),)),
    "not_cross_entropy": ([B, B], (normal(6, 5), torch.tensor([1, 3, 4, 0, 2, 2]))),
    "not_attention": ([BH, BHM, BHM, {0: "b", 2: "n", 3: "m"}], BIG[:3] + (normal(3, 1, 7, 4),)),
    "not_attention_axis": ([BH, BHM, BHM], BIG),
}
