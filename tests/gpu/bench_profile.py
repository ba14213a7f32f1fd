"""What ncu says of rows that bench.py measured: the configs that it chose, and the best peer, launched once each.

    ncu --target-processes application-only --clock-control none --profile-from-start off \\
        --page raw --csv --log-file FILE --metrics METRICS python3 bench_profile.py DIR/bench.json --filter TEXT,TEXT…
    python3 bench_profile.py --table FILE         what FILE has, a line for each kernel
    python3 bench_profile.py --metrics            METRICS, those of the table

--filter: as bench.py's. Prints each row before its kernels run; kernels of ours are `kiln_entry` and `kiln_stage_N`.
ncu must leave the compiler's processes alone: it breaks the one that runs the assembler.
"""
import argparse
import csv
import json
import sys
import tempfile
import types

COLUMNS = {  # ncu's name, with what a table says of it
    "gpu__time_duration.sum": ("us", 1e-3),
    "gpc__cycles_elapsed.avg.per_second": ("GHz", 1e-9),
    "launch__grid_size": ("blocks", 1),
    "launch__block_size": ("threads", 1),
    "launch__registers_per_thread": ("registers", 1),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("dram %", 1),
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": ("L2 %", 1),
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed": ("tensor %", 1),
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("fma %", 1),
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": ("xu %", 1),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed": ("shared %", 1),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue %", 1),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps %", 1),
}


def table(file):
    """The lines of ncu's CSV by kernel; its second line has units, where times are ns and rates are Hz."""
    with open(file, newline="") as text:
        lines = [line for line in csv.reader(text) if len(line) > 5]
    head, units = lines[0], lines[1]
    scale = {"ns": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "Ghz": 1e9, "GHz": 1e9, "Mhz": 1e6, "MHz": 1e6}
    print("  ".join(f"{name:>9}" for name, _ in COLUMNS.values()) + "  kernel")
    for line in lines[2:]:
        row, unit = dict(zip(head, line)), dict(zip(head, units))
        values = []
        for metric, (_, factor) in COLUMNS.items():
            number = row.get(metric, "").replace(",", "")
            values.append(f"{float(number) * scale.get(unit[metric], 1) * factor:9.4g}" if number else f"{'-':>9}")
        print("  ".join(values) + "  " + row["Kernel Name"][:60])


def functions_of(torch, compiler, row, result):
    """Ours, by the configs that were chosen, and the fastest peer."""
    from bench import given
    from cuda import Artifact
    inputs = row.make()
    out, first = {}, result["stages"][0]["config"]
    for stage, launch, chosen in zip(row.stages, inputs.launches, result["stages"], strict=True):
        arguments = given(launch, row, first)
        constexprs = {name: value for name, value in chosen["config"].items() if name != "kernel"}
        path, why = compiler.compile(chosen["config"].get("kernel", stage.kernel), stage.type, constexprs, arguments)
        if path is None:
            raise RuntimeError(why)
        out[f"kiln {stage.kernel}"] = Artifact(path).bind(arguments)
    peers = {name: us for name, us in result["us"].items() if name in inputs.peers}
    if peers:
        best = min(peers, key=peers.get)
        out[best] = inputs.peers[best]
    for function in out.values():
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    return out


def profile(results, text):
    import torch
    from bench import Compiler, chosen_rows
    with open(results, encoding="utf-8") as file:
        measured = {(r["area"], r["row"], r["type"]): r for r in json.load(file) if r["complete"]}
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(folder, "cuda:sm_90a")
        for row in chosen_rows(types.SimpleNamespace(filter=text), ()):
            result = measured.get((row.area, row.name, row.type))
            if not result:
                continue
            functions = functions_of(torch, compiler, row, result)
            print(f"{row.area} {row.name} {row.type}:", ", ".join(functions), flush=True)
            torch.cuda.profiler.start()
            for function in functions.values():
                function()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?")
    parser.add_argument("--filter", default="")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--metrics", action="store_true")
    options = parser.parse_args()
    if options.metrics:
        print(",".join(COLUMNS))
    elif options.table:
        table(options.table)
    elif options.results:
        profile(options.results, options.filter)
    else:
        parser.print_usage(sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
