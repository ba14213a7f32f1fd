"""Kiln's kernels beside cuBLAS, Triton, Inductor, eager PyTorch and SDPA, all in this process, interleaved, by device
events: medians, random data, the L2 cache flushed before each launch, every result of ours checked.

    python3 bench.py [--results DIR] [--filter TEXT,TEXT…] [--seconds S] [--configs N] [--no-inductor] [--json]

--filter: rows whose area or name has one of the texts. --seconds: rows that are left when the time is up are not run.
--configs: at most so many of ours a row. --no-inductor: without PyTorch's compiler, which takes seconds a row.
--dry-run: without a GPU and PyTorch: compiles the configs of all rows, prints what is refused; with --configs 0 it looks
whether all rows can be made.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types

from tools import environment, tool

COMPILE_SECONDS = 30


def facts_of(names, arguments):
    """What holds of a launch with these arguments, as the client would find it."""
    out = {}
    for name, argument in zip(names, arguments, strict=True):
        if isinstance(argument, (int, bool)):
            fact = "one" if argument == 1 else "x16" if argument % 16 == 0 else "x8" if argument % 8 == 0 else None
        elif isinstance(argument, float):
            fact = None
        else:
            fact = "align16" if argument.data_ptr() % 16 == 0 else None
        if fact:
            out[name] = fact
    return out


class Compiler:
    """gpu-compile in processes of its own: one that aborts or hangs costs its config alone."""

    def __init__(self, folder, target):
        self.folder, self.target, self.env = folder, target, environment()
        # Cores for what is measured meanwhile.
        self.pool = concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 2))
        self.turn, self.running, self.waits = threading.Condition(), 0, False
        self.program = tool("gpu-compile")

    def params_of(self, row):
        """The names of the kernel's parameters."""
        done = subprocess.run([self.program, "--params", row.kernel, row.type], capture_output=True, text=True, env=self.env)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.split()

    @contextlib.contextmanager
    def quiet(self):
        """Nothing is compiled meanwhile: kernels of a few microseconds want to be launched in time."""
        with self.turn:
            self.waits = True
            self.turn.wait_for(lambda: self.running == 0)
        try:
            yield
        finally:
            with self.turn:
                self.waits = False
                self.turn.notify_all()

    @contextlib.contextmanager
    def working(self):
        with self.turn:
            self.turn.wait_for(lambda: not self.waits)
            self.running += 1
        try:
            yield
        finally:
            with self.turn:
                self.running -= 1
                self.turn.notify_all()

    def one(self, number, row, config, facts):
        """The path of the artifact, or a string that says why there is none."""
        with self.working():
            return self.compile(number, row, config, facts)

    def compile(self, number, row, config, facts):
        path = os.path.join(self.folder, str(number))
        request = json.dumps({"kernel": row.kernel, "type": row.type, "target": self.target, "constexprs": config,
                              "facts": facts})
        try:
            done = subprocess.run([self.program, request, path], capture_output=True, text=True, env=self.env,
                                  timeout=COMPILE_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"compiling took more than {COMPILE_SECONDS} s"
        if done.returncode == 0:
            return path, ""
        lines = done.stderr.strip().splitlines() or [f"the compiler ended with {done.returncode}"]
        return None, next((line.split("error: ")[1] for line in lines if "error: " in line), lines[-1])[:200]

    def start(self, row, arguments, limit):
        """A future (path, why) for each config."""
        facts = facts_of(self.params_of(row), arguments)
        return [(config, self.pool.submit(self.one, f"{id(row)}-{i}", row, config, facts))
                for i, config in enumerate(row.configs[:limit])]


def chosen_rows(options):
    import bench_cases
    for make_row in bench_cases.table():
        row = make_row()
        if any(text in f"{row.area} {row.name} {row.type}" for text in options.filter.split(",")):
            yield row


def prepared(options, compiler, failed, ahead=4):
    """The rows with their inputs and artifacts; the next few compile while one is measured. Those that cannot be made are
    added to `failed`."""
    waiting = collections.deque()
    for row in chosen_rows(options):
        try:
            inputs = row.make()
            waiting.append((row, inputs, compiler.start(row, inputs.arguments, options.configs)))
        except Exception as problem:
            print(f"{row.area:<10}{row.name:<44} FAILED: {words(problem)}", flush=True)
            failed.append(row)
            continue
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


def words(problem):
    return f"{type(problem).__name__}: " + " ".join(str(problem).split())[:300]


# ------------------------------------------------------------------------------------------------ on the device
class Clock:
    def __init__(self, torch):
        self.torch = torch
        self.junk = torch.empty(64 << 20, dtype=torch.int32, device="cuda")  # 256 MiB, more than any L2

    def times(self, functions, rounds):
        """Microseconds of each function, by rounds; all functions run once a round."""
        events = [[(self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)) for _ in functions]
                  for _ in range(rounds)]
        for pairs in events:
            for function, (start, end) in zip(functions, pairs):
                self.junk.zero_()  # also covers the host's part of the launch
                start.record()
                function()
                end.record()
        self.torch.cuda.synchronize()
        return [[1e3 * pairs[i][0].elapsed_time(pairs[i][1]) for pairs in events] for i in range(len(functions))]

    def medians(self, functions, rounds):
        return [statistics.median(times) for times in self.times(functions, rounds)]


def check(torch, out, expected, bound):
    """"" where the result is right; it may be a corner of the output."""
    actual = out[tuple(slice(0, extent) for extent in expected.shape)].double()
    wide = expected.double()
    norm = wide.norm().item()
    error = (actual - wide).norm().item() / (norm or 1)
    finite = torch.isfinite(out.double()).all().item() if out.numel() <= 1 << 28 else True
    if finite and error <= bound:
        return ""
    return f"wrong: relative error {error:.2e}, at most {bound:.0e}" + ("" if finite else ", not all written")


def ours(torch, clock, row, inputs, compiling):
    """The best config that computes the right thing: (launch, config, metadata); all their times; what became of the
    others."""
    from cuda import Artifact
    initial = inputs.out.clone()
    good, bad, expected = [], [], None
    for config, future in compiling:
        path, why = future.result()
        if path is None:
            bad.append((config, why))
            continue
        artifact = Artifact(path)
        launch = artifact.bind(inputs.arguments)
        inputs.out.copy_(initial)
        launch()
        torch.cuda.synchronize()
        expected = inputs.expected() if expected is None else expected
        wrong = check(torch, inputs.out, expected, row.bound)
        if wrong:
            bad.append((config, wrong))
        else:
            good.append((launch, config, artifact.metadata))
    if not good:
        return None, [], bad
    times = clock.medians([launch for launch, _, _ in good], 5)
    tried = sorted(({"us": us, "config": config} for us, (_, config, _) in zip(times, good)), key=lambda one: one["us"])
    return good[times.index(min(times))], tried, bad


def peers_of(torch, inputs, no_inductor):
    out, absent = {}, {}
    for name, function in inputs.peers.items():
        if no_inductor and name == "inductor":
            continue
        try:
            for _ in range(3):
                function()
            torch.cuda.synchronize()
            out[name] = function
        except Exception as problem:  # whatever a peer cannot do here
            absent[name] = words(problem)
    return out, absent


SHORT_US = 50


def measure(torch, clock, row, inputs, compiling, options, compiler):
    best, tried, bad = ours(torch, clock, row, inputs, compiling)
    peers, absent = peers_of(torch, inputs, options.no_inductor)
    functions = ([best[0]] if best else []) + list(peers.values())
    names = (["kiln"] if best else []) + list(peers)
    result = {"area": row.area, "row": row.name, "type": row.type, "unit": row.unit, "absent": absent, "tried": tried,
              "refused": [{"config": config, "why": why} for config, why in bad]}
    if functions:
        rough = sum(clock.medians(functions, 3))
        rounds = int(min(40, max(9, 2e5 / (rough + 70 * len(functions)))))
        with compiler.quiet() if tried and tried[0]["us"] < SHORT_US else contextlib.nullcontext():
            result["us"] = dict(zip(names, clock.medians(functions, rounds)))
    if best:
        device, phases = best[2]["device"], best[2]["phases_us"]
        result |= {"config": best[1], "registers": device.get("registers"), "spill_bytes": device.get("spill_bytes"),
                   "compile_ms": phases["total"] / 1e3, "assembler_ms": device.get("assembler_us", 0) / 1e3}
    scale = row.work * 1e-6
    result["speed"] = {name: scale / us for name, us in result.get("us", {}).items()}
    return result


def line_of(result):
    speed = dict(result["speed"])
    mine = speed.pop("kiln", None)
    best = max(speed.values(), default=None)
    wide = f"{result['row']} {result['type']}"
    text = f"{result['area']:<10}{wide:<44}" + (f"{mine:9.3f}" if mine else "        –")
    text += f" {mine / best:6.2f}" if mine and best else "      –"
    text += "  " + " ".join(f"{name} {value:.3f}" for name, value in speed.items())
    if mine:
        text += "  " + ",".join(f"{k}={v}" for k, v in result["config"].items())
        text += f"  r{result['registers']}" + (f" spills {result['spill_bytes']}" if result["spill_bytes"] else "")
        text += f"  {result['compile_ms']:.0f} ms ({result['assembler_ms']:.0f})"
    elif result["refused"]:
        text += "  " + result["refused"][0]["why"]
    return text


def on_device(options):
    import torch
    torch.manual_seed(0)
    major, minor = torch.cuda.get_device_capability()
    target = options.target or f"cuda:sm_{major}{minor}" + ("a" if major == 9 else "")
    compiler = Compiler(options.artifacts, target)
    clock = Clock(torch)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {target}; TB/s or TFLOP/s, ratio to the best peer")
    big = torch.empty(2, 1 << 30, dtype=torch.int8, device="cuda")
    copy = clock.medians([lambda: big[0].copy_(big[1])], 9)[0]
    del big
    print(f"# copy of 1 GiB: {2 ** 31 / copy / 1e6:.2f} TB/s read and written")
    end, results, failed = time.monotonic() + options.seconds, [], []
    for row, inputs, compiling in prepared(options, compiler, failed):
        if time.monotonic() > end:
            print(f"# the time is up before {row.area} {row.name}")
            compiler.pool.shutdown(wait=False, cancel_futures=True)
            break
        try:
            result = measure(torch, clock, row, inputs, compiling, options, compiler)
        except Exception as problem:
            print(f"{row.area:<10}{row.name:<44} FAILED: {words(problem)}", flush=True)
            failed.append(row)
            torch.cuda.synchronize()  # a lost device ends the run here
            continue
        results.append(result)
        print(line_of(result), flush=True)
        with open(os.path.join(options.results, "bench.json"), "w") as file:
            json.dump(results, file, indent=1)
        torch.cuda.empty_cache()
    for result in results:
        for refused in result["refused"]:
            if "wrong" in refused["why"] or "took more" in refused["why"]:
                print(f"# {result['row']} {result['type']} {refused['config']}: {refused['why']}")
    if options.json:
        print(json.dumps(results))
    return 0 if results and not failed and all("kiln" in result["speed"] for result in results) else 1


# ------------------------------------------------------------------------------------------------ without a device
def without_torch():
    """Stands in for PyTorch where only rows and configs matter: every tensor is aligned, every call gives one."""
    class Tensor:
        itemsize = 4
        def __call__(self, *_, **__): return self
        def __getattr__(self, _): return self
        def __getitem__(self, _): return self
        def __lt__(self, _): return self
        def __enter__(self): return self
        def __exit__(self, *_): return None
        def __mul__(self, _): return self
        def data_ptr(self): return 0
    stub = types.ModuleType("torch")
    anything = Tensor()
    stub.__getattr__ = lambda name: anything
    sys.modules["torch"] = stub
    for name in ("torch.nn", "torch.nn.functional", "torch.nn.attention"):
        module = types.ModuleType(name)
        module.__getattr__ = lambda name: anything
        sys.modules[name] = module


def dry_run(options):
    without_torch()
    compiler = Compiler(options.artifacts, options.target or "cuda:sm_90a")
    failed = []
    for row, _, compiling in prepared(options, compiler, failed):
        start = time.monotonic()
        done = [(config, *future.result()) for config, future in compiling]
        good = [config for config, path, _ in done if path]
        if done and not good:
            failed.append(row)
        print(f"{row.area:<10}{row.name + ' ' + row.type:<44} {len(good)} of {len(done)} configs, {time.monotonic() - start:.1f} s",
              "" if good or not done else done[0][2], flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default="results")
    parser.add_argument("--filter", default="")
    parser.add_argument("--target", default=os.environ.get("KILN_TEST_CUDA", ""))
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--configs", type=int, default=99)
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kiln-bench-") as options.artifacts:
        return dry_run(options) if options.dry_run else on_device(options)


if __name__ == "__main__":
    sys.exit(main())
