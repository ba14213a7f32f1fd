"""What bench.py makes of results that are there: ratios, the mean of the products, costs, and the lines of the CSV."""
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
sys.dont_write_bytecode = True
import bench_report


def result(row, ours, peers, **more):
    speed = ({"kiln": ours} if ours else {}) | peers
    us = {name: 1e3 / value for name, value in speed.items()}
    stage = {"kernel": "k", "config": {"BM": 64}, "us": 9.0, "registers": 32, "spill_bytes": 0, "compile_ms": 5.0,
             "assembler_ms": 2.0, "tried": []}
    return {"area": "gemm", "row": row, "type": "bf16", "unit": "TFLOP/s", "absent": {}, "stages": [stage],
            "refused": [], "complete": bool(ours), "pair": [], "us": us, "speed": speed} | more


def report_of(results, *options):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "bench.json"), "w") as file:
            json.dump(results, file)
        done = subprocess.run([sys.executable, os.path.join(here, "bench.py"), "--report", "--results", folder, *options],
                              capture_output=True, text=True, check=True)
    return done.stdout


products = [result(name, 4.0 if i else 1.0, {"cublas": 2.0, "triton": 1.0}) for i, name in enumerate(bench_report.HEADLINE)]
out = report_of(products)
assert f"of 8 bf16 products, ours to the best peer: {(0.5 * 2 ** 7) ** (1 / 8):.3f} (512x512x512 0.500, " in out, out
assert "  0.50 <<< gemm 512x512x512 nt bf16" in out and "<<< gemm 1024" not in out, out
assert "7 of 8 rows are at 1.00" in out, out
assert "without 512x512x512 nt\n" in report_of(products[1:])

pair = result("x of bias and gelu", None, {"plain": 2.0, "with": 1.9}, pair=["plain", "with"], cost_percent=1.25, complete=True)
copied = result("softmax", 3.0, {"eager": 4.0}, unit="TB/s", share_of_copy=0.75)
alone = result("no peer", 3.0, {})
lost = result("lost", None, {"cublas": 2.0}, refused=[{"kernel": "k", "config": {}, "why": "too large"}])
out = report_of([pair, copied, alone, lost], "--csv")
for line in ("# x of bias and gelu: with costs +1.2 % of our product, at most 2 % wanted", "75 %",
             "# nothing of ours: gemm lost bf16", "gemm,softmax,bf16,kiln,TB/s,3.0000", "gemm,softmax,bf16,kiln,share of copy,0.7500",
             "gemm,softmax,bf16,kiln,ratio to best peer,0.7500", "gemm,x of bias and gelu,bf16,kiln,cost percent,1.25",
             "gemm,lost,bf16,cublas,us,500.000"):
    assert line in out, f"{line} is not in\n{out}"
assert "geometric mean of" not in out and out.count("<<<") == 1, out
for one, text in ((pair, "with costs +1.2 %"), (copied, "3.000   0.75   75 %"), (alone, "–"), (lost, "too large")):
    assert text in bench_report.line_of(one), bench_report.line_of(one)

# What ncu's CSV says, whatever its units.
with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "ncu.csv")
    with open(file, "w") as text:
        text.write('==PROF== Connected\n"ID","Process","Host","Kernel Name","gpu__time_duration.sum","launch__grid_size","x"\n'
                   '"","","","","us","",""\n"0","1","h","kiln_entry","1,234.5","132","7"\n')
    done = subprocess.run([sys.executable, os.path.join(here, "bench_profile.py"), "--table", file],
                          capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[1].split()[:3] == ["1234", "-", "132"], done.stdout
    assert done.stdout.split("\n")[1].endswith("-  kiln_entry"), done.stdout
