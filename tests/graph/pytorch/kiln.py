"""What the scripts here share: the program graph_reference, and tensors of PyTorch as its bytes."""
import json
import math
import subprocess

import torch

import extents

TYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "i1",
         torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
         torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64"}
TORCH = {name: t for t, name in TYPES.items()}
# What a result may differ by, relative and absolute: sums of a few dozen elements of about 1.
ALLOWED = {"f32": (2e-5, 2e-5), "f64": (1e-12, 1e-12), "f16": (4e-3, 4e-3), "bf16": (3e-2, 3e-2)}


def to_bytes(x):
    x = x.detach().contiguous()
    return x.reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""


def from_bytes(data, dtype, shape):
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


class Failure(Exception):
    """What the program says is wrong."""


class Reference:
    """graph_reference: a process that graphs are sent to."""

    def __init__(self, program):
        self.program = program
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request, data=b""):
        self.process.stdin.write(json.dumps({**request, "bytes": len(data)}).encode() + b"\n" + data)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"graph_reference ended on\n{request.get('graph')}\n{request.get('passes')}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def evaluate(self, graph, inputs, passes=(), sizes=None):
        """Outputs by name, of inputs by name; and what recognise found. `graph` is the text of one, or the JSON of a program."""
        given = [{"name": name, "shape": list(x.shape)} for name, x in inputs.items()]
        request = {"program" if isinstance(graph, dict) else "graph": graph, "passes": list(passes), "inputs": given, "sizes": sizes or {}}
        answer = self.ask(request, b"".join(to_bytes(x) for x in inputs.values()))
        out = {}
        for each in answer["outputs"]:
            dtype = TORCH[each["type"]]
            size = math.prod(each["shape"]) * dtype.itemsize
            out[each["name"]] = from_bytes(self.process.stdout.read(size), dtype, each["shape"])
        self.inputs = answer.get("inputs") or []  # of the graph
        return out, answer["found"]

    def passed(self, graph, passes=()):
        """The graph's text after passes, and the types of its outputs."""
        return self.ask({"program" if isinstance(graph, dict) else "graph": graph, "passes": list(passes)})


def type_text(x):
    return f"{TYPES[x.dtype]}[{', '.join(map(str, x.shape))}]"


def attr_text(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(attr_text(v) for v in value) + "]"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ("-inf" if value < 0 else "inf" if value > 0 else "nan")
    return extents.text(value) if extents.is_extent(value) else str(value)


def difference(got, expected, exact=False, times=1):
    """In units of what is allowed; infinite where shapes, NaN or infinities differ."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return math.inf
    a, b = got.detach().double(), expected.detach().double()
    if exact or not expected.dtype.is_floating_point:
        same = (a == b) | (a.isnan() & b.isnan())
        if not got.dtype.is_floating_point:
            same = got == expected
        return 0.0 if bool(same.all()) else math.inf
    relative, absolute = ALLOWED[TYPES[expected.dtype]]
    apart = (a - b).abs() / (absolute + relative * b.abs()) / times
    apart = torch.where((a == b) | (a.isnan() & b.isnan()), torch.zeros_like(apart), apart)
    return float(torch.nan_to_num(apart, nan=math.inf).max()) if apart.numel() else 0.0
