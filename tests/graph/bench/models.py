"""The models of the benchmark of compiled graphs: modules with inputs of fixed sizes, all values by NumPy from a seed.

case(NAME, dtype) gives the same numbers under every version of PyTorch: weights are not stored, but made again.
"""
import dataclasses
import math
import zlib

import numpy
import torch

from layers import (AdamW, Bert, BertLayer, Bottleneck, Dlrm, GptBlock, LlamaBlock, Loss, MobileNetV3, Mlp, ResNet50, Sampler, UnetBlock, Vit,
                    entropy, minilm_shapes, squared, turns)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclasses.dataclass
class Case:
    name: str
    dtype: str
    module: torch.nn.Module
    inputs: tuple  # of tensors, or lists of them
    trains: bool = False  # the module's result is a loss; its gradients by all parameters are results too
    channels_last: bool = False  # the layout that PyTorch is given: its convolutions are fastest so
    optimizer: bool = False  # PyTorch's own optimiser is what stands beside
    dtypes: tuple = ("f32", "bf16")  # that it is for

    def flat(self):
        """The inputs, lists opened."""
        return [y for x in self.inputs for y in (x if isinstance(x, list) else [x])]


class Values:
    """Random tensors; the order of calls says which."""

    def __init__(self, name):
        self.random = numpy.random.Generator(numpy.random.PCG64(zlib.crc32(name.encode())))

    def normal(self, *shape, scale=1.0, mean=0.0):
        return torch.from_numpy(self.random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(scale) + numpy.float32(mean))

    def ints(self, high, *shape):
        return torch.from_numpy(self.random.integers(0, high, shape, dtype=numpy.int64))

    def positive(self, *shape):
        return torch.from_numpy(self.random.exponential(size=shape).astype(numpy.float32) + numpy.float32(1e-3))


def fill(module, values):
    """Weights that keep a network's values near 1: by fan-in, norms near 1, statistics that are variances."""
    with torch.no_grad():
        for name, x in module.named_parameters():
            fan = math.prod(x.shape[1:])
            scale, mean = (1 / math.sqrt(fan), 0.0) if x.ndim > 1 else (0.1, 1.0) if name.endswith("norm.weight") else (0.02, 0.0)
            if x.ndim == 1 and name.endswith("weight"):
                scale, mean = 0.1, 1.0
            x.copy_(values.normal(*x.shape, scale=scale, mean=mean))
        for name, x in module.named_buffers():
            if name.endswith("running_mean"):
                x.copy_(values.normal(*x.shape, scale=0.1))
            elif name.endswith("running_var"):
                x.copy_(values.positive(*x.shape) * 0.1 + 1.0)


def mask(values, batch, places):
    """Sequences of different lengths."""
    lengths = values.ints(places // 2, batch, 1) + places // 2 + 1
    return (torch.arange(places)[None, :] < lengths).to(torch.int64)


def rotary():
    cos, sin = (torch.from_numpy(x.astype(numpy.float32)) for x in turns(512, 64))
    return cos, sin


def adamw(v):
    shapes = minilm_shapes()
    return (torch.tensor(3.0), *([make(*shape) for shape in shapes] for make in (
        v.normal, v.normal, lambda *s: v.normal(*s, scale=0.1), lambda *s: v.positive(*s))))


# name: (module, inputs of the values, more of Case). Samplers are of f32 alone: logits of bf16 are equal too often.
MODELS = {
    "mlp": (Mlp, lambda v: (v.normal(8192, 784),), {}),
    "bert_layer": (BertLayer, lambda v: (v.normal(8, 128, 768), mask(v, 8, 128)), {}),
    "bert_base": (Bert, lambda v: (v.ints(30522, 8, 128), v.ints(2, 8, 128), mask(v, 8, 128)), {}),
    "gpt2_prefill": (GptBlock, lambda v: (v.normal(1, 512, 768),), {}),
    "gpt2_decode": (GptBlock, lambda v: (v.normal(1, 1, 768), v.normal(1, 12, 512, 64), v.normal(1, 12, 512, 64)), {}),
    "llama_block": (LlamaBlock, lambda v: (v.normal(1, 512, 2048), *rotary()), {}),
    "vit_b16": (Vit, lambda v: (v.normal(8, 3, 224, 224),), {"channels_last": True}),
    "resnet50": (ResNet50, lambda v: (v.normal(8, 3, 224, 224),), {"channels_last": True}),
    "mobilenet_v3": (MobileNetV3, lambda v: (v.normal(8, 3, 224, 224),), {"channels_last": True}),
    "dlrm": (Dlrm, lambda v: (v.normal(2048, 13), v.ints(10000, 26, 2048, 4)), {}),
    "unet_block": (UnetBlock, lambda v: (v.normal(2, 320, 32, 32), v.normal(2, 1280)), {"channels_last": True}),
    "adamw": (AdamW, adamw, {"optimizer": True}),
    "sampler_top_k": (Sampler, lambda v: (v.normal(8, 50257, scale=3.0), v.positive(8, 50)), {"dtypes": ("f32",)}),
    "sampler_top_p": (lambda: Sampler(k=0), lambda v: (v.normal(8, 50257, scale=3.0), v.positive(8, 50257)), {"dtypes": ("f32",)}),
    "mlp_train": (lambda: Loss(Mlp(), entropy), lambda v: (v.normal(8192, 784), v.ints(10, 8192)), {"trains": True}),
    "bert_layer_train": (lambda: Loss(BertLayer(), squared), lambda v: (v.normal(8, 128, 768), mask(v, 8, 128), v.normal(8, 128, 768)), {"trains": True}),
    "resnet_block_train": (lambda: Loss(Bottleneck(256, 64, track=False), squared),
                           lambda v: (v.normal(8, 256, 56, 56), v.normal(8, 256, 56, 56)), {"trains": True, "channels_last": True}),
}
# Inputs that stay of f32: targets of a loss in f32, the number of a step.
WIDE = {("bert_layer_train", 2), ("resnet_block_train", 1), ("adamw", 0)}


def to(x, dtype):
    if isinstance(x, list):
        return [to(y, dtype) for y in x]
    return x.to(dtype) if x.is_floating_point() else x


def dtypes(name):
    return MODELS[name][2].get("dtypes", tuple(DTYPES))


def case(name, dtype):
    make, inputs, more = MODELS[name]
    module, values = make(), Values(name)
    fill(module, values)
    given = tuple(x if (name, i) in WIDE else to(x, DTYPES[dtype]) for i, x in enumerate(inputs(values)))
    module = module.to(DTYPES[dtype])
    return Case(name, dtype, module.train() if more.get("trains") else module.eval(), given, **more)


def results(case, module=None, inputs=None):
    """What the module gives, and for training its gradients too: a list."""
    module, inputs = module or case.module, case.inputs if inputs is None else inputs
    y = module(*inputs)
    y = list(y) if isinstance(y, (tuple, list)) else [y]
    if case.trains:
        y += list(torch.autograd.grad(y[0], list(module.parameters())))
    return y
