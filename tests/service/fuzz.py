#!/usr/bin/env python3
"""Fuzzes for hours of processor time: several processes a target, which share a corpus.

fuzz.py SECONDS OUT "TARGET:WORKERS ..." [--programs DIR] [--inputs DIR] [--corpus DIR]

PROGRAMS has fuzz-TARGET; INPUTS has libFuzzer's flags, TARGET.dict and the folders seeds/TARGET, regressions/TARGET and corpus/TARGET; CORPUS,
which may be another run's OUT/TARGET/merged, has more inputs in a folder a target. Every minute and at the end OUT/TARGET.txt
says how far it is: processor seconds as the kernel counts them, runs, inputs in the corpus, findings. What was found (a crash,
a leak, a hang, a broken promise) is kept in OUT/TARGET/findings with its log, and the worker starts again. At the end the
corpora are minimised and packed: OUT/corpus.tar.xz. OUT/done says that all this has happened, and how.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
MAX_RESTARTS = 20
MAX_PACKED = 15 << 20


class Worker:
    """One process after another; a finding ends a process, and the next one goes on."""

    def __init__(self, target, number):
        self.target, self.number = target, number
        self.ended_cpu = 0.0
        self.ended_runs = 0
        self.restarts = 0
        self.process = None

    def start(self, seconds):
        self.log = self.target.directory / f"worker{self.number}.{self.restarts}.log"
        command = [self.target.program, f"-max_total_time={max(1, int(seconds))}", *self.target.flags(),
                   f"-artifact_prefix={self.target.findings}/", *self.target.inputs]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def cpu(self):
        if self.process is None:
            return self.ended_cpu
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return self.ended_cpu + (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:
            return self.ended_cpu

    def runs(self):
        """While it runs: as of the last line of its log."""
        if self.process is None:
            return self.ended_runs
        with open(self.log, "rb") as log:
            log.seek(max(0, self.log.stat().st_size - 4096))
            numbers = re.findall(rb"^#(\d+)", log.read(), re.M)
        return self.ended_runs + (int(numbers[-1]) if numbers else 0)

    def reap(self):
        """The exit status once it has ended, else None."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            return None
        text = self.log.read_bytes()
        final = re.findall(rb"stat::number_of_executed_units: *(\d+)", text)
        numbers = final or re.findall(rb"^#(\d+)", text, re.M)
        self.ended_runs += int(numbers[-1]) if numbers else 0
        self.ended_cpu += usage.ru_utime + usage.ru_stime
        self.process.returncode = os.waitstatus_to_exitcode(status)
        code = self.process.returncode
        self.process = None
        return code


class Target:
    def __init__(self, name, workers, arguments):
        self.name = name
        self.program = f"{arguments.programs}/fuzz-{name}"
        self.directory = Path(arguments.out) / name
        self.corpus = self.directory / "corpus"
        self.merged = self.directory / "merged"
        self.findings = self.directory / "findings"
        self.summary = Path(arguments.out) / f"{name}.txt"
        for directory in (self.corpus, self.findings):
            directory.mkdir(parents=True, exist_ok=True)
        given = [f"{arguments.inputs}/{kind}/{name}" for kind in ("seeds", "regressions", "corpus")]
        if arguments.corpus:
            given.append(f"{arguments.corpus}/{name}")
        self.given = [directory for directory in given if os.path.isdir(directory)]
        self.inputs = [str(self.corpus), *self.given]
        self.known_flags = [*Path(arguments.inputs, "flags").read_text().split(), "-reload=5",
                            f"-dict={arguments.inputs}/{name}.dict"]
        self.more_flags = []
        self.found = []
        self.note = ""
        self.workers = [Worker(self, number) for number in range(workers)]

    def flags(self):
        return [*self.known_flags, *self.more_flags]

    def probe(self):
        """All inputs once. Where ptrace is forbidden, leaks cannot be looked for; a finding here is one."""
        command = [self.program, "-runs=0", *self.flags(), f"-artifact_prefix={self.findings}/", *self.inputs]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        output = ended.stdout + ended.stderr
        if b"LeakSanitizer has encountered a fatal error" in output:
            self.more_flags = ["-detect_leaks=0"]
            self.note = "; leaks are not looked for, this machine forbids it"
        elif ended.returncode != 0:
            self.keep_finding(ended.returncode, output)

    def keep_finding(self, code, output):
        number = len(self.found)
        (self.findings / f"log{number}").write_bytes(output[-100_000:])
        inputs = re.findall(rb"Test unit written to (\S+)", output)
        self.found.append(f"exit status {code}, input {inputs[-1].decode() if inputs else 'none was written'}, log{number}")

    def step(self, left):
        """Looks after the processes; False when all have ended."""
        for worker in self.workers:
            if worker.process is None:
                continue
            code = worker.reap()
            if code is None:
                continue
            # libFuzzer leaves with 72 when it is interrupted.
            if code not in (0, 72):
                self.keep_finding(code, worker.log.read_bytes())
            if code != 72 and left > 10 and worker.restarts < MAX_RESTARTS:
                worker.restarts += 1
                worker.start(left)
        return any(worker.process for worker in self.workers)

    def write_summary(self, state):
        cpu = sum(worker.cpu() for worker in self.workers)
        runs = sum(worker.runs() for worker in self.workers)
        size = sum(1 for _ in os.scandir(self.corpus))
        lines = [f"{self.name}: {state}, {len(self.workers)} workers, {cpu:.0f} processor seconds ({cpu / 3600:.3f} h), "
                 f"{runs} runs, {size} inputs new, {len(self.found)} findings{self.note}"]
        if self.merged.is_dir():
            lines[0] += f", {sum(1 for _ in os.scandir(self.merged))} inputs after minimising all"
        lines += [f"  finding: {text}" for text in self.found]
        self.summary.with_suffix(".new").write_text("\n".join(lines) + "\n")
        self.summary.with_suffix(".new").rename(self.summary)

    def merge(self):
        self.merged.mkdir(exist_ok=True)
        command = [self.program, "-merge=1", *self.flags(), f"-artifact_prefix={self.findings}/merge-",
                   str(self.merged), *self.given, str(self.corpus)]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=240)
        except subprocess.TimeoutExpired:
            self.note += "; minimising took too long"


def pack(out, targets):
    """The minimised corpora, or what was new where there is none; the smallest inputs first where it is too much."""
    names = []
    for target in targets:
        files = list(target.merged.iterdir()) if target.merged.is_dir() else []
        files = files or list(target.corpus.iterdir())
        names += [(file.stat().st_size, file.relative_to(out)) for file in files]
    names.sort()
    share = 1.0
    while True:
        chosen = names[:int(len(names) * share)]
        listing = "".join(f"{name}\n" for _, name in chosen)
        subprocess.run(["tar", "-C", out, "-cJf", out / "corpus.tar.xz", "-T", "-"], input=listing.encode(), check=True)
        if (out / "corpus.tar.xz").stat().st_size <= MAX_PACKED:
            return len(chosen)
        share *= 0.7


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("seconds", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("targets")
    here = Path(__file__).resolve().parent
    parser.add_argument("--programs", default=here / "fuzz")
    parser.add_argument("--inputs", default=here / "fuzz")
    parser.add_argument("--corpus")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    targets = [Target(name, int(workers), arguments)
               for name, workers in (word.split(":") for word in arguments.targets.split())]
    interrupted = threading.Event()

    def interrupt(*_):
        interrupted.set()
        for target in targets:
            for worker in target.workers:
                if worker.process:
                    worker.process.send_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    end = time.monotonic() + arguments.seconds
    for target in targets:
        target.probe()
        for worker in target.workers:
            worker.start(end - time.monotonic())
    next_summary = time.monotonic()
    running = True
    while running:
        left = 0 if interrupted.is_set() else end - time.monotonic()
        running = any([target.step(left) for target in targets])
        if time.monotonic() >= next_summary:
            next_summary += 60
            for target in targets:
                target.write_summary("running")
        time.sleep(0.5)
    for target in targets:
        target.write_summary("minimising")
    merging = [threading.Thread(target=target.merge) for target in targets]
    for thread in merging:
        thread.start()
    for thread in merging:
        thread.join()
    packed = pack(arguments.out, targets)
    for target in targets:
        target.write_summary("done")
    findings = sum(len(target.found) for target in targets)
    (arguments.out / "done").write_text(f"{findings} findings, {packed} inputs packed\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
