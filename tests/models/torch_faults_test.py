#!/usr/bin/env python3
"""torch.compile(backend="kiln") while its daemon dies, from threads, and in processes that others start."""
from __future__ import annotations

import contextlib
import copy
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, Callable, Iterator

# Processes that the tests start share it.
TEMP = os.environ.get("KILN_FAULTS") or tempfile.mkdtemp(prefix="kiln-faults-")
RUNTIME, CACHE = pathlib.Path(TEMP, "run"), pathlib.Path(TEMP, "cache")
RUNTIME.mkdir(mode=0o700, exist_ok=True)
os.environ |= {"KILN_RUNTIME_DIR": str(RUNTIME), "KILN_CACHE_DIR": str(CACHE)}

import kiln  # noqa: E402
import kiln_torch  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


GONE = "closed the connection|ended while starting|Connection reset by peer"


def processes() -> list[int]:
    """The daemon, or a child of this process in its place, and all that it has started."""
    parents, found = {}, []
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (folder / "cmdline").read_text().split("\0")
            if words[0].endswith("kilnd") and (str(RUNTIME) in words or parents[int(folder.name)] == os.getpid()):
                found.append(int(folder.name))
    for process in found:
        found += [child for child, parent in parents.items() if parent == process and child not in found]
    return found


def lives(process: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def kill_daemon() -> int:
    found = processes()
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    while any(lives(process) for process in found):
        time.sleep(0.001)
    return len(found)


def compiles() -> int:
    """What workers have compiled so far."""
    logs = sorted(RUNTIME.glob("kiln-worker.log*"))
    return sum(log.read_text().count('"event":"compiled"') for log in logs)


def layers(width: int) -> nn.Module:
    torch.manual_seed(width)
    return nn.Sequential(nn.Linear(12, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 5))


def loss_of(call: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(call(x), torch.arange(len(x)) % 5)


class FaultsTest(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        kiln_torch.reset_report()
        torch.manual_seed(1)
        self.x = torch.randn(7, 12)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[None]:
        torch._dynamo.reset()
        kiln_torch.reset_report()
        yield

    def step(self, module: nn.Module, call: Callable[..., torch.Tensor]) -> None:
        """A step of training is PyTorch's own."""
        other = copy.deepcopy(module)
        loss_of(other, self.x).backward()
        module.zero_grad()
        loss = loss_of(call, self.x)
        loss.backward()
        torch.testing.assert_close(loss, loss_of(other, self.x), rtol=1e-4, atol=1e-5)
        for mine, theirs in zip(module.parameters(), other.parameters()):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)

    @contextlib.contextmanager
    def dying(self, wanted: Callable[[int], bool], again: bool) -> Iterator[list[int]]:
        """Kills the daemon as soon as a part is compiled whose number is wanted, while it is; once, or as long as it is."""
        real, part, deaths = kiln.Graph.compile, [0], [0]

        def compile_it(graph: kiln.Graph, *arguments: Any, **named: Any) -> kiln.CompiledGraph:
            part[0] += 1
            if not wanted(part[0]):
                return real(graph, *arguments, **named)
            done = threading.Event()

            def kill() -> None:
                while not done.is_set():
                    if len(processes()) > 1:  # it has a worker
                        deaths[0] += kill_daemon() > 0
                        if not again:
                            return
                    time.sleep(0.001)
            killer = threading.Thread(target=kill)
            killer.start()
            try:
                return real(graph, *arguments, **named)
            finally:
                done.set()
                killer.join()
        kiln.Graph.compile = compile_it
        try:
            yield deaths
        finally:
            kiln.Graph.compile = real
            if again:  # after a daemon that could not be had, a client asks for none for up to 30 s; another one does at once
                kiln.Client._default = None

    def test_between_steps_nothing_is_lost(self) -> None:
        module = layers(21)
        call = torch.compile(module, backend="kiln")
        self.step(module, call)
        before = compiles()
        self.assertGreater(kill_daemon(), 0)
        for _ in range(3):
            self.step(module, call)
        report = kiln_torch.report()
        self.assertEqual((report["parts"], report["fallbacks"]), (2, {}))
        self.assertEqual(compiles(), before)

    def test_one_death_in_a_compile_is_made_good(self) -> None:
        for part, name in ((1, "forward"), (2, "backward")):
            with self.subTest(name), self.fresh():
                module = layers(30 + part)
                with self.dying(lambda number: number == part, again=False) as deaths:
                    self.step(module, torch.compile(module, backend="kiln"))
                self.assertEqual(deaths[0], 1)
                report = kiln_torch.report()
                self.assertEqual((report["parts"], report["fallbacks"]), (2, {}))

    def test_a_daemon_that_always_dies_leaves_it_to_pytorch(self) -> None:
        for part, name in ((1, "forward"), (2, "backward")):
            with self.subTest(name), self.fresh():
                module = layers(40 + part)
                call = torch.compile(module, backend="kiln")
                with self.dying(lambda number: number == part, again=True) as deaths, self.assertLogs("kiln_torch", logging.WARNING) as log:
                    self.step(module, call)
                self.assertGreaterEqual(deaths[0], 1)
                report = kiln_torch.report()
                # A daemon that dies as it starts is not asked for again at once, so that the other part may stay as well.
                self.assertIn(report["parts"], (0, 1))
                self.assertGreater(report["eager_calls"], 0)
                self.assertEqual([reason for reason in report["fallbacks"] if not re.search(GONE, reason)], [])
                self.assertEqual(len(log.output), len(report["fallbacks"]))
                # What stayed does so, and what was compiled goes on.
                self.step(module, call)
                self.assertEqual(kiln_torch.report(), report)

    def test_where_all_is_asked_for_it_is_an_error(self) -> None:
        module = layers(51)
        call = torch.compile(module, backend="kiln", options={"full": True})
        with self.dying(lambda number: True, again=True):
            with self.assertRaisesRegex(Exception, f"kiln: .*({GONE})"):
                self.step(module, call)
        self.step(module, call)  # a daemon that lives makes the next call whole
        self.assertEqual(kiln_torch.report()["parts"], 2)

    def test_the_next_process_compiles_nothing_again(self) -> None:
        program = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from torch_faults_test import layers, loss_of
import kiln_torch
module = layers(61)
loss_of(torch.compile(module, backend="kiln"), torch.ones(7, 12)).backward()
print(kiln_torch.report()["parts"], kiln_torch.report()["eager_calls"])
"""
        counts = []
        for _ in range(2):
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, os.path.dirname(os.path.abspath(__file__))], check=True,
                                  capture_output=True, text=True, env={**os.environ, "KILN_FAULTS": TEMP})
            self.assertEqual(done.stdout, "2 0\n")
            time.sleep(1)  # entries are written behind the answer
            kill_daemon()
            counts.append(compiles())
        self.assertGreater(counts[0], 0)
        self.assertEqual(counts[1], counts[0])

    def test_models_are_compiled_on_threads(self) -> None:
        modules = [layers(70 + i) for i in range(4)]
        failed = []

        def work(module: nn.Module) -> None:
            try:
                self.step(module, torch.compile(module, backend="kiln"))
            except BaseException as error:  # a thread's own is nobody's
                failed.append(error)
        threads = [threading.Thread(target=work, args=(module,)) for module in modules]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(kiln_torch.report()["eager_calls"], 0)

    def test_workers_of_a_loader_compute_and_compile(self) -> None:
        module, other = layers(81), layers(82)
        call, theirs = torch.compile(module, backend="kiln"), torch.compile(other, backend="kiln")
        self.step(module, call)

        class Rows(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return 4

            def __getitem__(self, index: int) -> torch.Tensor:
                with torch.no_grad():
                    x = torch.full((7, 12), float(index))
                    return torch.stack([call(x), theirs(x)])  # the second is compiled by each worker
        with torch.no_grad():
            for index, rows in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=2)):
                x = torch.full((7, 12), float(index))
                torch.testing.assert_close(rows, torch.stack([module(x), other(x)]), rtol=1e-4, atol=1e-5)
        self.step(module, call)


if __name__ == "__main__":
    try:
        unittest.main()
    finally:
        kill_daemon()
        shutil.rmtree(TEMP, ignore_errors=True)
