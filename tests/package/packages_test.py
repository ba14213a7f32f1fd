#!/usr/bin/env python3
"""What packages.py says of files that a build uses: of a package that the list brings, of another, and of none."""
import contextlib
import io
import sys
import types
import unittest

sys.dont_write_bytecode = True  # nothing is written beside the sources
import packages

OWNERS = {"/usr/include/a.h": "a-dev", "/usr/include/b.h": "b-dev", "/usr/lib/optional.so": "optional"}
INSTALLED = types.SimpleNamespace(closure=set, of=OWNERS.get)


class CheckTest(unittest.TestCase):
    def words_of(self, uses, optional=()):
        build = types.SimpleNamespace(uses=dict.fromkeys(uses, "the compiler"), optional=set(optional))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            good = packages.check(INSTALLED, "run.sh", ["a-dev"], [build])
        failures = [line for line in out.getvalue().splitlines() if line.startswith("FAILED")]
        self.assertEqual(good, not failures)
        return "\n".join(failures)

    def test_nothing_of_what_the_list_brings(self):
        self.assertEqual(self.words_of(["/usr/include/a.h"]), "")

    def test_a_package_that_is_not_listed(self):
        self.assertEqual(self.words_of(["/usr/include/a.h", "/usr/include/b.h"]),
                         "FAILED: run.sh uses /usr/include/b.h (the compiler) of b-dev, which its packages do not bring")

    def test_a_file_that_was_put_there_by_hand(self):
        self.assertEqual(self.words_of(["/usr/local/lib/c.so", "/usr/include/a.h"]),
                         "FAILED: run.sh uses /usr/local/lib/c.so (the compiler), which is of no package")

    def test_what_is_done_without(self):
        self.assertEqual(self.words_of(["/usr/lib/optional.so"], ["/usr/lib/optional.so"]), "")
        self.assertEqual(self.words_of(["/usr/local/include/cuda.h"], ["/usr/local/include"]), "")
        self.assertNotEqual(self.words_of(["/usr/local/include2/cuda.h"], ["/usr/local/include"]), "")


if __name__ == "__main__":
    unittest.main()
