#!/usr/bin/env python3
"""same_as_page.py PAGE PROGRAM: the page's program is the one that is compiled and run, and a person can take it in.

KILN_UPDATE_GOLDEN=1 writes it into the page."""
import os
import pathlib
import re
import sys

page, program = map(pathlib.Path, sys.argv[1:])
source = program.read_text(encoding="utf-8").split("\n", 1)[1]
text = page.read_text(encoding="utf-8")
if os.environ.get("KILN_UPDATE_GOLDEN") == "1":
    text = re.sub(r"```c\n.*?```", lambda _: f"```c\n{source}```", text, count=1, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")
if f"```c\n{source}```" not in text:
    sys.exit(f"the program of {page.name} is not {program.name}")
if source.count("\n") > 30:
    sys.exit(f"{program.name} has more than 30 lines")
