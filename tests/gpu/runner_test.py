"""What run_tests.py makes of tests that pass, fail, are refused, die or hang: a stand-in for a googletest executable."""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = r'''#!/usr/bin/env python3
import os, sys, time
names = ["S.Passes", "S.Dies", "S.Hangs", "S.LeavesOut", "S.Refused", "S.Fails"]
if "--gtest_list_tests" in sys.argv:
    print("S.\n" + "\n".join("  " + name[2:] + "  # GetParam() = 1" for name in names))
    sys.exit()
refusal = "a.kiln:1: error: target `sm_90a`: %s is not lowered to GPUs yet"
for name in next(a for a in sys.argv if a.startswith("--gtest_filter=")).split("=")[1].split(":"):
    print("[ RUN      ] " + name, flush=True)
    if name == "S.Dies": os._exit(1)
    if name == "S.Hangs": time.sleep(100)
    if name == "S.LeavesOut": print("[ REFUSED  ] " + refusal % "sort")
    if name == "S.Refused": print("x.cpp:4: Failure\n" + refusal % "scan")
    if name == "S.Fails": print("x.cpp:4: Failure\nwrong")
    bad = name in ("S.Refused", "S.Fails")
    print("[  FAILED  ] " + name + ", where GetParam() = 1 (1 ms)" if bad else "[       OK ] " + name + " (1 ms)", flush=True)
'''

here = os.path.dirname(os.path.abspath(__file__))
with tempfile.TemporaryDirectory() as build:
    os.mkdir(os.path.join(build, "bin"))
    with open(os.path.join(build, "bin", "program"), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
        file.write(PROGRAM)

    def run(*options):
        log = os.path.join(build, "log")
        done = subprocess.run([sys.executable, os.path.join(here, "run_tests.py"), "--jobs", "2", "--timeout", "3", "--log", log,
                               *options, "program"], env=dict(os.environ, KILN_GPU_BUILD=build), capture_output=True, text=True)
        print(done.stdout, done.stderr, sep="")
        return done, dict(reversed(found) for found in re.findall(r"^=== (.*): (\S+) \(", open(log).read(), re.M))

    done, kinds = run()
    parts = [run("--part", part)[1] for part in ("1/2", "2/2")]
    assert "is not I/N" in run("--part", "3/2")[0].stderr
expected = {"S.Passes": "passed", "S.Dies": "crashed", "S.Hangs": "timed out", "S.LeavesOut": "partly refused",
            "S.Refused": "refused", "S.Fails": "failed"}
assert kinds == expected, kinds
assert done.returncode == 1 and "refused: sort (1), scan (1)" in done.stdout
assert set(parts[0]) | set(parts[1]) == set(kinds) and len(parts[0]) == len(parts[1]) == 3, parts
