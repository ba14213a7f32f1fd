#!/usr/bin/env python3
"""What building and testing cost.

    tests/costs.py compile [--build DIR] [REGEX] [FLAG...]   CPU seconds of each compilation whose object matches, dearest first;
                                                            FLAG is added: -O1 to see what optimising costs, -ftime-report
    tests/costs.py build [--build DIR]                       seconds of each target in ninja's log of a build from nothing
    tests/costs.py suite [--build DIR]                       seconds of each suite, and of the dearest tests, as ctest last saw them

`compile` goes round the compiler's cache, and its seconds hold on a loaded machine too; the others' are of the clock.
"""
import collections
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile


def table(costs, most):
    print(f"{sum(costs.values()):8.1f}  in all")
    for name, seconds in sorted(costs.items(), key=lambda item: -item[1])[:most]:
        print(f"{seconds:8.1f}  {name}")


def target_of(path):
    """The target of an object, or what a linked file is."""
    match = re.search(r"(?:^|/)CMakeFiles/([^/]+)\.dir/", path)
    return match[1] if match else path


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compile_costs(build, pattern="", *flags):
    costs = {}
    with tempfile.TemporaryDirectory() as directory:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            at = words.index("-o") + 1
            name = os.path.relpath(os.path.join(entry["directory"], words[at]), build)
            if not re.search(pattern, name):
                continue
            words[at] = os.path.join(directory, "object")
            before = processor_seconds()
            done = subprocess.run([*words, *flags], cwd=entry["directory"], env=dict(os.environ, CCACHE_DISABLE="1"),
                                  capture_output=True, text=True)
            costs[name] = processor_seconds() - before
            print(f"{costs[name]:8.1f}  {name}\n{done.stderr}", end="", file=sys.stderr, flush=True)
    table(costs, 40)


def build_costs(build):
    seconds = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        seconds[output] = (int(end) - int(start)) / 1000
    costs = collections.Counter()
    for output, cost in seconds.items():
        costs[target_of(output)] += cost
    table(costs, 60)


def suite_costs(build):
    tests = {}
    for line in (build / "Testing/Temporary/CTestCostData.txt").read_text().splitlines():
        words = line.split()
        if len(words) == 3:
            tests[words[0]] = float(words[2])
    suites = collections.Counter()
    for test, cost in tests.items():
        suites[re.sub(r"\.[^.]*$", "", test)] += cost
    table(suites, 40)
    table(tests, 40)


words = sys.argv[1:]
where = pathlib.Path(__file__).resolve().parent.parent / "build/release"
if "--build" in words:
    at = words.index("--build")
    where = pathlib.Path(words[at + 1]).resolve()
    del words[at:at + 2]
commands = {"compile": compile_costs, "build": build_costs, "suite": suite_costs}
if not words or words[0] not in commands:
    sys.exit(__doc__)
commands[words[0]](where, *words[1:])
