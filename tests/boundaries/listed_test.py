#!/usr/bin/env python3
"""listed.py finds what it is there to find, each in a small tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("listed.py")


def unlisted(lists):
    """Of a tree with tests/a/one_test.cpp and tests/a/deep/two_test.cpp, and these CMakeLists.txt by folder."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"tests/a/one_test.cpp": "", "tests/a/deep/two_test.cpp": "",
                 **{f"{name}/CMakeLists.txt": text for name, text in lists.items()}}
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        run = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, check=False)
    names = [line.split(":")[0].removeprefix("tests/a/") for line in run.stdout.splitlines()]
    assert run.returncode == (1 if names else 0)
    return names


class ListedTest(unittest.TestCase):
    def test_names(self):
        self.assertEqual(unlisted({"tests/a": "add_executable(a one_test.cpp\n  deep/two_test.cpp)"}), [])
        self.assertEqual(unlisted({"tests/a": "add_executable(a one_test.cpp)", "tests/a/deep": "add_executable(b two_test.cpp)"}), [])
        self.assertEqual(unlisted({"tests/a": "add_executable(a one_test.cpp)"}), ["deep/two_test.cpp"])
        self.assertEqual(unlisted({"tests/a": "# one_test.cpp\nadd_executable(a another_one_test.cpp)"}),
                         ["deep/two_test.cpp", "one_test.cpp"])

    def test_patterns(self):
        self.assertEqual(unlisted({"tests": 'file(GLOB_RECURSE s CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/a/*.cpp")'}), [])
        self.assertEqual(unlisted({"tests": "file(GLOB_RECURSE s b/*.cpp)"}), ["deep/two_test.cpp", "one_test.cpp"])
        self.assertEqual(unlisted({"tests/a": "file(GLOB s *_test.cpp)"}), ["deep/two_test.cpp"])


if __name__ == "__main__":
    unittest.main()
