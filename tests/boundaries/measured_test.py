#!/usr/bin/env python3
"""Figures of the documentation: record.py makes results files of what programs print, make.py pages of results files."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(script, *arguments, text=""):
    return subprocess.run([sys.executable, script, *arguments], input=text, capture_output=True, text=True, check=False)


class Record(unittest.TestCase):
    def results_of(self, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = run(ROOT / "docs/measured/record.py", "x", "--title", "T", "--machine", "M", "--command", "a b", "c", "--date",
                       "2026-01-02", "--to", folder, *options, text=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [json.loads(line) for line in (pathlib.Path(folder) / "x.jsonl").read_text(encoding="utf-8").splitlines()]

    def test_lines_of_times_on_threads(self):
        about, *rows = self.results_of("""# machine: M
elements,vector_add 16777216,f32,kiln,us 1t,6054.8
elements,vector_add 16777216,f32,onednn,us 1t,9082.2
elements,vector_add 16777216,f32,eager,us 1t,9999
elements,vector_add 16777216,f32,ceiling,us 1t,4433
elements,vector_add 65536,bf16,kiln,us hot 1t,8.708
elements,vector_add 16777216,f32,kiln,us 2t,4000
elements,vector_add 16777216,f32,eager,us 2t,3000
""")
        self.assertEqual((about["title"], about["machine"], about["date"], about["command"]), ("T", "M", "2026-01-02", ["a b", "c"]))
        self.assertEqual([column[0] for column in about["columns"]],
                         ["kernel", "shape", "state", "ms_1t", "ratio_1t", "ratio_2t", "peer", "share"])
        self.assertEqual(rows, [
            {"kernel": "vector_add", "shape": "16777216", "state": "", "ms_1t": 6.05, "share": 73, "ratio_1t": 1.5, "ratio_2t": 0.75,
             "peer": "onednn, eager"},
            {"kernel": "vector_add", "shape": "65536 bf16", "state": "hot", "ms_1t": 0.00871, "peer": ""}])

    def test_lines_of_rates(self):
        about, *rows = self.results_of("""gemm,4096x4096x4096 nt,bf16,kiln,us,180
gemm,4096x4096x4096 nt,bf16,kiln,TFLOP/s,746.44
gemm,4096x4096x4096 nt,bf16,triton,TFLOP/s,700.0
gemm,4096x4096x4096 nt,bf16,cublas,TFLOP/s,754.0
gemm,4096x4096x4096 nt,bf16,kiln,share of copy,0.5
gemm,lost,bf16,cublas,TFLOP/s,754.0
""")
        self.assertEqual(rows, [{"kernel": "4096x4096x4096 nt", "case": "bf16", "speed": 746.4, "unit": "TFLOP/s", "peer": "cublas",
                                 "ratio": 0.99, "share": 50}])
        self.assertEqual(len(about["columns"]), 7)

    def test_tables(self):
        _, row = self.results_of("""This machine, 2 threads

kernel                     shape                       cold ms  (IR + LLVM + code, ms)  warm us    run ms          speed  share  max error
attention                  1×8×2048×128 causal            99.3      (4.6 + 7.6 + 83.2)    186.4    54.859  156.6 GFLOP/s   68 %    4.5e-07
""")
        self.assertEqual((row["shape"], row["code_ms"], row["speed"], row["unit"], row["share"], row["error"]),
                         ("1×8×2048×128 causal", 83.2, 156.6, "GFLOP/s", 68, 4.5e-07))
        _, row = self.results_of(
            "kernel           gfx      matrix vector   LDS global scalar  wait  share  VGPR  LDS B waves |  matrix  vector  LDS  memory  bound\n"
            "matmul_bf16      gfx942       64     69    24      8     42    11    29%   200  32768     2 |    1024     276  768     512  matrix\n")
        self.assertEqual((row["kernel"], row["matrix"], row["share"], row["waves"], row["memory_cycles"], row["bound"]),
                         ("matmul_bf16", 64, 29, 2, 512, "matrix"))
        about, row = self.results_of("| kind | CPU 10² | 10³ | sm_90a 10² |\n|---|---|---|---|\n| sums | 0.16 | | - |\n")
        self.assertEqual(row, {"family": "sums", "cpu_2": 0.16, "sm90a_2": "-"})
        self.assertEqual(about["columns"][2], ["cpu_3", "CPU 10³", "seconds"])

    def test_rows_of_graphs(self):
        about, first, second = self.results_of(
            '{"model": "mlp", "dtype": "bf16", "eager_ms": 2.0, "inductor_ms": 1.5, "inductor_graph_ms": 1.25, "kiln_ms": 1.1, "kiln_replay_ms": 1.0, '
            '"ratio": 1.25, "inductor_launches": 5, "kiln_launches": 4, "memory": {"default": 2097152, "kiln": 1048576}, "kiln_cold_ms": 1234.5, '
            '"inductor_cold_s": 20.5, "kiln_warm_ms": 12.0, "error": 0.00123}\n'
            '{"model": "dlrm", "dtype": "bf16", "eager_ms": 3.0, "failed": {"kiln": "no kernel", "default": "no compiler"}}\n')
        self.assertEqual(first, {"model": "mlp", "dtype": "bf16", "eager_ms": 2.0, "inductor_ms": 1.25, "kiln_ms": 1.0, "ratio": 1.25, "inductor_mib": 2.0,
                                 "kiln_mib": 1.0, "kiln_cold_s": 1.23, "kiln_warm_ms": 12.0, "inductor_cold_s": 20.5, "error": 0.0012,
                                 "kiln_launches": 4, "inductor_launches": 5})
        self.assertEqual(second, {"model": "dlrm", "dtype": "bf16", "eager_ms": 3.0, "inductor_ms": "failed", "kiln_ms": "failed", "note": "no kernel"})
        self.assertNotIn("inductor_warm_s", [column[0] for column in about["columns"]])

    def test_notes_name_no_folders_of_a_machine(self):
        _, row = self.results_of(
            '{"model": "mlp", "suite": "timm", "stage": "training", "right": true, "whole": false, "launches": 3, '
            '"fallbacks": {"launch 1, `dot`: /home/some.body/kiln/codegen/write_dot.cpp:199:39: error: 1/2 of it": 7}}\n')
        self.assertEqual(row["note"], "7 × launch 1, `dot`: write_dot.cpp:199:39: error: 1/2 of it")

    def test_what_is_no_measurement(self):
        self.assertEqual(run(ROOT / "docs/measured/record.py", "x", "--title", "T", "--machine", "M", "--command", "c", text="hello\n").returncode, 1)


class Make(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        shutil.copytree(ROOT / "docs/measured", self.root / "docs/measured")
        shutil.copy(ROOT / "README.md", self.root)

    def tearDown(self):
        self.folder.cleanup()

    def words_of_check(self):
        done = run(self.root / "docs/measured/make.py", "--check")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return done.stdout.strip()

    def edit(self, name, old, new):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def test_pages_as_they_are(self):
        self.assertEqual(self.words_of_check(), "")

    def test_a_figure_that_was_typed(self):
        self.edit("docs/measured/service.md", "| kiln | 44 |", "| kiln | 33 |")
        self.assertEqual(self.words_of_check(), "docs/measured/service.md is not current: run docs/measured/make.py")
        run(self.root / "docs/measured/make.py")
        self.assertEqual(self.words_of_check(), "")

    def test_results_that_no_page_shows(self):
        shutil.copy(self.root / "docs/measured/data/tuner.jsonl", self.root / "docs/measured/data/other.jsonl")
        self.assertEqual(self.words_of_check(), "no page shows data/other.jsonl")

    def test_new_results_reach_page_chart_and_readme(self):
        self.edit("docs/measured/data/gpu_h200.jsonl", '"case": "4096³, NN", "speed": 764, "unit": "TFLOP/s", "ratio": 0.99',
                  '"case": "4096³, NN", "speed": 764, "unit": "TFLOP/s", "ratio": 0.5')
        words = self.words_of_check()
        for name in ("docs/measured/gpu.md", "docs/measured/chart.svg", "README.md"):
            self.assertIn(f"{name} is not current", words)
        self.assertNotIn("cpu.md", words)


if __name__ == "__main__":
    unittest.main()
