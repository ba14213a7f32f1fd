#!/usr/bin/env python3
"""same_as_readme.py README SOURCE: the C++ example of the README is the source that the tests compile."""
import sys

readme, source = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
blocks = readme.split("```cpp\n")[1:]
if not blocks:
    sys.exit("README.md has no ```cpp block")
example = blocks[0].split("```")[0]
# The file's first line says where it comes from; the README needs no such word.
expected = source.split("\n", 1)[1]
if example.strip() != expected.strip():
    sys.exit("the example of README.md differs from tests/example/scale_add.cpp")
