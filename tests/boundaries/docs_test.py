#!/usr/bin/env python3
"""docs.py finds what it is there to find: each kind of fault, alone in a small tree that is right but for it."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing is written beside the sources
import docs

SOUND = {
    "README.md": "# R\n\nSee [use](docs/use/page0.md#a-part-of-it).\n",
    "tests/README.md": "# T\n\ndocs/use/page0.md has it.\n",
    "docs/glossary.md": "# W\n\n## To be renamed\n\n| from | to | names |\n|---|---|---|\n| old | new | `old_name`, `old.cpp`, `kOld*` |\n",
    "codegen/old.cpp": "int old_name = kOldest;  // docs/use/page1.md\n",
    "docs/use/cli.md": "# C\n\n| target | code for |\n|---|---|\n| `cuda:sm_1` `sm_2a` | N |\n| `amd:gfx3` | A |\n",
    "dsl/include/kiln/target/targets.def": 'KILN_NVIDIA_GPU("sm_1", 1)\nKILN_NVIDIA_GPU("sm_2a", 2)\nKILN_AMD_GPU("gfx3", 3)\n',
} | {f"docs/use/page{number}.md": "# P\n\n## A *part* of it\n\nA short sentence. Another one, of page0.md.\n\n    [code](is/no/link.md)\n"
     for number in range(10)}


class DocsTest(unittest.TestCase):
    def words_of(self, changed):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            files = SOUND | changed
            pages = [name.removeprefix("docs/") for name in files if name.startswith("docs/")]
            files = {"docs/README.md": "# I\n\n" + "\n".join(f"[p]({page})" for page in pages) + "\n"} | files
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = docs.main(root)
            self.assertEqual(status, 1 if out.getvalue().strip() else 0)
            return out.getvalue().strip()

    def test_nothing_in_a_sound_tree(self):
        self.assertEqual(self.words_of({}), "")

    def test_a_link_to_nothing(self):
        self.assertEqual(self.words_of({"docs/use/page1.md": "# P\n\n[a](gone.md)\n"}), "docs/use/page1.md:3: there is no gone.md")

    def test_an_anchor_without_its_heading(self):
        self.assertIn("README.md:1: docs/use/page0.md has no heading #b", self.words_of({"README.md": "[a](docs/use/page0.md#b)\n"}))

    def test_a_mention_of_a_page_that_moved(self):
        self.assertIn("codegen/old.cpp:2: there is no docs/page1.md",
                      self.words_of({"codegen/old.cpp": "int old_name = kOldest;\n// docs/page1.md\n"}))
        self.assertEqual(self.words_of({"docs/use/page1.md": "# P\n\nSee page99.md.\n"}), "docs/use/page1.md:3: no page is called page99.md")

    def test_a_page_that_the_index_lacks(self):
        self.assertIn("docs/README.md does not list docs/use/page3.md", self.words_of({"docs/README.md": "# I\n"}))

    def test_a_long_sentence_in_a_paragraph_a_list_and_a_cell(self):
        words = "word " * docs.LONGEST
        for text in (f"Short. A {words}\nend. Short.", f"- A {words} end.", f"| a | A {words} end |"):
            self.assertRegex(self.words_of({"docs/inside/page.md": f"# P\n\n{text}\n"}), r"^docs/inside/page\.md:3: \d+ words: A word[^\n]*$")
        self.assertEqual(self.words_of({"docs/inside/page.md": f"# P\n\nA {words[5:]}. And `{words} {words}` ends.\n"}), "")
        self.assertEqual(self.words_of({"docs/reference/page.md": f"# P\n\nA {words} end.\n"}), "")
        self.assertIn("README.md:3: ", self.words_of({"README.md": f"# R\n\nA {words} end.\n"}))

    def test_a_rename_that_was_done(self):
        words = self.words_of({"codegen/old.cpp": "int new_name = kNewest;  // docs/use/page1.md\n"})
        self.assertIn("nothing is called old_name any more: old", words)
        self.assertIn("nothing is called kOld* any more: old", words)
        self.assertNotIn("old.cpp any more", words)

    def test_a_name_of_code_that_is_gone(self):
        page = "# P\n\n`old.cpp`, `old.*`, `Old::old_name` and `x/o*.cpp` are there, `gone.h` and\n`Old::gone` are not.\n"
        self.assertEqual(self.words_of({"docs/inside/page.md": page}),
                         "docs/inside/page.md:3: nothing is called gone.h\ndocs/inside/page.md:4: nothing is called Old::gone")

    def test_a_term_that_code_has_another_name_for(self):
        table = "# W\n\n| term | meaning | in code |\n|---|---|---|\n| a | b | `old_name`, `old.cpp`, `x/`, %s |\n\n"
        renames = SOUND["docs/glossary.md"].removeprefix("# W\n\n")
        self.assertEqual(self.words_of({"docs/glossary.md": table % "`old_name()`" + renames}), "")
        self.assertEqual(self.words_of({"docs/glossary.md": table % "`gone_name()`, `Old::gone`" + renames}),
                         "docs/glossary.md:5: nothing is called gone_name()\ndocs/glossary.md:5: nothing is called Old::gone")

    def test_a_target_that_the_table_lacks_and_one_that_is_gone(self):
        targets = "dsl/include/kiln/target/targets.def"
        self.assertEqual(self.words_of({targets: SOUND[targets] + 'KILN_AMD_GPU("gfx950", 9)\n'}),
                         "docs/use/cli.md does not name the target gfx950")
        self.assertEqual(self.words_of({targets: SOUND[targets].replace('sm_2a', 'sm_2')}),
                         "docs/use/cli.md does not name the target sm_2\ndocs/use/cli.md: no target is called sm_2a")

    def test_a_test_that_is_gone(self):
        tests = {"tests/old_test.cpp": "TEST(Old, Works) {}\nTEST_F(OldToo,\n       WorksLong) {}\n"}
        page = "# P\n\n`Old.Works`, `OldToo.*`, `All/OldToo.WorksL…/x`, `IMAD.HI`, %s.\n"
        self.assertEqual(self.words_of(tests | {"docs/reference/page.md": page % "`CMakeLists.txt`"}), "")
        self.assertEqual(self.words_of(tests | {"docs/reference/page.md": page % "`Old.Gone*`, `Older.Works`"}),
                         "docs/reference/page.md:3: no test is called Old.Gone*\n"
                         "docs/reference/page.md:3: no test is called Older.Works")


if __name__ == "__main__":
    unittest.main()
