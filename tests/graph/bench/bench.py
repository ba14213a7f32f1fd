#!/usr/bin/env python3
"""bench.py --kgs DIR --kiln PATH --target cpu|cuda --out RESULTS.jsonl [NAME…]: compiled graphs beside PyTorch eager and Inductor.

DIR has what export.py wrote. Of each model the same weights and inputs, from a seed, go through all sides; results of `kiln graph
run` and of eager are compared with eager in f64; then all are timed by turns, each until the result is there. RESULTS gets a line
of JSON a model: a model that fails has one that says why. Rows that it has are not run again.

--lib DIR is where Kiln's programs find their libraries. --threads N: so many CPU threads, and as many cores for all sides where the
target is cpu; --cores N gives them otherwise. --modes: Inductor's, of which `reduce-overhead` stands beside Kiln's --replay.
--seconds: how long a side runs in a turn. --budget: ends after so many seconds; a model that is not done then has no row. --per-model, --limit: seconds for a model, and for
each of its steps.
What each launch of Kiln takes, and the plan, is kept beside RESULTS, in the folder RESULTS.launches.
"""
import argparse
import json
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "gpu"))
from tools import assembler  # noqa: E402

LINE = re.compile(r"ready in ([\d.]+) ms; median ([\d.]+) ms, fastest ([\d.]+) ms, slowest ([\d.]+) ms of (\d+) (?:runs|replays) of (\d+) launch")


class Failed(Exception):
    pass


class Clock:
    """Seconds that a step may take: so many, less where the model's or the run's end is nearer."""

    def __init__(self, options, end):
        self.step, self.model, self.end = options.limit, time.monotonic() + options.per_model, end

    def left(self):
        left = min(self.step, self.model - time.monotonic(), self.end - time.monotonic())
        if left <= 0:
            raise Failed("out of time")
        return left

    def is_over(self):
        return time.monotonic() >= self.end


def text_of(problem, limit=600):
    return " ".join(str(problem).split())[:limit]


class Peer:
    """peer.py for a model."""

    def __init__(self, options, clock, about, folder, cores):
        self.clock = clock
        env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor", TRITON_CACHE_DIR=f"{folder}/triton",
                   OMP_NUM_THREADS=str(options.threads))
        device = "cuda" if options.target.startswith("cuda") else "cpu"
        self.log = open(f"{folder}/peer.log", "a", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", str(HERE / "peer.py"), about["name"], about["dtype"], device,
                                         str(options.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=env, text=True,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def ask(self, **request):
        limit = self.clock.left()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("PyTorch's process ended") from None
        if not select.select([self.process.stdout], [], [], limit)[0]:
            self.close()
            raise Failed(f"PyTorch: {request['do']} took more than {limit:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"PyTorch's process ended in {request['do']}, {self.process.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Kiln:
    """The command with a daemon and a cache of its own."""

    def __init__(self, options, clock, folder, cores):
        self.program, self.clock, self.cores, self.options = options.kiln, clock, cores, options
        self.env = dict(os.environ, KILN_CACHE_DIR=f"{folder}/cache", KILN_RUNTIME_DIR=f"{folder}/run", OMP_NUM_THREADS=str(options.threads))
        pathlib.Path(folder, "run").mkdir(mode=0o700)
        if options.lib:
            self.env["LD_LIBRARY_PATH"] = options.lib
        if options.target.startswith("cuda") and assembler():
            self.env["KILN_NVJITLINK"] = assembler()
        self.log = open(f"{folder}/kilnd.log", "w", encoding="utf-8")
        self.daemon = subprocess.Popen([self.program, "serve"], stdout=self.log, stderr=self.log, env=self.env,
                                       preexec_fn=lambda: os.sched_setaffinity(0, cores))
        for _ in range(200):
            if subprocess.run([self.program, "ping"], env=self.env, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise Failed("kiln serve does not answer: " + pathlib.Path(folder, "kilnd.log").read_text(encoding="utf-8")[-300:])

    def command(self, *words):
        limit = self.clock.left()
        try:
            done = subprocess.run([self.program, "graph", *words], env=self.env, capture_output=True, text=True, timeout=limit, check=False,
                                  preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        except subprocess.TimeoutExpired:
            raise Failed(f"kiln graph {words[0]}: more than {limit:.0f} s") from None
        if done.returncode != 0:
            raise Failed(f"kiln graph {words[0]}: {text_of(done.stderr or f'ended with {done.returncode}')}")
        return done.stdout

    def bench(self, file, repeat, *more):
        begun = time.perf_counter()
        out = self.command("bench", file, "--target", self.options.target, "--threads", str(self.options.threads), "--repeat", str(repeat), *more)
        wall = time.perf_counter() - begun
        match = LINE.search(out)
        if not match:
            raise Failed(f"kiln graph bench printed {text_of(out, 200)}")
        ready, median, _, _, _, launches = match.groups()
        return {"ready_ms": float(ready), "ms": float(median), "launches": int(launches), "wall_s": wall, "text": out}

    def close(self):
        subprocess.run([self.program, "stop"], env=self.env, capture_output=True, check=False, timeout=30)
        try:
            self.daemon.wait(10)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
        self.log.close()


def bound_inputs(about):
    """What a module holds itself, parameters and buffers, stays while it infers; in training its weights are other ones each step."""
    if "_train" in about["name"]:
        return []
    return [x["input"] for x in about["inputs"] if x["from"] in ("parameter", "buffer", "constant")]


def bytes_of(outputs):
    widths = {"i1": 1, "i8": 1, "u8": 1, "bf16": 2, "f16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}
    total = 0
    for each in outputs:
        size = widths[each["type"]]
        for extent in each["shape"]:
            size *= extent
        total += size
    return total


class Model:
    """One row."""

    def __init__(self, options, clock, file, about, scratch):
        self.options, self.clock, self.file, self.about, self.scratch = options, clock, str(file), about, scratch
        cores = sorted(os.sched_getaffinity(0))
        count = options.cores or (options.threads if options.target.startswith("cpu") else len(cores))
        self.cores = cores[:count]
        self.row = {"model": about["name"], "dtype": about["dtype"], "target": options.target, "threads": options.threads, "cores": len(self.cores)}
        names = bound_inputs(about)
        self.bind = ["--bind", ",".join(names)] if names else []
        self.row["bound"] = len(names)
        self.kiln = self.peer = None
        self.times = {}
        self.repeat = 3  # runs of Kiln in a turn

    def step(self, key, action):
        """What fails is said in the row; the other sides go on."""
        try:
            return action()
        except (Failed, OSError, ValueError, AssertionError) as problem:
            self.row.setdefault("failed", {})[key] = text_of(problem)
            return None

    def run(self):
        try:
            self.kiln = self.step("kiln", lambda: Kiln(self.options, self.clock, self.scratch, self.cores))
            self.peer = Peer(self.options, self.clock, self.about, self.scratch, self.cores)
            if self.kiln:
                self.cold()
            self.step("check", lambda: self.check())
            modes = [] if self.options.skip_inductor else self.options.modes
            compiled = []  # what cannot be compiled has no turns
            for mode in modes:
                if self.step(mode, lambda mode=mode: self.compile(mode)):
                    compiled.append(mode)
                elif self.peer.process.poll() is not None:
                    self.again(compiled)
            for _ in range(self.options.turns):
                self.turn(["eager", *compiled])
            self.memory(["eager", *compiled])
            self.peer.close()
            if compiled and not self.options.skip_warm:
                self.step("warm Inductor", lambda: self.warm(compiled[0]))
            self.launches()
        finally:
            for side in (self.kiln, self.peer):
                if side:
                    side.close()
        return self.finished()

    def cold(self):
        first = self.step("kiln", lambda: self.kiln.bench(self.file, 1, *self.bind))
        if first is None:
            self.kiln.close()
            self.kiln = None
            return
        self.row |= {"kiln_cold_ms": first["ready_ms"], "kiln_launches": first["launches"]}
        again = self.step("kiln, warm", lambda: self.kiln.bench(self.file, 3, *self.bind))
        if again:
            self.row["kiln_warm_ms"] = again["ready_ms"]
            self.repeat = max(3, min(200, int(1e3 * self.options.seconds / max(again["ms"], 1e-3))))

    def check(self):
        folder = pathlib.Path(self.scratch, "arrays")
        folder.mkdir()
        self.peer.ask(do="write", folder=str(folder), inputs=self.about["inputs"])
        if self.kiln is None:
            return
        given = [word for x in self.about["inputs"] for word in ("--input", f"{x['input']}=@{folder}/{x['input']}.npy")]
        files = [f"{folder}/out {x['output']}.npy" for x in self.about["outputs"]]
        wanted = [word for x, path in zip(self.about["outputs"], files) for word in ("--output", f"{x['output']}=@{path}")]
        self.kiln.command( "run", self.file, "--target", self.options.target, "--threads", str(self.options.threads), "--memory", "64GiB", *self.bind, *given, *wanted)
        self.row |= self.peer.ask(do="check", files=files)
        shutil.rmtree(folder)

    def compile(self, mode):
        answer = self.peer.ask(do="compile", mode=mode)
        if "inductor_cold_s" not in self.row:
            self.row |= {"inductor_cold_s": round(answer["first_s"], 3), "inductor_launches": answer["launches"], "inductor_calls": answer["calls"],
                         "inductor_generated": answer["generated"], "inductor_phases": answer["phases"]}
        return True

    def again(self, compiled):
        """Another process where one ended, as far as it was."""
        self.peer.close()
        self.peer = Peer(self.options, self.clock, self.about, self.scratch, self.cores)
        for mode in list(compiled):
            if not self.step(mode, lambda mode=mode: self.compile(mode)):
                compiled.remove(mode)

    def turn(self, sides):
        for who in sides:
            done = self.step(who, lambda who=who: self.peer.ask(do="time", who=who, seconds=self.options.seconds))
            self.times.setdefault(who, []).extend([done["ms"]] if done else [])
        if self.kiln is None:
            return
        for who, more in (("kiln", []), ("kiln replay", ["--replay"])):
            if more and not self.options.target.startswith("cuda"):
                continue
            done = self.step(who, lambda more=more: self.kiln.bench(self.file, self.repeat, *more, *self.bind))
            if done:
                self.times.setdefault(who, []).append(done["ms"])
                self.row["kiln_warm_ms"] = min(self.row.get("kiln_warm_ms", done["ready_ms"]), done["ready_ms"])

    def memory(self, sides):
        for who in sides:
            done = self.step(f"memory of {who}", lambda who=who: self.peer.ask(do="memory", who=who))
            if done and done["bytes"] is not None:
                self.row.setdefault("memory", {})[who] = done["bytes"]

    def warm(self, mode):
        """The first call in another process that finds Inductor's cache."""
        self.peer = Peer(self.options, self.clock, self.about, self.scratch, self.cores)
        self.row["inductor_warm_s"] = round(self.peer.ask(do="compile", mode=mode)["first_s"], 3)

    def launches(self):
        if self.kiln is None:
            return
        plan = self.step("explain", lambda: self.kiln.command( "explain", self.file, "--target", self.options.target))
        each = self.step("launches", lambda: self.kiln.bench(self.file, min(self.repeat, 20), "--launches"))
        folder = pathlib.Path(str(self.options.out) + ".launches")
        folder.mkdir(exist_ok=True)
        name = f"{self.about['name']}.{self.about['dtype']}.{self.options.target.split(':')[0]}.{self.options.threads}"
        (folder / f"{name}.txt").write_text((each["text"] if each else "") + "\n" + (plan or ""), encoding="utf-8")
        arena = re.search(r"arena of (\d+) bytes", plan or "")
        if arena:
            self.row.setdefault("memory", {})["kiln"] = int(arena[1]) + bytes_of(self.about["outputs"])

    def finished(self):
        row = self.row
        names = {"eager": "eager_ms", "default": "inductor_ms", "reduce-overhead": "inductor_graph_ms", "max-autotune": "inductor_tuned_ms",
                 "kiln": "kiln_ms", "kiln replay": "kiln_replay_ms"}
        for who, times in self.times.items():
            if times:
                row[names.get(who, who)] = round(statistics.median(times), 6)
        row["turns"] = {who: [round(t, 6) for t in times] for who, times in self.times.items()}
        peers = [row[key] for key in ("eager_ms", "inductor_ms", "inductor_graph_ms", "inductor_tuned_ms") if key in row]
        ours = [row[key] for key in ("kiln_ms", "kiln_replay_ms") if key in row]
        if peers and ours:
            row["ratio"] = round(min(peers) / min(ours), 3)
        return row


def machine(options):
    words = {"torch": "", "gpu": ""}
    code = "import torch; print(torch.__version__); print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        words["torch"], words["gpu"] = (done.stdout.split("\n") + ["", ""])[:2]
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {**words, "cpu": cpu[1] if cpu else "", "device": words["gpu"] if options.target.startswith("cuda") else cpu[1] if cpu else ""}


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def key(row):
    return row["model"], row["dtype"], row["target"], row["threads"]


def keep(path, row):
    """Behind the others, instead of an older one of the same model."""
    rows = [each for each in rows_of(path) if key(each) != key(row)] + [row]
    new = path.with_name(path.name + ".new")
    new.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    new.replace(path)


def chosen(options):
    have = {key(row) for row in rows_of(options.out) if not (options.again and row.get("failed"))}
    for path in sorted(options.kgs.glob("*.json"), key=lambda path: path.stat().st_size):
        about = json.loads(path.read_text(encoding="utf-8"))
        wanted = not options.names or about["name"] in options.names
        # A model that has one type alone is wanted with any.
        wanted = wanted and (not options.dtype or about["dtype"] in options.dtype or not set(options.dtype) & set(about["dtypes"]))
        if wanted and (about["name"], about["dtype"], options.target, options.threads) not in have:
            yield path.with_suffix(".kg"), about


def summary(path):
    """How the rows stand against the bars."""
    rows = rows_of(path)

    def names(wanted):
        return ", ".join(f"{row['model']}.{row['dtype']}" for row in rows if wanted(row)) or "none"
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"{len(ratios)} ratios of {len(rows)} rows, geometric mean {statistics.geometric_mean(ratios):.3f}")
    print("without a ratio:", names(lambda row: "ratio" not in row))
    print("below the better peer:", names(lambda row: row.get("ratio", 1) < 1))
    print("more launches than Inductor:", names(lambda row: row.get("kiln_launches", 0) > row.get("inductor_launches", 1 << 30)))
    print("more memory than Inductor:", names(lambda row: row.get("memory", {}).get("kiln", 0) > row.get("memory", {}).get("default", 1 << 60)))
    print("cold above 2 s:", names(lambda row: row.get("kiln_cold_ms", 0) > 2000))
    print("warm above 20 ms:", names(lambda row: row.get("kiln_warm_ms", 0) > 20))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, more in (("--kgs", {"type": pathlib.Path}), ("--kiln", {}), ("--out", {"type": pathlib.Path})):
        parser.add_argument(name, required=True, **more)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lib", default="")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--dtype", action="append")
    parser.add_argument("--modes", type=lambda text: text.split(","))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=200)
    parser.add_argument("--per-model", type=float, default=600)
    parser.add_argument("--scratch", help="a folder for files of the run; weights are written there")
    for flag, words in (("--skip-inductor", "without PyTorch's compiler"), ("--skip-warm", "without its second process"),
                        ("--again", "rows that failed are run again")):
        parser.add_argument(flag, action="store_true", help=words)
    options = parser.parse_intermixed_args()
    options.kiln = os.path.abspath(options.kiln)
    options.modes = options.modes or (["default", "reduce-overhead"] if options.target.startswith("cuda") else ["default"])
    end = time.monotonic() + options.budget
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with its processes
    about_machine = machine(options)
    for file, about in chosen(options):
        begun, clock = time.monotonic(), Clock(options, end)
        if clock.is_over():
            print("bench.py: out of time", flush=True)
            break
        with tempfile.TemporaryDirectory(prefix="kiln-bench-", dir=options.scratch) as scratch:
            row = Model(options, clock, file, about, scratch).run()
        if clock.is_over():  # a later run does it
            print(f"bench.py: out of time in {about['name']}.{about['dtype']}", flush=True)
            break
        row = {**row, "machine": about_machine, "took_s": round(time.monotonic() - begun, 1)}
        keep(options.out, row)
        shown = {key: row[key] for key in ("eager_ms", "inductor_ms", "inductor_graph_ms", "kiln_ms", "kiln_replay_ms", "ratio", "error", "eager_error",
                                           "kiln_launches", "inductor_launches", "failed") if key in row}
        print(f"{about['name']}.{about['dtype']} {row['took_s']} s: {json.dumps(shown)}", flush=True)
    summary(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
