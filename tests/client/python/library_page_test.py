#!/usr/bin/env python3
"""Each example of docs/use/kernels-python.md runs by itself, and has fifteen lines at most."""

import pathlib
import re
import sys
import unittest

try:
    import numpy
except ImportError:
    numpy = None

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/use/kernels-python.md"
FIRST, *EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@unittest.skipIf(numpy is None, "no NumPy")
class Examples(unittest.TestCase):
    def test_run(self):
        self.assertEqual(len(EXAMPLES), 6)
        for example in EXAMPLES:
            title = example.splitlines()[0]
            with self.subTest(title):
                for part in example.split("\n\n"):
                    self.assertLessEqual(len(part.strip().splitlines()), 15)
                exec(compile(FIRST + example, title, "exec"), {})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
