#!/usr/bin/env python3
"""Each thread that our programs begin reports a crash even where its stack has overflowed (kiln/wire/crash_report.h):
what begins one says `reporting`, and work for a pool of threads goes there by post_work()."""
import pathlib
import re
import sys

BEGINS = re.compile(r"std::j?thread\(|std::async\(|\bpthread_create\(|\bthread_\(|\bthreads_?\.emplace_back\(")
POSTS = re.compile(r"asio::post\((?!io_|descriptor_\.get_executor\(\))")


def complaints(text):
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        if BEGINS.search(code) and "reporting(" not in code:
            yield number, "a thread begins without wire::reporting()"
        if POSTS.search(code):
            yield number, "work for threads goes there by post_work()"


def main():
    # The check itself can fail.
    for line in ("thread_ = std::jthread([] {});", "threads.emplace_back(run);", "asio::post(writers_, work);"):
        assert list(complaints(line)), line
    root = pathlib.Path(sys.argv[1])
    files = [path for room in ("dsl", "client", "codegen/worker", "autotune", "server")
             for path in sorted((root / room).rglob("*")) if path.suffix in (".h", ".cpp")]
    assert len(files) > 100, "these are not the rooms"
    found = 0
    for path in files:
        if path.name in ("thread_work.h",):  # post_work() itself
            continue
        for number, what in complaints(path.read_text()):
            print(f"{path}:{number}: {what}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
