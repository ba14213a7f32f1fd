"""Runs googletest executables on the GPU: many processes, each for a few tests, so that compiling uses all cores.

A process that dies (a fault of the device ends it, see cuda_device.cpp) or that says nothing for too long costs the test
it was at; a new process goes on with the tests behind that one. A test whose failures are all refusals of ops that are
not lowered yet counts as refused; one that passes and left out such kernels, as partly refused. With --sanitizer TOOL each
test runs by itself under NVIDIA's compute-sanitizer.

    python3 run_tests.py [--filter GTEST_FILTER] [--log FILE] [--sanitizer memcheck|racecheck|synccheck] PROGRAM...
"""
import argparse
import collections
import math
import os
import queue
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from tools import environment, find, library_path, tool

# What does not run kernels of the default target, by the beginning of its name.
CPU_ONLY = ("Compile", "BulkStoresOnNvidia", "RequestLines", "VectorReference", "Nvidia", "Kernels/OnNvidia", "Kernels/LibraryOnNvidia",
            "DotUnits", "StreamingOnCpu", "CpuLines", "Plan.", "RunGraph", "OwnedArray", "GraphService", "SomeGraphs.RunOnAStreamOfTheProcessors",
            # By workers and tuners of the build tree, which fail where a test says so.
            "PlanFaults", "Fallback", "TunedGraphs",
            # Which program fails first, and how far estimates are off, is not promised.
            "Assert.FailsWithMessageLineProgramAndFirstLane", "Functions/MathOfF32.FastStaysNear")
REFUSED = re.compile(r"target `[^`]*`: (?:the option )?(.*?) is not (?:lowered to GPUs|there for GPUs) yet")
NO_DEVICE = re.compile(r"no CUDA driver|no CUDA device")
SANITIZER_FOUND = 86
KINDS = ("passed", "partly refused", "refused", "skipped", "no device", "failed", "crashed", "timed out", "not run")
BAD = ("failed", "crashed", "timed out", "not run")  # and without --dry-run "refused" and "no device"


def daemon():
    """What tests that start a daemon are told of it, where one is."""
    path = find("kilnd")
    return {"KILN_TEST_KILND": path} if path else {}


def daemon_with_libraries(folder):
    """The same where our libraries are not those of the tests' environment."""
    told = daemon()
    for name, path in told.items():
        told[name] = os.path.join(folder, "kilnd")
        with open(told[name], "w") as script:
            script.write(f"#!/bin/sh\nLD_LIBRARY_PATH='{library_path()}' exec '{path}' \"$@\"\n")
        os.chmod(told[name], 0o755)
    return told


def list_tests(executable, filter_):
    listing = subprocess.run([executable, "--gtest_list_tests", "--gtest_filter=" + filter_], capture_output=True,
                             text=True, env=environment())
    if listing.returncode != 0:
        sys.exit(f"{executable} does not run: {listing.stderr.strip() or listing.returncode}")
    out, suite = [], ""
    for line in listing.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            out.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return [name for name in out if not name.startswith(CPU_ONLY) and "DISABLED_" not in name]


def classify(text):
    """The kind of a failed test, and why."""
    failures = re.split(r"^.*: Failure$", text, flags=re.M)[1:]
    reasons = [REFUSED.search(part) for part in failures]
    if failures and all(reasons):
        return "refused", sorted({found.group(1) for found in reasons})
    if any(NO_DEVICE.search(part) for part in failures) and all(
            refused or NO_DEVICE.search(part) for refused, part in zip(reasons, failures)):
        return "no device", []
    return "failed", []


def sanitizer():
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    return found or sys.exit("compute-sanitizer is not on the PATH, nor in /usr/local/cuda/bin")


def loader():
    """The program that loads this one, and those of ours."""
    with open(sys.executable, "rb") as program:
        return re.search(rb"/lib[^\0]*/ld-linux[^\0]*", program.read()).group().decode()


def judge(mark, text):
    if "OK" in mark:
        reasons = sorted(set(REFUSED.findall(text)))
        return "partly refused" if reasons else "passed", reasons
    return ("skipped", []) if "SKIP" in mark else classify(text)


class Runner:
    def __init__(self, options):
        self.options = options
        self.work = queue.Queue()
        self.lock = threading.Lock()
        self.results = {}  # test -> (kind, reasons, seconds, text)
        self.end = time.monotonic() + options.deadline
        self.environment = environment(KILN_TEST_TARGETS="cuda", KILN_TEST_ALL="1", **daemon(), OMP_NUM_THREADS="1")
        self.wrap = []
        if options.sanitizer:
            self.scripts = tempfile.TemporaryDirectory()
            self.environment |= daemon_with_libraries(self.scripts.name)
            self.environment["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
            # The tool would end assemblers that tests start as their children, and loses who goes on as another program:
            # the loader itself is what it runs.
            self.wrap = [sanitizer(), "--tool", options.sanitizer, "--target-processes", "application-only",
                         "--error-exitcode", str(SANITIZER_FOUND), loader(), "--library-path", library_path()]

    def record(self, test, kind, reasons, seconds, text):
        with self.lock:
            self.results[test] = (kind, reasons, seconds, text)
            if kind in BAD:
                print(f"{kind:>9}  {test}  ({seconds:.1f} s)", flush=True)

    def run_some(self, executable, tests):
        """One process for as many of the tests as it survives; gives those that are left."""
        command = self.wrap + [executable, "--gtest_filter=" + ":".join(tests), "--gtest_color=no"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment)
        current, lines, started, done, pending = None, [], 0.0, set(), b""
        late = None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while late is None:
                wait = min(self.options.timeout, self.end - time.monotonic())
                if wait <= 0 or not selector.select(wait):
                    late = "not run" if time.monotonic() >= self.end else "timed out"
                    break
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    break
                *whole, pending = (pending + data).split(b"\n")
                for line in (raw.decode(errors="replace") for raw in whole):
                    mark, name = line[:12], line[13:].split(" (")[0].split(",")[0]
                    if mark == "[ RUN      ]":
                        current, lines, started = name, [], time.monotonic()
                    elif current and mark in ("[       OK ]", "[  FAILED  ]", "[  SKIPPED ]"):
                        text = "\n".join(lines)
                        kind, reasons = judge(mark, text)
                        self.record(current, kind, reasons, time.monotonic() - started, text)
                        done.add(current)
                        current = None
                    else:
                        lines.append(line)
                # A test that keeps talking must end too.
                if current and time.monotonic() - started > self.options.timeout:
                    late = "timed out"
        if late:
            process.kill()
        code = process.wait()
        lines.append(pending.decode(errors="replace"))
        if code == SANITIZER_FOUND:
            self.record(tests[0], "failed", [], 0.0, "\n".join(line for line in lines if line.startswith("=====")))
        left = [test for test in tests if test not in done]
        if late == "not run":
            for test in left:
                self.record(test, late, [], 0.0, "")
            return []
        if current is None and not left:
            return []
        broken = current or left[0]
        text = "\n".join(lines) + f"\n(the process ended with {code})"
        self.record(broken, late or "crashed", [], time.monotonic() - started if current else 0.0, text)
        return [test for test in left if test != broken]

    def serve(self):
        while True:
            try:
                executable, tests = self.work.get_nowait()
            except queue.Empty:
                return
            while tests:
                tests = self.run_some(executable, tests)

    def run(self):
        chunks = []
        for executable in map(tool, self.options.programs):
            tests = list_tests(executable, self.options.filter)
            tests = tests[self.options.part[0] - 1 :: self.options.part[1]]
            size = 1 if self.options.sanitizer else max(1, min(4, len(tests) // (3 * self.options.jobs)))
            # Strided: neighbours tend to take equally long.
            count = (len(tests) + size - 1) // size
            chunks += [(executable, tests[i::count]) for i in range(count)]
        for chunk in chunks:
            self.work.put(chunk)
        threads = [threading.Thread(target=self.serve) for _ in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def report(self):
        counts = collections.Counter(kind for kind, *_ in self.results.values())
        ops = collections.Counter(op for _, reasons, *_ in self.results.values() for op in reasons)
        if ops:
            print("refused: " + ", ".join(f"{op} ({count})" for op, count in ops.most_common()))
        for test, (kind, _, _, text) in sorted(self.results.items()):
            if kind in ("failed", "crashed"):
                lines = [line for line in text.splitlines() if line.strip()]
                print(f"--- {kind}: {test}\n    " + "\n    ".join(line[:200] for line in lines[:self.options.lines]))
        slow = sorted(self.results.items(), key=lambda item: -item[1][2])[:5]
        print("slowest: " + ", ".join(f"{test} {seconds:.1f} s" for test, (_, _, seconds, _) in slow))
        print("tests: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]) + f" of {len(self.results)}")
        if self.options.log:
            with open(self.options.log, "w") as log:
                for test, (kind, _, seconds, text) in sorted(self.results.items()):
                    log.write(f"=== {kind}: {test} ({seconds:.1f} s)\n" + ("" if kind == "passed" else text + "\n"))
        bad = BAD if self.options.dry_run else BAD + ("refused", "no device")
        return 1 if any(counts[kind] for kind in bad) or not self.results else 0


def part(text):
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not found or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with 1 <= I <= N")
    return int(found[1]), int(found[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="the I-th of N parts of the tests")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one test")
    parser.add_argument("--deadline", type=float, default=math.inf, help="seconds for all")
    parser.add_argument("--lines", type=int, default=12, help="lines shown of a failure")
    parser.add_argument("--log", default="", help="a file for all output of what did not pass")
    parser.add_argument("--sanitizer", default="", choices=["memcheck", "racecheck", "synccheck"])
    parser.add_argument("--dry-run", action="store_true", help="compile alone: no device is fine")
    parser.add_argument("programs", nargs="+")
    runner = Runner(parser.parse_args())
    runner.run()
    return runner.report()


if __name__ == "__main__":
    sys.exit(main())
