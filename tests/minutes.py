#!/usr/bin/env python3
"""minutes.py BUILD_DIR TIMES_XML: what each folder of tests/ took of a run by `ctest --output-junit`, and the longest tests.

Times are of tests that ran beside each other: on two cores their sum is twice what one waits.
"""
import collections
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

LONGEST = 10


def folders(build):
    """Test -> folder below tests/, by the directory that CMake added it in."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, stdout=subprocess.PIPE, text=True).stdout
    top = os.path.join(os.path.realpath(build), "tests")
    out = {}
    for test in json.loads(shown)["tests"]:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        out[test["name"]] = os.path.relpath(os.path.realpath(properties.get("WORKING_DIRECTORY", top)), top)
    return out


def main(build, report):
    folder_of = folders(build)
    seconds, counts, longest = collections.Counter(), collections.Counter(), []
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        time, folder = float(case.get("time")), folder_of.get(case.get("name"), "?")
        seconds[folder] += time
        counts[folder] += 1
        longest.append((time, case.get("name")))
    print(f"{'tests/':24} {'tests':>6} {'minutes':>8}")
    for folder, time in seconds.most_common():
        print(f"{'dsl' if folder == '.' else folder:24} {counts[folder]:6} {time / 60:8.1f}")
    print(f"{'all':24} {sum(counts.values()):6} {sum(seconds.values()) / 60:8.1f}\n")
    for time, name in sorted(longest, reverse=True)[:LONGEST]:
        print(f"{time:8.1f} s  {name}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
