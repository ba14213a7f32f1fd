#!/usr/bin/env python3
"""same_as_readme.py README SOURCE CMAKELISTS: the README's C++ example and its CMakeLists.txt are what the tests build."""
import sys

readme, source, project = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
# The file's first line says where it comes from; the README needs no such word.
for language, expected in (("cpp", source.split("\n", 1)[1]), ("cmake", project)):
    blocks = readme.split(f"```{language}\n")[1:]
    if not blocks:
        sys.exit(f"README.md has no ```{language} block")
    if blocks[0].split("```")[0].strip() != expected.strip():
        sys.exit(f"the {language} example of README.md differs from what tests/example builds")
