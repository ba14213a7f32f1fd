#!/usr/bin/env python3
"""listed.py SOURCE_DIR: every *_test.cpp is built: a CMakeLists.txt of its folder or above names it, or looks for such files.

A file that none names is compiled by nobody, and its tests never run.
"""
import fnmatch
import pathlib
import re
import sys


def is_named(words, name):
    return any(word.removeprefix("${CMAKE_CURRENT_SOURCE_DIR}/") == name for word in words)


def is_found(text, name):
    """By file(GLOB …), whose * stays in a folder, or by file(GLOB_RECURSE …)."""
    for kind, patterns in re.findall(r"file\((GLOB(?:_RECURSE)?)\s+\w+([^)]*)\)", text):
        for pattern in patterns.replace('"', " ").split():
            pattern = pattern.removeprefix("${CMAKE_CURRENT_SOURCE_DIR}/")
            same_depth = kind == "GLOB_RECURSE" or pattern.count("/") == name.count("/")
            if same_depth and fnmatch.fnmatch(name, pattern):
                return True
    return False


def is_built(tests, path):
    for folder in path.parents:
        lists = folder / "CMakeLists.txt"
        if lists.is_file():
            text = "\n".join(line.split("#")[0] for line in lists.read_text(encoding="utf-8").splitlines())
            name = path.relative_to(folder).as_posix()
            if is_named(re.split(r'[\s()"]+', text), name) or is_found(text, name):
                return True
        if folder == tests:
            return False
    return False


def main():
    tests = pathlib.Path(sys.argv[1]) / "tests"
    found = sorted(tests.rglob("*_test.cpp"))
    unlisted = [path for path in found if not is_built(tests, path)]
    for path in unlisted:
        print(f"{path.relative_to(tests.parent)}: no CMakeLists.txt has it, and its tests do not run")
    return 1 if unlisted or not found else 0


if __name__ == "__main__":
    sys.exit(main())
