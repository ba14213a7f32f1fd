#!/usr/bin/env python3
"""opinfo.py [--most N] [--overloads FILE] [--record FILE] PROGRAM [OP…]: PyTorch's own samples of its operators as programs of ATen calls.

Each sample of op_db runs on a CPU, in f32, bf16, i64 and bool where the op has them. The ATen calls that it makes are recorded with
their arguments: a program, whose graph is evaluated, and compared by torch.testing's rule. There are three ways: the calls that a
backend gets, those that are written (torch.export's without decompositions), and those of an f32 sample and its gradients. Prints what
differs, and how many samples were equal, refused with which reason, or left out for what graphs do not have (complex numbers,
sparse tensors). --record writes the counts as a results file of docs/measured. PyTorch's samples need the package expecttest.
"""
import argparse
import collections
import contextlib
import datetime
import json
import re
import sys
import warnings

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

from kiln import TYPES, Failure, Reference
from program import Program, arguments_of, overload_name

WAYS = ["backend", "written", "gradients"]
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]
# Whose places of equal elements are in any order.
ORDERS = {"sort", "topk", "kthvalue", "argsort", "median"}
# Whose extents are data, or that read memory by strides.
UNSOUND = {"bincount"}
# What is there before it is written.
UNWRITTEN = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


class Unfit(Exception):
    """No program of tensors as graphs have them."""


class Recorder(TorchDispatchMode):
    """The calls of what runs, as a program."""

    def __init__(self, key=None):
        TorchDispatchMode.__init__(self, key)
        self.program, self.names, self.alive, self.targets, self.fresh = Program(), {}, [], set(), 0

    def name_of(self, x):
        if not isinstance(x, torch.Tensor):
            return None
        if id(x) not in self.names:
            if x.dtype not in TYPES or x.layout != torch.strided:
                raise Unfit(str(x.dtype) if x.layout == torch.strided else str(x.layout))
            self.names[id(x)] = self.program.given(f"x{len(self.program.inputs)}", x.detach().clone())
            self.alive.append(x)
        return self.names[id(x)]

    def result(self, y):
        if not isinstance(y, torch.Tensor):
            return ""
        if id(y) not in self.names:
            self.names[id(y)] = f"v{self.fresh}"
            self.fresh += 1
            self.alive.append(y)
        return self.names[id(y)]

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function._schema.name.split("::")[1] in UNSOUND:
            raise Unfit("extents that are data")
        if function._schema.name.startswith("aten::as_strided") and args[0].untyped_storage().nbytes() != args[0].numel() * args[0].itemsize:
            raise Unfit("strides")
        arguments = arguments_of(function, args, kwargs or {}, self.name_of)
        out = function(*args, **(kwargs or {}))
        results = [self.result(y) for y in (out if isinstance(out, (tuple, list)) else [out])]
        self.program.call(overload_name(function), arguments, results)
        self.targets.add(overload_name(function))
        return out


class WrittenRecorder(Recorder, SchemaCheckMode):
    """The same before anything is decomposed. PyTorch takes modes of its own kinds alone there."""

    def __init__(self):
        Recorder.__init__(self, torch._C.DispatchKey.PreDispatch)


def flattened(y):
    if isinstance(y, torch.Tensor):
        return [y]
    return [z for x in y for z in flattened(x)] if isinstance(y, (tuple, list)) else []


def gradients(out, sample):
    """Of all inputs that have one."""
    results = [y for y in flattened(out) if y.requires_grad]
    points = [x for x in flattened([sample.input, list(sample.args), list(sample.kwargs.values())]) if x.requires_grad]
    if not results or not points:
        raise Unfit("no gradients")
    weights = [torch.linspace(-1, 1, y.numel()).reshape(y.shape) for y in results]
    return [g for g in torch.autograd.grad(results, points, weights, allow_unused=True) if g is not None]


def recorded(op, sample, way):
    """The program of a sample, and what PyTorch gives."""
    recorder = WrittenRecorder() if way == "written" else Recorder()
    with contextlib.ExitStack() as stack:
        if way == "written":
            stack.enter_context(enable_python_dispatcher())
        stack.enter_context(recorder)
        out = op(sample.input, *sample.args, **sample.kwargs)
        if way == "gradients":
            out = gradients(out, sample)
    wanted = flattened(out)
    if not wanted or any(y.dtype not in TYPES or y.layout != torch.strided for y in wanted):
        raise Unfit("no tensors" if not wanted else str(wanted[0].dtype))
    for i, y in enumerate(wanted):
        if id(y) not in recorder.names:
            recorder.name_of(y)
        recorder.program.output(f"y{i}", recorder.names[id(y)])
    return recorder, wanted


def reason(message):
    """Without what belongs to one sample."""
    line = message.splitlines()[0]
    line = re.sub(r", call \d+", "", line)
    line = re.sub(r" \(\d+ calls?\)", "", line)
    return re.sub(r"\d+", "N", line)[:160]


def widened(x):
    wider = {torch.bfloat16: torch.float32, torch.float32: torch.float64}
    if isinstance(x, torch.Tensor) and x.dtype in wider:
        return x.detach().to(wider[x.dtype]).requires_grad_(x.requires_grad)
    return wider.get(x, x) if isinstance(x, torch.dtype) else x


def nearer(op, sample, way, number, x, y):
    """Whether x is as near as PyTorch's y to what it computes of the same numbers in a wider type."""
    try:
        exact = recorded(op, sample.transform(widened), way)[1][number].detach().double()
    except Exception:  # whatever has no wider type
        return False
    return bool((x.double() - exact).abs().max() <= (y.double() - exact).abs().max() * 1.01)


def compare(reference, op, sample, way, recorder, wanted):
    """"equal", or what differs: by torch.testing's tolerances, where the absolute one is of the greatest element; what
    is nearer than PyTorch to the same in a wider type is well too."""
    program = recorder.program
    got, _ = reference.evaluate(program.json(), program.tensors)
    random = "seed" in reference.inputs
    for i, y in enumerate(wanted):
        x = got[f"y{i}"]
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"{TYPES[x.dtype]}{list(x.shape)} instead of {TYPES[y.dtype]}{list(y.shape)}"
        called = {t.split(".")[1] for t in recorder.targets}
        if random or UNWRITTEN & called or (ORDERS & called and (i > 0 or "argsort" in called or len(wanted) == 1) and y.dtype == torch.int64):
            continue
        bounds = {}
        if y.dtype.is_floating_point and y.numel():
            rtol, atol = torch.testing._comparison.default_tolerances(y)
            greatest = float(torch.nan_to_num(y.double(), posinf=0, neginf=0).abs().max())
            bounds = {"rtol": rtol, "atol": (rtol if y.dtype.itemsize < 4 else atol) * max(1.0, greatest)}
        try:
            torch.testing.assert_close(x, y.detach(), equal_nan=True, **bounds)
        except AssertionError as error:
            if y.dtype.is_floating_point and nearer(op, sample, way, i, x, y.detach()):
                continue
            return str(error).splitlines()[0] + " " + " ".join(str(error).splitlines()[2:5])
    return "equal"


class Counts:
    def __init__(self):
        self.samples = collections.Counter()
        self.targets = collections.defaultdict(collections.Counter)
        self.refused = collections.Counter()
        self.differing = []


    def rows(self):
        """By way and element type."""
        for way, dtype in sorted({key[1:] for key in self.samples}, key=lambda key: (WAYS.index(key[0]), DTYPES.index(key[1]))):
            of = {kind: self.samples[kind, way, dtype] for kind in ("equal", "differs", "unknown", "refused", "left out")}
            yield {"calls": way, "dtype": TYPES[dtype], "samples": sum(of.values()), "equal": of["equal"], "differs": of["differs"], "unknown": of["unknown"],
                   "refused": of["refused"], "left_out": of["left out"]}


COLUMNS = [["calls", "calls", "text"], ["dtype", "type", "text"], ["samples", "samples", "number"], ["equal", "equal", "number"], ["differs", "differ", "number"],
           ["unknown", "an overload that has no graph", "number"], ["refused", "arguments that are refused", "number"],
           ["left_out", "left out", "number"]]


def record(path, counts, most):
    head = {"title": "PyTorch's samples of its operators as graphs", "machine": "the evaluator, on a CPU", "date": str(datetime.date.today()),
            "command": [f"tests/graph/pytorch/opinfo.py --most {most} graph_reference"], "versions": f"PyTorch {torch.__version__.split('+')[0]}",
            "columns": COLUMNS}
    with open(path, "w") as file:
        for line in (head, *counts.rows()):
            file.write(json.dumps(line) + "\n")


def run_sample(reference, op, sample, way, dtype, counts):
    try:
        recorder, wanted = recorded(op, sample, way)
    except Unfit as unfit:
        counts.samples["left out", way, dtype] += 1
        return "left out", str(unfit), None
    except Exception as error:  # whatever a sample raises
        counts.samples["left out", way, dtype] += 1
        return "left out", f"PyTorch: {str(error).splitlines()[0][:100] if str(error) else type(error).__name__}", None
    try:
        what = compare(reference, op, sample, way, recorder, wanted)
        kind = "equal" if what == "equal" else "differs"
    except Failure as failure:
        kind, what = "unknown" if "there is no graph of it" in str(failure) else "refused", reason(str(failure))
        counts.refused[what] += 1
    except (RuntimeError, BrokenPipeError, TypeError) as error:
        kind, what = "differs", f"broke: {type(error).__name__} {error}"
        reference.start()
    counts.samples[kind, way, dtype] += 1
    for target in recorder.targets:
        counts.targets[target][kind] += 1
    return kind, what, recorder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--most", type=int, default=40, help="samples of an op and element type")
    parser.add_argument("--overloads", help="a file for the counts by overload")
    parser.add_argument("--record", help="a results file for the counts by element type")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    reference, counts, shown = Reference(arguments.kiln), Counts(), set()
    for op in op_db:
        if arguments.ops and op.name not in arguments.ops:
            continue
        for way, dtype in [(way, dtype) for way in WAYS for dtype in DTYPES]:
            graded = way == "gradients"
            if not op.supports_dtype(dtype, "cpu") or graded and not (dtype == torch.float32 and op.supports_autograd):
                continue
            torch.manual_seed(0)
            try:
                samples = list(zip(range(arguments.most), op.sample_inputs("cpu", dtype, requires_grad=graded)))
            except Exception:  # whatever makes a sample here
                continue
            for number, sample in samples:
                kind, what, recorder = run_sample(reference, op, sample, way, dtype, counts)
                key = (op.name, op.variant_test_name, way, dtype, what.split(":")[0])
                if kind == "differs" and (key not in shown or arguments.verbose):
                    shown.add(key)
                    calls = recorder.program.calls
                    print(f"{op.name} {op.variant_test_name} {way} {dtype} sample {number}: {what}\n  {[c['target'] for c in calls][:8]}\n"
                          f"  {[(c['arguments']) for c in calls][:3]}", flush=True)
    for what, count in counts.refused.most_common():
        print(f"refused {count}: {what}")
    of = collections.Counter()
    for (kind, *_), count in counts.samples.items():
        of[kind] += count
    print(f"{sum(of.values())} samples: " + ", ".join(f"{count} {kind}" for kind, count in sorted(of.items())))
    if arguments.record:
        record(arguments.record, counts, arguments.most)
    if arguments.overloads:
        with open(arguments.overloads, "w") as file:
            for target, by in sorted(counts.targets.items()):
                file.write(f"{target} {by['equal']} {by['differs']} {by['unknown'] + by['refused']}\n")
    return 1 if of["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
