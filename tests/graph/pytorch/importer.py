"""Calls of ATen operators as graphs, by the expressions of dsl/graph/src/aten/aten_ops.def and what their notes say.

An expression is read as the table says: operands promote and broadcast as in the C++ functions, values of attributes are words,
which a call gives a meaning to: names of arguments, "shape of self", and those that HANDLERS names, a function for each
overload (or several) whose note leaves something open.
"""
import math
import re

import torch

import extents
from extents import is_extent
from kiln import TORCH, TYPES, attr_text

FLOATS = ["bf16", "f16", "f32", "f64"]
WIDTH = {"i1": 1, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64, "f16": 16, "bf16": 16,
         "f32": 32, "f64": 64}
MATH = set("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc sqrt rsqrt pow hypot copysign "
           "floor ceil round trunc signbit isnan isinf".split())
COMPOSITE = set("relu leaky_relu elu clamp sigmoid silu gelu softplus mish hard_sigmoid hard_swish".split())
PLAIN = set("add sub mul div rem mulhi min max neg abs sign and or xor not shl shr cmp fma stop_gradient".split())
OPTIONAL = {"layer_norm": 3, "rms_norm": 2, "group_norm": 3, "batch_norm": 5, "batch_norm_training": 5, "linear": 3, "attention": 4,
            "embedding_bag": 4}


class Value:
    def __init__(self, name, element, shape):
        self.name, self.element, self.shape = name, element, list(shape)

    @property
    def rank(self):
        return len(self.shape)

    @property
    def is_float(self):
        return self.element in FLOATS


def is_number(x):
    return isinstance(x, (int, float, bool)) or is_extent(x)


def listed(x, count):
    """A list of so many: PyTorch's single numbers and lists of one repeat."""
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    return x * count if len(x) == 1 else x


class Builder:
    """A graph under construction: its text, and the types of its values, which the program says."""

    def __init__(self, reference, name="test"):
        self.reference, self.name = reference, name
        self.inputs, self.lines, self.outputs, self.bodies, self.known = [], [], [], [], {}
        self.dims = {}  # by name, least and greatest

    def input(self, name, element, shape):
        value = Value(f"%{name}", element, shape)
        self.inputs.append(f"%{name}: {element}{attr_text(value.shape)}")
        return value

    def output(self, name, value):
        self.outputs.append(f"  output {name} = {value.name}\n")

    def dims_text(self):
        return "".join(f"dim {name}: {low}..{high}\n" for name, (low, high) in self.dims.items())

    def text(self):
        return self.dims_text() + "".join(self.bodies) + f"graph {self.name}({', '.join(self.inputs)}) {{\n{''.join(self.lines)}{''.join(self.outputs)}}}\n"

    def emit(self, op, operands, attrs=(), results=1):
        uses = ", ".join("_" if x is None else x.name for x in operands)
        written = ", ".join(f"{k} = {attr_text(v)}" for k, v in dict(attrs).items())
        node = f"{op} {uses} {{{written}}}" if written else f"{op} {uses}"
        if node in self.known:
            return self.known[node]
        names = [f"%v{len(self.lines)}_{i}" for i in range(results)]
        line = f"  {', '.join(names)} = {node}\n"
        # Of a graph of this node alone: asked about the whole one, a large model would take the square of its length.
        given = {x.name: f"{x.name}: {x.element}{attr_text(x.shape)}" for x in operands if x is not None}
        outputs = "".join(f"  output o{i} = {name}\n" for i, name in enumerate(names))
        alone = self.dims_text() + "".join(self.bodies) + f"graph {self.name}({', '.join(given.values())}) {{\n{line}{outputs}}}\n"
        types = self.reference.passed(alone)["outputs"]
        self.lines.append(line)
        out = [Value(name, t["type"], [extents.read(e) if isinstance(e, str) else e for e in t["shape"]]) for name, t in zip(names, types)]
        self.known[node] = out if results > 1 else out[0]
        return self.known[node]

    @staticmethod
    def type_name(dtype):
        return TYPES[dtype] if isinstance(dtype, torch.dtype) else dtype

    # --- what C++ functions add ---
    def full(self, element, shape, number):
        if is_extent(number):
            return self.broadcast(self.emit("extent", [], {"type": element, "value": number}), shape)
        number = float(number) if element in FLOATS else int(number)
        return self.emit("full", [], {"type": element, "shape": list(shape), "value": number})

    def cast(self, x, element):
        return x if x.element == element else self.emit("cast", [x], {"to": element})

    def broadcast(self, x, shape):
        return x if x.shape == list(shape) else self.emit("broadcast", [x], {"shape": list(shape)})

    def reshape(self, x, shape):
        return x if x.shape == list(shape) else self.emit("reshape", [x], {"shape": list(shape)})

    def permute(self, x, order):
        return x if list(order) == list(range(x.rank)) else self.emit("permute", [x], {"order": list(order)})

    def slice(self, x, axis, start, end, step=1):
        bounds = [(start, end, step) if i == axis else (0, e, 1) for i, e in enumerate(x.shape)]
        start, end, step = ([b[i] for b in bounds] for i in range(3))
        return self.emit("slice", [x], {"start": start, "end": end, "step": step})

    def common(self, operands):
        tensors = {x.element for x in operands if isinstance(x, Value)}
        floats = {t for t in tensors if t in FLOATS}
        fraction = any(isinstance(x, float) for x in operands)
        if not tensors:
            return "f32" if fraction else "i64"
        if fraction and not floats:
            return "f32"
        counted = floats or tensors
        widest = max(WIDTH[t] for t in counted)
        counted = {t for t in counted if WIDTH[t] == widest}
        if len(counted) == 1:
            return counted.pop()
        if floats:
            return "f32"
        raise ValueError(f"{sorted(counted)} do not promote")

    def promoted(self, operands, element=None):
        element = element or self.common(operands)
        shape = extents.broadcast(*[x.shape for x in operands if isinstance(x, Value)])
        return [self.full(element, shape, x) if is_number(x) else self.broadcast(self.cast(x, element), shape) for x in operands]

    def loses(self, operands):
        """Whether a number of an arithmetic op is none of the narrow float type that the tensors have: 0.999 in bf16 is 1."""
        element = self.common(operands)
        if element not in ("bf16", "f16"):
            return False
        return any(is_number(x) and float(torch.tensor(x, dtype=TORCH[element])) != float(torch.tensor(x, dtype=torch.float32)) for x in operands)

    def call(self, op, operands, attrs=(), results=1):
        """A node as the C++ function of its name makes it."""
        if op in MATH or op in COMPOSITE:
            element = self.common(operands)
            return self.emit(op, self.promoted(operands, element if element in FLOATS else "f32"), attrs, results)
        if op in ("add", "sub", "mul", "div") and self.loses(operands):  # PyTorch computes these in f32, and rounds the result
            return self.cast(self.emit(op, self.promoted(operands, "f32"), attrs), self.common(operands))
        if op in PLAIN:
            return self.emit(op, self.promoted(operands), attrs, results)
        if op == "select":
            condition, *choices = operands
            element = self.common(choices)
            shape = extents.broadcast(*[x.shape for x in operands if isinstance(x, Value)])
            choices = [self.full(element, shape, x) if is_number(x) else self.broadcast(self.cast(x, element), shape) for x in choices]
            return self.emit(op, [self.broadcast(condition, shape)] + choices)
        if op in ("cat", "dot"):
            element = self.common(operands)
            return self.emit(op, [self.cast(x, element) for x in operands], attrs, results)
        if op == "scatter" and is_number(operands[2]):
            operands = [operands[0], operands[1], self.full(operands[0].element, operands[1].shape, operands[2])]
        if op == "full":
            return self.full(attrs["type"], attrs["shape"], attrs["value"])
        if op == "pad" and is_number(operands[1]):
            operands = [operands[0], self.full(operands[0].element, [], operands[1])]
        if op == "index_put":
            x, values, *indices = operands
            part = indices[0].shape + [e for i, e in enumerate(x.shape) if i not in attrs["axes"]]
            values = self.full(x.element, part, values) if is_number(values) else self.broadcast(self.cast(values, x.element), part)
            operands = [x, values] + indices
        if op in OPTIONAL:
            operands = list(operands) + [None] * (OPTIONAL[op] - len(operands))
        return self.emit(op, operands, attrs, results)


RESULTS = {"sort": 2, "topk": 2, "batch_norm_training": 3}


class Expression:
    """Reads an expression of the table and makes its nodes."""

    def __init__(self, builder, row, env, words):
        self.builder, self.row, self.env, self.words = builder, row, dict(env), words
        self.text, self.at = words.get("expression", row["expression"]), 0

    @staticmethod
    def of(builder, env, changed, words=None):
        """The expression of the same overload with other arguments; without words, by its handler again."""
        if words is None:
            return convert(builder, {env["name"]: env["row"]}, env["name"][6:], changed)
        return Expression(builder, env["row"], changed, words).run()

    def run(self):
        while True:
            defined = re.compile(r" *(\w+(?: *, *\w+)*) *= *").match(self.text, self.at)
            if not defined:
                break
            self.at = defined.end()
            value = self.expression()
            names = [n.strip() for n in defined[1].split(",")]
            self.env.update(zip(names, value if len(names) > 1 else [value]))
            self.take(";")
        out = [self.expression()]
        while self.take(",", True):
            out.append(self.expression())
        assert self.at == len(self.text), self.text[self.at:]
        return [y for x in out for y in (x if isinstance(x, list) else [x])]

    def take(self, c, perhaps=False):
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] == c:
            self.at += 1
            return True
        assert perhaps, f"no {c} at {self.text[self.at:]}"
        return False

    def expression(self):
        number = re.compile(r" *(-?\d[\d.]*(?:e-?\d+)?)").match(self.text, self.at)
        if number:
            self.at = number.end()
            return float(number[1]) if re.search(r"[.e]", number[1]) else int(number[1])
        name = re.compile(r" *(\w+)").match(self.text, self.at)
        self.at = name.end()
        if self.at == len(self.text) or self.text[self.at] not in "({":
            return self.words.get("=" + name[1], self.env[name[1]])
        op, attrs = name[1], {}
        if self.take("{", True):
            while True:
                attr = re.compile(r" *(\w+)=").match(self.text, self.at)
                self.at, start, depth = attr.end(), attr.end(), 0
                while depth > 0 or self.text[self.at] not in ",}":
                    depth += {"[": 1, "]": -1}.get(self.text[self.at], 0)
                    self.at += 1
                attrs[attr[1]] = self.text[start:self.at]
                if not self.take(",", True):
                    break
            self.take("}")
        self.take("(")
        operands = []
        while not self.take(")", True):
            operands.append(self.expression())
            self.take(",", True)
        return self.node(op, operands, attrs)

    def node(self, op, operands, attrs):
        if all(is_number(x) for x in operands) and op in ("add", "sub", "mul", "div"):
            a, b = operands
            return {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b if b else math.inf}[op]
        # Lists are the operands of an op that takes any number; several at once are one for each.
        if op in ("reshape",) and isinstance(operands[0], list):
            return [self.node(op, [x], attrs) for x in operands[0]]
        flat = [y for x in operands for y in (x if isinstance(x, list) else [x])]
        values = {key: self.meaning(op, key, word, flat) for key, word in attrs.items()}
        if op == "slice" and "parts" in self.words and not is_number(values["start"][0]):
            return [self.node(op, operands, {**attrs, "start": s, "end": e}) for s, e in zip(values["start"], values["end"])]
        if op == "conv" and "groups" not in values:
            values["groups"] = 1
        if op == "dot":
            values = {"batch_a": [], "batch_b": [], "contract_a": [], "contract_b": [], **values}
        return self.builder.call(op, flat, values, RESULTS.get(op, 1))

    def meaning(self, op, key, word, operands):
        """The value of an attribute."""
        x = operands[0] if operands else None
        if isinstance(word, str):
            for name in (f"{op}.{key}", word):
                if name in self.words:
                    return self.settled(op, key, self.words[name], x)
            of = re.fullmatch(r"(shape|type|extents) of (\w+)", word)
            if of:
                value = self.env[of[2]]
                return value.element if of[1] == "type" else value.shape if of[1] == "shape" else value.shape[2:]
            if word in self.env:
                return self.settled(op, key, self.env[word], x)
            if word == "dim":  # an argument that the overload does not have
                return self.settled(op, key, None, x)
            if word == "keepdim":
                return False
            if re.fullmatch(r"-?\d+", word):
                return self.settled(op, key, int(word), x)
            if word.startswith("["):
                inner = [w.strip() for w in word[1:-1].split(",") if w.strip()]
                return self.settled(op, key, [int(w) if re.fullmatch(r"-?\d+", w) else self.env.get(w, self.words.get(w)) for w in inner], x)
        return self.settled(op, key, word, x)

    def settled(self, op, key, value, x):
        """In the form that the attribute has: axes from 0 on, one number for each axis, names of types."""
        rank = x.rank if isinstance(x, Value) else 0
        if key in ("axes", "axis", "order") and op not in ("layer_norm", "rms_norm"):
            if value == "all" or value is None or value == []:
                return list(range(rank))
            if value == "all but 1":
                return [i for i in range(rank) if i != 1]
            if key == "axis":
                value = value[0] if isinstance(value, list) else value
                return value + rank if value < 0 else value
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            return [v + rank if v < 0 else v for v in values]
        if key in ("contract_a", "contract_b", "batch_a", "batch_b"):
            return value
        if key in ("type", "to"):
            if value is None:
                value = self.words.get("default dtype", "f32")
            return TYPES[value] if isinstance(value, torch.dtype) else value
        if key in ("strides", "low", "high", "dilation", "size") and op not in ("pad", "slice", "clamp"):
            count = rank - 2 if op in ("conv", "conv_bias", "conv_input", "conv_weight", "avg_pool", "max_pool") else rank
            value = listed(value, count)
            if op in ("window", "window_spread", "window_pick") and len(value) < rank:
                value = [0 if key in ("low", "high") else 1] * (rank - len(value)) + value
            return value
        if key == "inner" and op == "pad":
            return listed(value, rank)
        if key == "shape" and op in ("reshape", "broadcast") and value is not None and -1 in value:
            if op == "broadcast":
                missing = len(value) - rank
                return [x.shape[i - missing] if v == -1 else v for i, v in enumerate(value)]
            rest = math.prod(v for v in value if v != -1)
            return [extents.quotient(math.prod(x.shape), rest) if v == -1 else v for v in value]
        if key == "shape" and is_number(value):
            return [value]
        if op == "slice" and is_number(value):  # along the first axis
            return [value] + {"start": [0] * (rank - 1), "end": x.shape[1:], "step": [1] * (rank - 1)}[key]
        if key in ("slope", "alpha", "low", "high", "eps", "momentum", "scale", "smoothing", "p"):
            if value is None:
                return {"low": -math.inf, "high": math.inf, "scale": 0.0}[key]
            return float(value) if is_number(value) else value
        if key == "reduction" and is_number(value):
            return ["none", "mean", "sum"][value]
        if key == "mode" and is_number(value):
            return ["sum", "mean", "max"][value]
        return value


def same_category(b, env):
    """What PyTorch promotes otherwise: a tensor without axes beside one with axes takes its type, as a number does; i8 beside u8
    are i16, i1 beside a number i64 or f32."""
    key = "exponent" if "exponent" in env else "other"
    x, y = env.get("self"), env.get(key)
    if isinstance(x, Value) and x.element == "i1" and is_number(y) and not isinstance(y, bool):
        env["self"] = b.cast(x, "f32" if isinstance(y, float) else "i64")
    if not isinstance(x, Value) or not isinstance(y, Value) or x.is_float != y.is_float:
        return
    if (x.rank == 0) != (y.rank == 0):
        env["self"], env[key] = (b.cast(x, y.element), y) if x.rank == 0 else (x, b.cast(y, x.element))
    elif {x.element, y.element} == {"i8", "u8"}:
        env["self"], env[key] = b.cast(x, "i16"), b.cast(y, "i16")


HANDLERS = {}


def handles(*names):
    def register(function):
        for name in names:
            HANDLERS["aten::" + name] = function
        return function
    return register


def convert(builder, rows, name, arguments):
    """The values that a call gives: `arguments` by name, tensors as Values. A list, one for each result of the expression."""
    row = rows["aten::" + name]
    env = {**arguments, "name": row["name"], "row": row}
    words = {}
    same_category(builder, env)
    if row["name"] in HANDLERS:
        words = HANDLERS[row["name"]](builder, env) or {}
        if isinstance(words, list):
            return words
    if row["expression"] in env:  # the value itself
        return [env[row["expression"]]]
    return Expression(builder, row, env, words).run()
