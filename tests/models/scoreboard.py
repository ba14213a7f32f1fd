#!/usr/bin/env python3
"""scoreboard.py OUT.jsonl [NAME…] [--stages inference,training] [--budget S] …: models through torch.compile(backend="kiln").

Each model and stage in a process of its own, with limits of time and memory; a row of JSON each, in OUT.jsonl. What OUT.jsonl has is not
run again, so that a run can be cut into parts. Other options go to run_model.py.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time

from models import SUITES

HERE = os.path.dirname(os.path.abspath(__file__))


def done(path: str) -> set[tuple[str, str, str, str]]:
    if not os.path.exists(path):
        return set()
    rows = [json.loads(line) for line in open(path)]
    return {(row["model"], row["stage"], row["device"], row["dtype"]) for row in rows}


def value(extra: list[str], flag: str, default: str) -> str:
    return extra[extra.index(flag) + 1] if flag in extra else default


def reason(text: str) -> str:
    """What a failed process said last."""
    lines = [line for line in text.strip().splitlines() if line.strip() and not line.startswith(("Set TORCH", "You can suppress", "    "))]
    errors = [line for line in lines if re.search(r"Error|Exception|kiln:", line)]
    return (errors or lines or ["nothing was said"])[-1][:400]


def run(name: str, stage: str, extra: list[str], limit: float, memory: int) -> dict:
    command = [sys.executable, "-W", "ignore", os.path.join(HERE, "run_model.py"), name, *extra]
    if stage == "training":
        command.append("--training")
    row = {"model": name, "suite": next(s for s, names in SUITES.items() if name in names), "stage": stage,
           "device": value(extra, "--device", "cpu"), "dtype": value(extra, "--dtype", "float32"), "whole": False, "right": False}

    def limit_memory() -> None:
        if memory:
            resource.setrlimit(resource.RLIMIT_DATA, (memory << 30, memory << 30))
    start = time.monotonic()
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=HERE, preexec_fn=limit_memory)
        lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
        if process.returncode == 0 and lines:
            row = json.loads(lines[-1])
        else:
            row["failed"] = f"exit {process.returncode}: {reason(process.stderr)}"
    except subprocess.TimeoutExpired:
        row["failed"] = f"no answer in {limit:.0f} s"
    return row | {"took_s": round(time.monotonic() - start, 1)}


def summary(path: str) -> None:
    rows = [json.loads(line) for line in open(path)]
    for stage in ("inference", "training"):
        of = [row for row in rows if row["stage"] == stage]
        if of:
            right = [row for row in of if row["right"]]
            whole = [row for row in right if row["whole"]]
            print(f"{stage}: {len(of)} models, {len(right)} right, {len(whole)} of them whole")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stages", default="inference,training")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds in all")
    parser.add_argument("--limit", type=float, default=600, help="seconds a model")
    parser.add_argument("--memory", type=int, default=0, help="GiB a process; 0: no limit")
    given, extra = parser.parse_known_intermixed_args()
    names = given.names or [name for names in SUITES.values() for name in names]
    unknown = [name for name in names if not any(name in of for of in SUITES.values())]
    if unknown:
        sys.exit(f"scoreboard.py: no model is called {', '.join(unknown)}")
    end, known = time.monotonic() + given.budget, done(given.out)
    device, dtype = value(extra, "--device", "cpu"), value(extra, "--dtype", "float32")
    for name in names:
        for stage in given.stages.split(","):
            if (name, stage, device, dtype) in known:
                continue
            left = end - time.monotonic()
            if left < 5:
                print("out of time before", name)
                return summary(given.out)
            row = run(name, stage, extra, min(given.limit, left), given.memory)
            with open(given.out, "a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps({key: row[key] for key in row if key not in ("suite", "device", "dtype", "torch")}), flush=True)
    summary(given.out)


if __name__ == "__main__":
    main()
