"""Networks of models.py: facts of well-known architectures, in modules of PyTorch."""

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    """Of Softshrink: 784, 256, 256, 256, 10."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((784, 256), (256, 256), (256, 256), (256, 10)))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.softshrink(layer(x))
        return self.layers[-1](x)


# --- transformers ---
def split(x, heads):
    b, n, width = x.shape
    return x.view(b, n, heads, width // heads).transpose(1, 2)


def joined(x):
    b, heads, n, width = x.shape
    return x.transpose(1, 2).reshape(b, n, heads * width)


class BertLayer(nn.Module):
    def __init__(self, width=768, heads=12, inner=3072):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, mask):
        """mask: i64 of each place, 1 where it is seen."""
        q, k, v = (split(f(x), self.heads) for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :] == 1)
        x = self.norm1(self.out(joined(y)) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    def __init__(self, layers=12, width=768, vocabulary=30522, places=512):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(vocabulary, width), nn.Embedding(places, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, kinds, mask):
        x = self.norm(self.words(ids) + self.kinds(kinds) + self.places.weight[:ids.shape[1]])
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class GptBlock(nn.Module):
    """Of GPT-2, with the keys and values of the places before."""

    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, keys=None, values=None):
        """The block's result and the new places' keys and values: the caller keeps those in its cache."""
        q, k, v = (split(y, self.heads) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        whole = (k, v) if keys is None else (torch.cat([keys, k], 2), torch.cat([values, v], 2))
        y = F.scaled_dot_product_attention(q, *whole, is_causal=keys is None)
        x = x + self.out(joined(y))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), k, v


def turned(x, cos, sin):
    """Rotary places, halves apart."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class LlamaBlock(nn.Module):
    """Of Llama 3.2 1B: 32 heads on 8 of keys, SwiGLU."""

    def __init__(self, width=2048, heads=32, groups=8, inner=8192):
        super().__init__()
        self.heads, self.groups, each = heads, groups, width // heads
        self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, groups * each, bias=False) for _ in range(2))
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((width, inner), (width, inner), (inner, width)))
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)

    def forward(self, x, cos, sin):
        h = self.norm1(x)
        q, k, v = split(self.query(h), self.heads), split(self.key(h), self.groups), split(self.value(h), self.groups)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        x = x + self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class VitLayer(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        q, k, v = (split(y, self.heads) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(joined(F.scaled_dot_product_attention(q, k, v)))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Vit(nn.Module):
    """ViT-B/16 of 224×224."""

    def __init__(self, layers=12, width=768, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.places = nn.Parameter(torch.empty(1, 1, width)), nn.Parameter(torch.empty(1, 197, width))
        self.layers = nn.ModuleList(VitLayer(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


# --- convolutions ---
class ConvNorm(nn.Module):
    def __init__(self, ins, outs, size, stride=1, groups=1, eps=1e-5, act=None, track=True):
        super().__init__()
        self.conv = nn.Conv2d(ins, outs, size, stride, size // 2, groups=groups, bias=False)
        self.norm, self.act = nn.BatchNorm2d(outs, eps=eps, track_running_stats=track), act

    def forward(self, x):
        x = self.norm(self.conv(x))
        return x if self.act is None else self.act(x)


class Bottleneck(nn.Module):
    """Of ResNet, v1.5: the stride is the middle convolution's."""

    def __init__(self, ins, inner, stride=1, track=True):
        super().__init__()
        self.first = ConvNorm(ins, inner, 1, act=F.relu, track=track)
        self.second = ConvNorm(inner, inner, 3, stride, act=F.relu, track=track)
        self.third = ConvNorm(inner, 4 * inner, 1, track=track)
        self.beside = None if ins == 4 * inner and stride == 1 else ConvNorm(ins, 4 * inner, 1, stride, track=track)

    def forward(self, x):
        return F.relu(self.third(self.second(self.first(x))) + (x if self.beside is None else self.beside(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvNorm(3, 64, 7, 2, act=F.relu)
        blocks, width = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                blocks.append(Bottleneck(width, 64 << stage, 2 if i == 0 and stage > 0 else 1))
                width = 256 << stage
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(width, 1000)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def of_eight(n):
    near = max(8, int(n + 4) // 8 * 8)
    return near + 8 if near < 0.9 * n else near


class Squeeze(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.up = nn.Conv2d(width, of_eight(width // 4), 1), nn.Conv2d(of_eight(width // 4), width, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, ins, size, inner, outs, squeeze, act, stride):
        super().__init__()
        self.adds = stride == 1 and ins == outs
        parts = [] if inner == ins else [ConvNorm(ins, inner, 1, eps=1e-3, act=act)]
        parts += [ConvNorm(inner, inner, size, stride, inner, 1e-3, act)] + [Squeeze(inner)] * squeeze
        self.parts = nn.Sequential(*parts, ConvNorm(inner, outs, 1, eps=1e-3))

    def forward(self, x):
        return self.parts(x) + x if self.adds else self.parts(x)


class MobileNetV3(nn.Module):
    """Large. A row: size, inner and outer width, squeeze, hard swish, stride."""
    ROWS = [(3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
            (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
            (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1)]

    def __init__(self):
        super().__init__()
        self.stem = ConvNorm(3, 16, 3, 2, eps=1e-3, act=F.hardswish)
        blocks, width = [], 16
        for size, inner, outs, squeeze, swish, stride in self.ROWS:
            blocks.append(Inverted(width, size, inner, outs, squeeze, F.hardswish if swish else F.relu, stride))
            width = outs
        self.blocks, self.last = nn.ModuleList(blocks), ConvNorm(width, 960, 1, eps=1e-3, act=F.hardswish)
        self.hidden, self.head = nn.Linear(960, 1280), nn.Linear(1280, 1000)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(F.hardswish(self.hidden(self.last(x).mean((2, 3)))))


class UnetBlock(nn.Module):
    """Of a diffusion model: a residual block with an embedding of time, then attention over all places."""

    def __init__(self, width=320, heads=8, time=1280):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(32, width) for _ in range(3))
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time, self.qkv, self.out = nn.Linear(time, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(h)))
        y = self.norm3(x).flatten(2).transpose(1, 2)
        q, k, v = (split(part, self.heads) for part in self.qkv(y).chunk(3, -1))
        y = self.out(joined(F.scaled_dot_product_attention(q, k, v)))
        return x + y.transpose(1, 2).reshape(x.shape)


# --- others ---
class Dlrm(nn.Module):
    """26 tables, bags of 4, all products of pairs."""

    def __init__(self, rows=10000, width=64, tables=26):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.ModuleList(nn.Linear(a, b) for a, b in ((13, 512), (512, 256), (256, width)))
        pairs = (tables + 1) * tables // 2
        self.top = nn.ModuleList(nn.Linear(a, b) for a, b in ((pairs + width, 512), (512, 256), (256, 1)))
        for name, place in zip(("one", "other"), numpy.tril_indices(tables + 1, -1)):
            self.register_buffer(name, torch.from_numpy(place.copy()))

    def forward(self, dense, ids):
        """ids: [tables, batch, 4]."""
        for layer in self.bottom:
            dense = F.relu(layer(dense))
        every = torch.stack([dense] + [table(i) for table, i in zip(self.tables, ids.unbind(0))], 1)
        z = torch.cat([dense, torch.bmm(every, every.transpose(1, 2))[:, self.one, self.other]], 1)
        for layer in self.top[:-1]:
            z = F.relu(layer(z))
        return torch.sigmoid(self.top[-1](z))


class Sampler(nn.Module):
    """A token of each row: the k likeliest, of these the likeliest that make p together, then by noise."""

    def __init__(self, k=50, p=0.9, temperature=0.8):
        super().__init__()
        self.k, self.p, self.temperature = k, p, temperature

    def forward(self, logits, noise):
        """noise: of an exponential distribution, [rows, k]; k of 0: all are sorted."""
        x = logits / self.temperature
        x, places = torch.topk(x, self.k, -1) if self.k else torch.sort(x, -1, descending=True)
        likely = torch.softmax(x, -1)
        likely = torch.where(torch.cumsum(likely, -1) - likely < self.p, likely, 0.0)
        chosen = torch.argmax(likely / noise, -1, keepdim=True)
        return places.gather(-1, chosen)


class AdamW(nn.Module):
    """A step of many tensors."""

    def __init__(self, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8, decay=0.01):
        super().__init__()
        self.lr, self.b1, self.b2, self.eps, self.decay = lr, b1, b2, eps, decay

    def forward(self, step, weights, gradients, firsts, seconds):
        rate = self.lr / (1 - torch.pow(self.b1, step))
        scale = torch.sqrt(1 - torch.pow(self.b2, step))
        out = ([], [], [])
        for tensors in zip(weights, gradients, firsts, seconds):
            w, g, m, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors)  # one rounding, as the fused one has it
            m = self.b1 * m + (1 - self.b1) * g
            v = self.b2 * v + (1 - self.b2) * g * g
            w = w * (1 - self.lr * self.decay) - rate * m / (v.sqrt() / scale + self.eps)
            for part, value in zip(out, (w, m, v)):
                part.append(value.to(tensors[0].dtype))
        return tuple(out[0] + out[1] + out[2])


def minilm_shapes():
    """Of 200 tensors: twelve layers 384 wide of 16 tensors each, embeddings and what stands around."""
    layer = [(384, 384), (384,)] * 4 + [(1536, 384), (1536,), (384, 1536), (384,)] + [(384,)] * 4
    return layer * 12 + [(4096, 384), (512, 384), (2, 384), (384,), (384,), (384, 384), (384,), (384,)]


class Loss(nn.Module):
    """A model and its loss: a scalar of f32."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *inputs):
        *given, target = inputs
        y = self.model(*given)
        return self.loss(y, target)


def squared(y, target):
    return F.mse_loss(y.float() if y.dtype == torch.bfloat16 else y, target)


def entropy(y, target):
    return F.cross_entropy(y.float() if y.dtype == torch.bfloat16 else y, target)


def turns(places, width):
    """cos and sin of rotary places."""
    angle = numpy.outer(numpy.arange(places), 5e5 ** (-numpy.arange(0, width, 2) / width))
    angle = numpy.concatenate([angle, angle], 1)
    return numpy.cos(angle), numpy.sin(angle)


