#!/usr/bin/env python3
"""A library that meets a daemon of another build or version: beside another installation, in an upgrade, of another protocol, deaf."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import kiln

PROGRAMS = pathlib.Path(kiln._library.library._name).resolve().parents[1] / "bin"
NOTE = b"\4\0\0\0\24\0\0\0\3\0\0\0GNU\0"  # elf(5): a build-id of 20 bytes follows
# Prints ok for each kernel that a line of the input asks for.
CLIENT = """
import ctypes, sys, kiln
class Ints:
    def __init__(self):
        self.memory = (ctypes.c_float * 4)(1, 2, 3, 4)
        self.__array_interface__ = {"version": 3, "shape": (4,), "typestr": "<f4", "strides": None, "data": (ctypes.addressof(self.memory), False)}
for line in sys.stdin:
    x, out = Ints(), Ints()
    try:
        kiln.library_kernel("vector_add").compile("cpu", config={"BLOCK": int(line)}).launch(x, x, out, 4)
        print("ok" if list(out.memory) == [2, 4, 6, 8] else list(out.memory), flush=True)
    except kiln.Error as failed:
        print(failed.code, failed, flush=True)
"""


class Client:
    def __init__(self, kilnd: pathlib.Path, runtime: pathlib.Path):
        environment = {**os.environ, "KILN_KILND": str(kilnd), "KILN_RUNTIME_DIR": str(runtime), "KILN_CACHE_DIR": str(runtime) + "-cache"}
        self.process = subprocess.Popen([sys.executable, "-B", "-c", CLIENT], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def compiles(self, block: int) -> str:
        self.process.stdin.write(f"{block}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class VersionsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="kiln-versions-"))
        self.runtime = self.temp / "run"
        self.runtime.mkdir(mode=0o700)
        self.clients: list[Client] = []

    def tearDown(self) -> None:
        for client in self.clients:
            client.end()
        shutil.rmtree(self.temp)  # a daemon whose socket has gone leaves
        end = time.monotonic() + 20
        while self.daemons() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.daemons(), {})

    def client(self, kilnd: pathlib.Path) -> Client:
        self.clients.append(Client(kilnd, self.runtime))
        return self.clients[-1]

    def installation(self, name: str, change: int) -> pathlib.Path:
        """Its kilnd, of another build for each number."""
        folder = self.temp / name
        folder.mkdir(exist_ok=True)
        (folder / "kiln-worker").unlink(missing_ok=True)
        (folder / "kiln-worker").symlink_to(PROGRAMS / "kiln-worker")
        program = bytearray((PROGRAMS / "kilnd").read_bytes())
        at = program.index(NOTE) + len(NOTE)
        program[at] ^= change
        new = folder / "kilnd.new"
        new.write_bytes(program)
        new.chmod(0o700)
        return new.rename(folder / "kilnd")

    def daemons(self) -> dict[str, str]:
        """Runtime directories of our daemons: their programs."""
        out = {}
        for process in pathlib.Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_text().split("\0") if process.name.isdigit() else []
            except OSError:
                continue
            if words and words[0].endswith("kilnd") and "--runtime-dir" in words:
                runtime = words[words.index("--runtime-dir") + 1]
                if runtime.startswith(str(self.temp)):
                    out[runtime] = words[0]
        return out

    def process(self) -> int:
        """Of the daemon that listens; a file's inode may be the next file's."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.runtime / "kilnd.v1.sock"))
            return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def test_installations_have_a_daemon_each(self) -> None:
        one, other = self.installation("one", 1), self.installation("other", 2)
        first, second = self.client(one), self.client(other)
        self.assertEqual((first.compiles(128), second.compiles(128)), ("ok", "ok"))
        self.assertEqual((first.compiles(256), second.compiles(512)), ("ok", "ok"))
        found = self.daemons()
        self.assertEqual(sorted(found.values()), [str(one), str(other)])
        self.assertEqual(found[str(self.runtime)], str(one))

    def test_an_upgrade_takes_the_daemon_along(self) -> None:
        kilnd = self.installation("one", 1)
        old = self.client(kilnd)
        self.assertEqual(old.compiles(128), "ok")
        running = self.process()
        self.installation("one", 3)
        new = self.client(kilnd)
        self.assertEqual(new.compiles(256), "ok")
        self.assertNotEqual(self.process(), running)
        self.assertEqual((old.compiles(512), old.compiles(256)), ("ok", "ok"))
        self.assertEqual(list(self.daemons()), [str(self.runtime)])

    def serve(self, answer: bytes) -> None:
        """What answers on the socket in the daemon's place, until the test ends."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.runtime / "kilnd.v1.sock"))
        listener.listen()
        kept = []

        def accept() -> None:
            while True:
                try:
                    kept.append(listener.accept()[0])
                    kept[-1].sendall(answer)
                except OSError:
                    return
        thread = threading.Thread(target=accept)
        thread.start()

        def end() -> None:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in (listener, *kept):
                each.close()
        self.addCleanup(end)

    def test_another_protocol_is_left_to_others(self) -> None:
        json = b'{"min_version": 512, "max_version": 513, "builder_id": "b", "native_target": "cpu", "pid": 1, "daemon_path": "/future/kilnd"}'
        self.serve(struct.pack("<4sHHIIQQ", b"KILN", 0x0200, 1, 0, len(json), 0, 0) + json)
        self.assertEqual(self.client(PROGRAMS / "kilnd").compiles(128), "ok")  # by a child of its own
        self.assertEqual(list(self.daemons()), [])
        said = self.client(self.temp / "none").compiles(128)  # where there is none to start, the error says what runs
        self.assertRegex(said, r"^VERSION_MISMATCH .* speaks protocol 1\.0 to 1\.0, the daemon \(/future/kilnd\) 2\.0 to 2\.1; KILN_KILND names")

    def test_a_deaf_daemon_is_an_error_in_time(self) -> None:
        self.serve(b"")
        began = time.monotonic()
        said = self.client(PROGRAMS / "kilnd").compiles(128)
        self.assertIn("does not greet", said)
        self.assertLess(time.monotonic() - began, 60)


if __name__ == "__main__":
    unittest.main()
