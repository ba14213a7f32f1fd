#!/usr/bin/env python3
"""includes.py finds what it is there to find, each in a small tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("includes.py")


def said_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        run = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, check=False)
    assert run.returncode == 1, "so small a tree is refused"
    return run.stdout.strip()


class IncludesTest(unittest.TestCase):
    def test_nothing_in_a_sound_tree(self):
        self.assertEqual(said_of({"client/include/kiln/client/a.h": '#include "kiln/dsl/b.h"\n#include <string>\n',
                                  "dsl/include/kiln/dsl/b.h": "#include <vector>\n",
                                  "dsl/include/kiln/dsl/json.h": "#include <nlohmann/json.hpp>\n",
                                  "client/src/a.cpp": '#include "kiln/dsl/json.h"\n'}), "")

    def test_a_header_of_the_client_with_json(self):
        self.assertEqual(said_of({"client/include/kiln/client/a.h": "  #include <nlohmann/json_fwd.hpp>\n"}),
                         "client/include/kiln/client/a.h → nlohmann/json_fwd.hpp")

    def test_json_behind_others(self):
        self.assertEqual(said_of({"client/include/kiln/client/a.h": '#include "kiln/wire/b.h"\n',
                                  "client/wire/include/kiln/wire/b.h": '#include "kiln/dsl/c.h"\n',
                                  "dsl/include/kiln/dsl/c.h": '#include "kiln/wire/b.h"\n#include <nlohmann/json.hpp>\n'}),
                         "dsl/include/kiln/dsl/c.h:1: dsl includes kiln/wire/b.h\n"
                         "client/include/kiln/client/a.h → client/wire/include/kiln/wire/b.h → dsl/include/kiln/dsl/c.h"
                         " → nlohmann/json.hpp")

    def test_llvm_in_a_header(self):
        self.assertEqual(said_of({"codegen/include/kiln/codegen/a.h": "#include <llvm/IR/Module.h>\n"}),
                         "codegen/include/kiln/codegen/a.h:1: LLVM outside codegen/src")

    def test_a_vendor_in_what_is_common(self):
        self.assertEqual(said_of({"codegen/src/gpu/a.cpp": '#include "nvptx/b.h"\n'}),
                         "codegen/src/gpu/a.cpp:1: gpu includes nvptx/b.h")


if __name__ == "__main__":
    unittest.main()
