"""Kiln's kernels beside cuBLAS, Triton, Inductor, eager PyTorch and SDPA, all in this process, interleaved, by device
events: medians, random data, the L2 cache flushed before each launch, every result of ours checked.

    python3 bench.py [--results DIR] [--filter TEXT,TEXT…] [--seconds S] [--configs N] [--no-inductor] [--keep] [--json]

--filter: rows whose area or name has one of the texts. --seconds: rows that are left when the time is up are not run.
--configs: at most so many of ours a kernel. --no-inductor: without PyTorch's compiler, which takes seconds a row.
--keep: rows that DIR/bench.json has are not run again, and what is printed at the end is of all of them: a long run in
parts. --report: prints that alone. --csv, --json: also prints what bench.csv and bench.json in DIR have.
--dry-run: without a GPU and PyTorch: compiles the configs of all rows, prints what is refused; with --configs 0 it looks
whether all rows can be made.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types

from bench_report import line_of, summary, write_csv
from tools import environment, tool

COMPILE_SECONDS = 30
SHORT_US = 50  # takes no longer: the host's part of a launch shows
COVER = 4


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
        self.program, self.params, self.numbers = tool("gpu-compile"), {}, itertools.count()

    def params_of(self, kernel, type):
        """The names of the kernel's parameters."""
        if (kernel, type) not in self.params:
            done = subprocess.run([self.program, "--params", kernel, type], capture_output=True, text=True, env=self.env)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip())
            self.params[kernel, type] = done.stdout.split()
        return self.params[kernel, type]

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

    def one(self, *request):
        """The path of the artifact, or a string that says why there is none."""
        with self.working():
            return self.compile(*request)

    def compile(self, kernel, type, config, arguments):
        path = os.path.join(self.folder, str(next(self.numbers)))
        try:
            facts = facts_of(self.params_of(kernel, type), arguments)
        except RuntimeError as problem:  # a config may name a kernel that is not there
            return None, str(problem)
        request = json.dumps({"kernel": kernel, "type": type, "target": self.target, "constexprs": config, "facts": facts})
        try:
            done = subprocess.run([self.program, request, path], capture_output=True, text=True, env=self.env,
                                  timeout=COMPILE_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"compiling took more than {COMPILE_SECONDS} s"
        if done.returncode == 0:
            return path, ""
        lines = done.stderr.strip().splitlines() or [f"the compiler ended with {done.returncode}"]
        return None, next((line.split("error: ")[1] for line in lines if "error: " in line), lines[-1])[:200]

    def start(self, stage, arguments, limit):
        """A future (path, why) for each config."""
        facts_of(self.params_of(stage.kernel, stage.type), arguments)
        jobs = []
        for config in stage.configs[:limit]:
            constexprs = {name: value for name, value in config.items() if name != "kernel"}
            job = self.pool.submit(self.one, config.get("kernel", stage.kernel), stage.type, constexprs, arguments)
            jobs.append((config, job))
        return jobs


def given(launch, row, config=None):
    """The launch's arguments; while nothing is chosen yet, those of the first config."""
    return launch.arguments(config or row.configs[0]) if callable(launch.arguments) else launch.arguments


def chosen_rows(options, done):
    import bench_cases
    for make_row in bench_cases.table():
        row = make_row()
        wanted = any(text in f"{row.area} {row.name} {row.type}" for text in options.filter.split(","))
        if wanted and (row.area, row.name, row.type) not in done:
            yield row


def prepared(options, compiler, failed, done=(), ahead=4):
    """The rows with their inputs and, for each kernel, artifacts; the next few compile while one is measured. Those that
    cannot be made are added to `failed`, those of `done` are left out."""
    waiting = collections.deque()
    for row in chosen_rows(options, done):
        try:
            inputs = row.make()
            compiling = [compiler.start(stage, given(launch, row), options.configs)
                         for stage, launch in zip(row.stages, inputs.launches, strict=True)]
            waiting.append((row, inputs, compiling))
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

    def times(self, functions, rounds, cover=1):
        """Microseconds of each function, by rounds; all functions run once a round. The cache is flushed `cover` times
        before each launch: what takes a few microseconds would else wait for a host that launches slowly."""
        events = [[(self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)) for _ in functions]
                  for _ in range(rounds)]
        for pairs in events:
            for function, (start, end) in zip(functions, pairs):
                for _ in range(cover):
                    self.junk.zero_()  # also covers the host's part of the launch
                start.record()
                function()
                end.record()
        self.torch.cuda.synchronize()
        return [[1e3 * pairs[i][0].elapsed_time(pairs[i][1]) for pairs in events] for i in range(len(functions))]

    def medians(self, functions, rounds, cover=1):
        return [statistics.median(times) for times in self.times(functions, rounds, cover)]


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


Candidate = collections.namedtuple("Candidate", "launch config metadata")


def fastest(clock, good):
    """The fastest, its time, and the times of all; those that are close run again."""
    times = clock.medians([one.launch for one in good], 5)
    cover = COVER if min(times) < SHORT_US else 1
    order = sorted(range(len(good)), key=times.__getitem__)
    close = [i for i in order[:4] if times[i] <= 1.06 * times[order[0]]]
    if len(close) > 1 and times[order[0]] < 2e4:
        for i, us in zip(close, clock.medians([good[i].launch for i in close], 15, cover)):
            times[i] = us
    best = min(close, key=times.__getitem__)
    tried = [{"us": us, "config": one.config} for us, one in sorted(zip(times, good), key=lambda pair: pair[0])]
    return good[best], times[best], tried


def best_of(torch, clock, stage, launch, arguments, compiling, restore):
    """The fastest config of a kernel that computes the right thing, or None; its time; all their times; what became of the
    others."""
    from cuda import Artifact
    initial = launch.out.clone()
    good, bad, expected = [], [], None

    def run(function):
        launch.out.copy_(initial)
        restore()
        function()
        torch.cuda.synchronize()

    for config, future in compiling:
        path, why = future.result()
        if path is None:
            bad.append({"kernel": stage.kernel, "config": config, "why": why})
            continue
        artifact = Artifact(path)
        function = artifact.bind(arguments)
        run(function)
        expected = launch.expected() if expected is None else expected
        wrong = check(torch, launch.out, expected, stage.bound)
        if wrong:
            bad.append({"kernel": stage.kernel, "config": config, "why": wrong})
        else:
            good.append(Candidate(function, config, artifact.metadata))
    if not good:
        return None, 0, [], bad
    best, us, tried = fastest(clock, good)
    run(best.launch)  # what follows may read it
    return best, us, tried, bad


def ours(torch, clock, row, inputs, compiling):
    """The best of each kernel, or None; what the row says of each; what was refused."""
    chosen, stages, refused = [], [], []
    for stage, launch, jobs in zip(row.stages, inputs.launches, compiling, strict=True):
        arguments = given(launch, row, chosen[0].config if chosen else None)
        best, us, tried, bad = best_of(torch, clock, stage, launch, arguments, jobs, inputs.restore)
        refused += bad
        if best is None:
            return None, stages, refused
        chosen.append(best)
        device, phases = best.metadata["device"], best.metadata["phases_us"]
        stages.append({"kernel": stage.kernel, "config": best.config, "us": us, "registers": device.get("registers"),
                       "spill_bytes": device.get("spill_bytes"), "compile_ms": phases["total"] / 1e3,
                       "assembler_ms": device.get("assembler_us", 0) / 1e3, "tried": tried})
    return chosen, stages, refused


def one_behind_the_other(chosen):
    launches = [one.launch for one in chosen]

    def run():
        for launch in launches:
            launch()

    return run if len(launches) > 1 else launches[0]


def copy_of(torch, moved):
    """A copy by the device that reads and writes so many bytes together."""
    source, target = (torch.empty(max(int(moved) // 2, 1), dtype=torch.int8, device="cuda") for _ in range(2))
    return lambda: target.copy_(source)


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


def measure(torch, clock, row, inputs, compiling, options, compiler):
    chosen, stages, refused = ours(torch, clock, row, inputs, compiling)
    peers, absent = peers_of(torch, inputs, options.no_inductor)
    result = {"area": row.area, "row": row.name, "type": row.type, "unit": row.unit, "absent": absent, "stages": stages,
              "refused": refused, "complete": chosen is not None, "pair": list(row.pair)}
    functions = dict(peers)
    if chosen and row.pair:
        functions = {name: one.launch for name, one in zip(row.pair, chosen, strict=True)}
    elif chosen:
        functions = {"kiln": one_behind_the_other(chosen)} | functions
    if row.bytes and functions:
        try:
            functions["copy"] = copy_of(torch, row.bytes)  # a ceiling and no peer
        except Exception as problem:
            absent["copy"] = words(problem)
    times = {}
    if functions:
        rough = sum(clock.medians(functions.values(), 3))
        rounds = int(min(40, max(9, 2e5 / (rough + 70 * len(functions)))))
        rounds = 4 * rounds if row.pair else rounds
        short = sum(stage["us"] for stage in stages) < SHORT_US
        with compiler.quiet() if chosen and short else contextlib.nullcontext():
            times = dict(zip(functions, clock.times(functions.values(), rounds, COVER if short else 1)))
    us = {name: statistics.median(values) for name, values in times.items()}
    result["us"] = us
    result["speed"] = {name: row.work * 1e-6 / value for name, value in us.items() if name != "copy"}
    if "kiln" in us and "copy" in us:
        result["share_of_copy"] = us["copy"] / us["kiln"]
    if chosen and row.pair:  # of each round, for the clock rate moves
        plain, fused = (times[name] for name in row.pair)
        result["cost_percent"] = 100 * (statistics.median(b / a for a, b in zip(plain, fused)) - 1)
    return result


def save(options, results):
    with open(os.path.join(options.results, "bench.json"), "w") as file:
        json.dump(results, file, indent=1)
    with open(os.path.join(options.results, "bench.csv"), "w") as file:
        write_csv(results, file)


def kept(options):
    path = os.path.join(options.results, "bench.json")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return json.load(file)


def report(options, results):
    print("\n".join(["", *summary(results)]), flush=True)
    if options.csv:
        write_csv(results, sys.stdout)
    if options.json:
        print(json.dumps(results))


def on_device(options):
    import torch
    torch.manual_seed(0)
    major, minor = torch.cuda.get_device_capability()
    target = options.target or f"cuda:sm_{major}{minor}" + ("a" if major >= 9 else "")
    compiler = Compiler(options.artifacts, target)
    clock = Clock(torch)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {target}; TB/s or TFLOP/s, ratio to the best peer, "
          "share of a copy of as many bytes")
    big = torch.empty(2, 1 << 30, dtype=torch.int8, device="cuda")
    copy = clock.medians([lambda: big[0].copy_(big[1])], 9)[0]
    del big
    print(f"# copy of 1 GiB: {2 ** 31 / copy / 1e6:.2f} TB/s read and written")
    end, results, failed = time.monotonic() + options.seconds, kept(options) if options.keep else [], []
    done = {(result["area"], result["row"], result["type"]) for result in results}
    for row, inputs, compiling in prepared(options, compiler, failed, done):
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
        save(options, results)
        del inputs, compiling
        torch.cuda.empty_cache()
    for result in results:
        for refused in result["refused"]:
            if "wrong" in refused["why"] or "took more" in refused["why"]:
                print(f"# {result['row']} {result['type']}, {refused['kernel']} {refused['config']}: {refused['why']}")
    report(options, results)
    return 0 if results and not failed and all(result["complete"] for result in results) else 1


# ------------------------------------------------------------------------------------------------ without a device
def without_torch():
    """Stands in for PyTorch where only rows and configs matter: every tensor is aligned, every call gives one. Triton, which
    would take the stand-in for the real one, is as if it were not there."""
    class Tensor:
        itemsize = 4
        def __call__(self, *_, **__): return self
        def __getattr__(self, _): return self
        def __getitem__(self, _): return self
        def __lt__(self, _): return self
        def __enter__(self): return self
        def __exit__(self, *_): return None
        def operator(self, *_): return self
        __add__ = __sub__ = __mul__ = __truediv__ = __and__ = __neg__ = __rpow__ = operator
        def data_ptr(self): return 0
    stub = types.ModuleType("torch")
    anything = Tensor()
    stub.__getattr__ = lambda name: anything
    sys.modules["torch"] = stub
    sys.modules["triton"] = None
    for name in ("torch.nn", "torch.nn.functional", "torch.nn.attention"):
        module = types.ModuleType(name)
        module.__getattr__ = lambda name: anything
        sys.modules[name] = module


def dry_run(options):
    without_torch()
    compiler = Compiler(options.artifacts, options.target or "cuda:sm_90a")
    failed = []
    for row, _, kernels in prepared(options, compiler, failed):
        start = time.monotonic()
        done = [[(config, *future.result()) for config, future in compiling] for compiling in kernels]
        good = [sum(path is not None for _, path, _ in each) for each in done]
        bad = [why for each in done for _, path, why in each if path is None]
        if any(each and not count for each, count in zip(done, good)):
            failed.append(row)
        counts = ", ".join(f"{count} of {len(each)}" for each, count in zip(done, good))
        print(f"{row.area:<10}{row.name + ' ' + row.type:<46} {counts} configs, {time.monotonic() - start:.1f} s",
              bad[0] if bad and row in failed else "", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default="results")
    parser.add_argument("--filter", default="")
    parser.add_argument("--target", default=os.environ.get("KILN_TEST_CUDA", ""))
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--configs", type=int, default=250)
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    if options.report:
        report(options, kept(options))
        return 0
    with tempfile.TemporaryDirectory(prefix="kiln-bench-") as options.artifacts:
        return dry_run(options) if options.dry_run else on_device(options)


if __name__ == "__main__":
    sys.exit(main())
