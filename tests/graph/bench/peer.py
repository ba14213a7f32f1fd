"""PyTorch's side of bench.py: a process for a model, which is asked by lines of JSON and answers by lines.

    peer.py NAME DTYPE cpu|cuda THREADS

  {"do": "write", "folder", "inputs"}   .npy files of a graph's inputs, as export.py's JSON says where they come from
  {"do": "check", "files"}              error of results beside the model in f64: of those in the files, and of eager
  {"do": "compile", "mode"}             by Inductor: seconds of the first call, kernels, what the phases took
  {"do": "time", "who", "seconds"}      median ms of runs by `who`: eager, or a mode that was compiled
  {"do": "memory", "who"}               bytes that a run needs beside weights and inputs, on a GPU
"""
import copy
import json
import os
import pathlib
import re
import statistics
import sys
import time

import numpy
import torch

import models

CALLS = {"triton": r"^\s+triton_\w+\.run\(", "cpp": r"^\s+(?:\w+ = )?cpp_fused\w*\(", "extern": r"^\s+(?:\w+ = )?extern_kernels\.\w+\(",
         "fallback": r"^\s+(?:\w+ = )?torch\.ops\.\w+\.[\w.]+\("}


def moved(x, f):
    return [f(y) for y in x] if isinstance(x, list) else f(x)


class Peer:
    def __init__(self, name, dtype, device, threads):
        torch.set_num_threads(threads)
        if device == "cuda":
            torch.cuda.init()
            torch.zeros(1, device="cuda") + 1
            torch.backends.cudnn.allow_tf32 = False  # f32 is f32 on both sides
        self.device = device
        self.case = models.case(name, dtype)
        self.module = copy.deepcopy(self.case.module).to(device)
        # What `kiln graph bench` times: ints that are 0 or 1.
        self.inputs = tuple(moved(x, lambda y: (y if y.is_floating_point() else y & 1).to(device)) for x in self.case.inputs)
        if self.case.channels_last:
            self.module = self.module.to(memory_format=torch.channels_last)
            self.inputs = tuple(x.to(memory_format=torch.channels_last) if isinstance(x, torch.Tensor) and x.ndim == 4 else x for x in self.inputs)
        self.runs = {"eager": self.runner(self.module)}
        if self.case.optimizer:
            self.runs["eager"] = self.optimiser(fused=True).step
            try:
                self.runs["eager"]()
            except RuntimeError:  # of some types there is none on CPUs
                self.runs["eager"] = self.optimiser(foreach=True).step

    def sync(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def runner(self, module):
        """A call of it as a program has it: a training step gives gradients."""
        if self.case.trains:
            parameters = list(self.module.parameters())

            def step():
                loss = module(*self.inputs)
                return [loss, *torch.autograd.grad(loss, parameters)]
            return step

        def run():
            with torch.no_grad():
                return module(*self.inputs)
        return run

    def optimiser(self, **how):
        """PyTorch's own, of the case's tensors, in the middle of training."""
        step, weights, gradients, firsts, seconds = self.inputs
        weights = [torch.nn.Parameter(w.clone()) for w in weights]
        made = torch.optim.AdamW(weights, lr=self.case.module.lr, weight_decay=self.case.module.decay, **how,
                                 **({"capturable": True} if self.device == "cuda" else {}))
        for w, g, m, v in zip(weights, gradients, firsts, seconds):
            w.grad = g
            made.state[w] = {"step": torch.full((), float(step), device=self.device if self.device == "cuda" or how.get("fused") else "cpu"),
                             "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
        return made

    # --- what is asked ---
    def write(self, folder, inputs):
        folder = pathlib.Path(folder)
        states = dict(self.case.module.named_parameters()) | dict(self.case.module.named_buffers())
        users = self.case.flat()
        for each in inputs:
            if "data" in each:
                x = torch.tensor(each["data"], dtype=kiln_type(each["type"])).reshape(each["shape"])
            else:
                x = users[each["index"]] if each["from"] == "user" else states[each["name"]]
            assert list(x.shape) == each["shape"], f"{each['input']} is {list(x.shape)}"
            numpy.save(folder / f"{each['input']}.npy", to_numpy(x))
        return {}

    def check(self, files):
        wide = copy.deepcopy(self.case.module).double().to(self.device)
        given = tuple(moved(x, lambda y: (y.double() if y.is_floating_point() else y).to(self.device)) for x in self.case.inputs)
        plain = tuple(moved(x, lambda y: y.to(self.device)) for x in self.case.inputs)
        with torch.set_grad_enabled(self.case.trains):
            exact = models.results(self.case, wide, given)
            eager = models.results(self.case, copy.deepcopy(self.case.module).to(self.device), plain)
        got = [from_numpy(numpy.load(path), x.dtype) for path, x in zip(files, eager, strict=True)]
        return {"error": worst(got, exact), "eager_error": worst(eager, exact)}

    def compile(self, mode):
        import torch._dynamo.utils
        import torch._inductor.metrics
        from torch._inductor.utils import run_and_get_code
        torch._inductor.metrics.reset()
        optimiser = self.optimiser(foreach=True) if self.case.optimizer else None

        def step():
            optimiser.step()
        compiled = torch.compile(step if optimiser else self.module, mode=None if mode == "default" else mode)
        self.runs[mode] = compiled if self.case.optimizer else self.runner(compiled)
        self.sync()
        begun = time.perf_counter()
        _, codes = run_and_get_code(self.runs[mode])
        self.sync()
        seconds = time.perf_counter() - begun
        for _ in range(3):  # records its graph
            self.runs[mode]()
        self.sync()
        calls = {kind: sum(len(re.findall(pattern, code, re.MULTILINE)) for code in codes) for kind, pattern in CALLS.items()}
        phases = {key: round(sum(times), 3) for key, times in torch._dynamo.utils.compilation_time_metrics.items() if sum(times) > 0.05}
        return {"first_s": seconds, "launches": sum(calls.values()), "calls": calls,
                "generated": torch._inductor.metrics.generated_kernel_count, "phases": phases}

    def time(self, who, seconds, most=200):
        run, times = self.runs[who], []
        for _ in range(4 if self.device == "cuda" else 1):  # a mode may have to record its graph again
            run()
        self.sync()
        end = time.perf_counter() + seconds
        while len(times) < most and (len(times) < 3 or time.perf_counter() < end):
            begun = time.perf_counter()
            run()
            self.sync()
            times.append(time.perf_counter() - begun)
        return {"ms": statistics.median(times) * 1e3, "runs": len(times)}

    def memory(self, who):
        if self.device != "cuda":
            return {"bytes": None}
        self.sync()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        self.runs[who]()
        self.sync()
        return {"bytes": torch.cuda.max_memory_allocated() - before}


def kiln_type(name):
    return {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32,
            "i1": torch.bool}[name]


def to_numpy(x):
    x = x.detach().contiguous()
    return x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


def from_numpy(x, dtype):
    x = torch.from_numpy(x)
    return x.view(torch.bfloat16) if dtype == torch.bfloat16 else x


def worst(got, exact):
    """The largest error of a result, by norms; of ints, the part that differs. A result that is next to nothing beside the others, such
    as the gradient of a bias that softmax takes away, is measured by these."""
    got, exact = [x.detach().cpu() for x in got], [x.detach().cpu() for x in exact]
    sizes = [float(b.double().square().mean().sqrt()) for b in exact if b.is_floating_point() and b.numel()]
    floor, out = 1e-3 * max(sizes, default=0.0), 0.0
    for a, b in zip(got, exact, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"a result is {list(a.shape)}, not {list(b.shape)}")
        if not b.is_floating_point():
            each = float((a != b).double().mean())
        else:
            apart = (a.double() - b.double()).square().mean().sqrt()
            each = float(apart) / max(float(b.double().square().mean().sqrt()), floor, 1e-30)
        out = max(out, each if each == each else float("inf"))
    return out


def main():
    name, dtype, device, threads = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if peer is None:
                peer = Peer(name, dtype, device, int(threads))
            answer = getattr(peer, request.pop("do"))(**request)
        except Exception as problem:  # noqa: BLE001: whatever it is, it is this model's row
            answer = {"failed": f"{type(problem).__name__}: {str(problem)[:500]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
