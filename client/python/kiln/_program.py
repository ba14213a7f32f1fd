"""The command `kiln` of a wheel, which has the programs in bin/."""

from __future__ import annotations

import os
import sys

from ._library import PROGRAMS


def main() -> None:
    os.execv(PROGRAMS / "kiln", ["kiln", *sys.argv[1:]])
