#!/usr/bin/env python3
"""record.py NAME --title T --machine M --command C… [--date D] [--versions V] <OUTPUT: data/NAME.jsonl of what a program printed.

It reads the lines of bench-cpu, bench-gemm, bench-small-axes and tests/gpu/bench.py --csv (area,case,dtype,who,metric,value), the rows of
tests/graph/bench/bench.py, tests/models/scoreboard.py and bench-config --rows, and the tables of kiln-quickstart, kiln-amdgcn --table and bench-compile --grow --table. make.py then shows the file where a page has its name.
"""
import argparse
import datetime
import json
import math
import pathlib
import re
import sys

DATA = pathlib.Path(__file__).resolve().parent / "data"


def number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)


def without_folders(text):
    """Places of source by the file's name: in which folder a machine has it is nobody else's."""
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+([\w.+-]+:\d+)", r"\1", text)


def rounded(value, digits=3):
    return float(f"{value:.{digits}g}")


# --- area,case,dtype,who,metric,value ---

def measurements(text):
    for line in text.splitlines():
        parts = line.split(",")
        if len(parts) == 6 and not line.startswith("#") and parts[0] != "area":
            yield (*parts[:5], float(parts[5]))


def from_cpu_lines(lines):
    """Metrics are `us 1t` and `us hot 2t`: a row for each case, type and temperature, a ratio for each number of threads."""
    groups, threads = {}, []
    for _, name, dtype, who, metric, value in lines:
        match = re.fullmatch(r"us(?: (hot|cold))? (\d+)t", metric)
        if not match:
            continue
        count = int(match[2])
        threads += [] if count in threads else [count]
        kernel, _, shape = name.partition(" ")
        case = (kernel, shape if dtype == "f32" or shape.endswith(dtype) else f"{shape} {dtype}", match[1] or "")
        groups.setdefault(case, {}).setdefault(count, {})[who] = value
    columns = [["kernel", "kernel", "text"], ["shape", "shape", "text"], ["state", "in the caches", "text"],
               [f"ms_{threads[0]}t", f"ms, {threads[0]} thread", "number"],
               *[[f"ratio_{count}t", f"{count} thread" + "s" * (count > 1), "ratio"] for count in threads],
               ["peer", "fastest peer", "text"], ["share", "share of the ceiling", "percent"]]
    rows = []
    for (kernel, shape, state), by_threads in groups.items():
        row = {"kernel": kernel, "shape": shape, "state": state}
        peers = []
        for count, times in by_threads.items():
            rivals = {who: value for who, value in times.items() if who not in ("kiln", "ceiling")}
            if "kiln" not in times:
                continue
            if count == threads[0]:
                row[f"ms_{count}t"] = rounded(times["kiln"] / 1e3)
                if "ceiling" in times:
                    row["share"] = round(100 * times["ceiling"] / times["kiln"])
            if rivals:
                best = min(rivals, key=rivals.get)
                row[f"ratio_{count}t"] = round(rivals[best] / times["kiln"], 2)
                peers += [] if best in peers else [best]
        rows.append(row | {"peer": ", ".join(peers)})
    if not any(row["state"] for row in rows):
        columns = [column for column in columns if column[0] != "state"]
    return columns, rows


def from_rates(lines):
    """Metrics are rates, of ours and of peers; those of a GPU have lines `share of copy` too."""
    rows = {}
    for area, name, dtype, who, metric, value in lines:
        row = rows.setdefault((area, name, dtype), {"kernel": name, "case": dtype, "best": 0})
        if metric.endswith("/s") and who == "kiln":
            row |= {"speed": rounded(value, 4), "unit": metric}
        elif metric.endswith("/s") and value > row["best"]:
            row |= {"best": value, "peer": who}
        elif metric == "share of copy":
            row["share"] = round(100 * value)
    for row in rows.values():
        best = row.pop("best")
        if best and "speed" in row:
            row["ratio"] = round(row["speed"] / best, 2)
    columns = [["kernel", "kernel", "text"], ["case", "type", "text"], ["speed", "speed", "number"], ["unit", "", "text"],
               ["ratio", "ratio", "ratio"], ["peer", "fastest peer", "text"], ["share", "share of a copy", "percent"]]
    rows = [row for row in rows.values() if "speed" in row]
    return [column for column in columns if any(column[0] in row for row in rows)], rows


def from_loops(lines):
    """Of bench-small-axes: µs of ours and of a plain loop."""
    by_case = {}
    for _, name, _, who, _, value in lines:
        by_case.setdefault(name, {})[who] = value
    columns = [["kernel", "kernel", "text"], ["us", "µs", "number"], ["ratio", "ratio", "ratio"]]
    return columns, [{"kernel": name, "us": rounded(times["kiln"]), "ratio": round(times["g++"] / times["kiln"], 2)}
                     for name, times in by_case.items()]


# --- tables ---

QUICKSTART = re.compile(r"(\w+) {2,}(.+?) {2,}([\d.]+) +\(([\d.]+) \+ ([\d.]+) \+ ([\d.]+)\) +([\d.]+) +([\d.]+) +([\d.]+) "
                        r"(GB/s|GFLOP/s) +(\d+) % +(\S+)")


def from_quickstart(text):
    names = ["kernel", "shape", "cold_ms", "ir_ms", "llvm_ms", "code_ms", "warm_us", "run_ms", "speed", "unit", "share", "error"]
    titles = ["kernel", "shape", "cold ms", "IR ms", "LLVM ms", "code ms", "warm µs", "run ms", "speed", "", "share of the ceiling",
              "largest error"]
    kinds = {"kernel": "text", "shape": "text", "unit": "text", "share": "percent"}
    rows = [dict(zip(names, match.groups())) for line in text.splitlines() if (match := QUICKSTART.fullmatch(line.strip()))]
    rows = [{key: value if kinds.get(key) == "text" else number(value) for key, value in row.items()} for row in rows]
    return [[name, title, kinds.get(name, "number")] for name, title in zip(names, titles)], rows


def from_amd_counts(text):
    names = ["kernel", "target", "matrix", "vector", "lds", "global", "scalar", "wait", "share", "vgprs", "lds_bytes", "waves",
             "matrix_cycles", "vector_cycles", "lds_cycles", "memory_cycles", "bound"]
    shown = [("kernel", "kernel"), ("target", "target"), ("matrix", "matrix"), ("vector", "vector"), ("lds", "LDS"), ("global", "global"),
             ("scalar", "scalar"), ("share", "share of matrix"), ("vgprs", "VGPRs"), ("lds_bytes", "LDS bytes"), ("waves", "waves a SIMD"),
             ("bound", "bound by")]
    rows = []
    for line in text.splitlines()[1:]:
        words = line.replace("|", " ").replace("%", "").split()
        if len(words) == len(names):
            rows.append({name: number(word) if word.isdigit() else word for name, word in zip(names, words)})
    texts = ("kernel", "target", "bound")
    return [[name, title, "text" if name in texts else "percent" if name == "share" else "number"] for name, title in shown], rows


def from_growth(text):
    lines = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in text.splitlines() if line.startswith("|")]
    family, columns = "", [["family", "kind", "text"]]
    for title in lines[0][1:]:
        family, ops = title.split(" ") if " " in title else (family, title)
        columns.append([f"{family.lower().replace('_', '')}_{'⁰¹²³⁴⁵⁶⁷⁸⁹'.index(ops[-1])}", f"{family} {ops}", "seconds"])
    rows = []
    for cells in lines[2:]:
        values = zip((column[0] for column in columns), cells)
        rows.append({name: value if name == "family" or value == "-" else number(value) for name, value in values if value})
    return columns, rows


# --- lines of tests/graph/bench/bench.py ---

def from_graphs(text):
    """A row for each model; what failed stands where its time would."""
    columns = [["model", "model", "text"], ["dtype", "type", "text"], ["eager_ms", "eager, ms", "number"], ["inductor_ms", "Inductor, ms", "number"],
               ["kiln_ms", "Kiln, ms", "number"], ["ratio", "ratio", "ratio"], ["inductor_launches", "launches, Inductor", "number"],
               ["kiln_launches", "launches, Kiln", "number"], ["eager_mib", "MiB, eager", "number"], ["inductor_mib", "MiB, Inductor", "number"], ["kiln_mib", "MiB, Kiln", "number"],
               ["inductor_cold_s", "cold s, Inductor", "number"], ["kiln_cold_s", "cold s, Kiln", "number"], ["inductor_warm_s", "warm s, Inductor", "number"],
               ["kiln_warm_ms", "warm ms, Kiln", "number"], ["error", "error", "number"], ["eager_error", "of eager", "number"], ["note", "", "text"]]
    rows = []
    for line in text.splitlines():
        got = json.loads(line)
        row = {"model": got["model"], "dtype": got["dtype"]}
        failed = got.get("failed", {})
        # The faster of two ways each: of calls, and of a recording.
        for who, keys in (("eager", ["eager_ms"]), ("inductor", ["inductor_ms", "inductor_graph_ms"]), ("kiln", ["kiln_ms", "kiln_replay_ms"])):
            times = [got[key] for key in keys if key in got]
            row[f"{who}_ms"] = rounded(min(times)) if times else "failed" if failed.get(who) or (who == "inductor" and failed.get("default")) else None
        row["ratio"] = round(got["ratio"], 2) if "ratio" in got else None
        for who, key in (("eager", "eager"), ("inductor", "default"), ("kiln", "kiln")):
            side = got.get("memory", {}).get(key)
            row[f"{who}_mib"] = None if side is None else rounded(side / 2**20)
        row["kiln_cold_s"] = rounded(got["kiln_cold_ms"] / 1e3) if "kiln_cold_ms" in got else None
        for key in ("kiln_warm_ms", "inductor_cold_s", "inductor_warm_s", "error", "eager_error"):
            row[key] = rounded(got[key], 2 if "error" in key else 3) if key in got else None
        for key in ("kiln_launches", "inductor_launches"):
            row[key] = got.get(key)
        row["note"] = without_folders(failed["kiln"])[:120].replace("|", "/") if "kiln" in failed else None
        rows.append({key: value for key, value in row.items() if value is not None})
    return [column for column in columns if any(column[0] in row for row in rows)], rows


def from_models(text):
    """A row for each model and stage of tests/models/scoreboard.py."""
    columns = [["model", "model", "text"], ["suite", "suite", "text"], ["stage", "stage", "text"], ["right", "right", "text"], ["whole", "whole", "text"],
               ["launches", "launches", "number"], ["cold_s", "first call, s", "number"], ["eager_ms", "eager, ms", "number"],
               ["inductor_ms", "Inductor, ms", "number"], ["kiln_ms", "Kiln, ms", "number"], ["ratio", "ratio", "ratio"], ["note", "", "text"]]
    rows = []
    for line in text.splitlines():
        got = json.loads(line)
        row = {"model": got["model"], "suite": got["suite"], "stage": got["stage"], "right": "yes" if got["right"] else "no",
               "whole": "yes" if got["whole"] else "no", "launches": got.get("launches")}
        for key in ("cold_s", "eager_ms", "inductor_ms", "kiln_ms"):
            row[key] = rounded(got[key]) if key in got else None
        peers = [got[key] for key in ("eager_ms", "inductor_ms") if key in got]
        row["ratio"] = round(min(peers) / got["kiln_ms"], 2) if peers and "kiln_ms" in got else None
        notes = [got["failed"]] if "failed" in got else [f"{count} × {name}" for name, count in got.get("fallbacks", {}).items()]
        if "error" in got and not got["right"]:
            notes.append(f"off by {got['error']:.2g}")
        row["note"] = without_folders("; ".join(notes))[:160].replace("|", "/").replace("\n", " ") or None
        rows.append({key: value for key, value in row.items() if value is not None})
    rows.sort(key=lambda row: (row["stage"], row["suite"], row["model"].lower()))
    return [column for column in columns if any(column[0] in row for row in rows)], rows


def from_configs(text):
    """bench-config: how much longer than the tuned config the default and the model's choice take, by kernel and for all."""
    kernels = {}
    for line in text.splitlines():
        got = json.loads(line) if line.startswith("{") else {}
        if "tuned_us" in got:
            for name in (got["kernel"], "all"):
                kernels.setdefault(name, []).append(got)
    columns = [["kernel", "kernel", "text"], ["shapes", "shapes", "number"]]
    for key, title in (("default", "default"), ("model", "choice")):
        columns += [[key, f"{title}, geometric mean", "number"], [f"{key}_95", "95 %", "number"], [f"{key}_worst", "worst", "number"]]
    rows = []
    for name in sorted(kernels, key=lambda name: (name == "all", name)):
        row = {"kernel": name, "shapes": len(kernels[name])}
        for key in ("default", "model"):
            ratios = sorted(got[f"{key}_us"] / got["tuned_us"] for got in kernels[name])
            row[key] = round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3)
            row[f"{key}_95"] = round(ratios[math.ceil(0.95 * len(ratios)) - 1], 2)
            row[f"{key}_worst"] = round(ratios[-1], 2)
        configs = {(got["kernel"], got["model"]) for got in kernels[name]}
        rows.append(row | {"configs": len(configs)})
    return [*columns, ["configs", "configs chosen", "number"]], rows


def parsed(text):
    if text.startswith("{") and '"tuned_us"' in text.split("\n", 1)[0]:
        return from_configs(text)
    if text.startswith('{"model"'):
        return from_models(text) if '"stage": ' in text.split("\n", 1)[0] else from_graphs(text)
    lines = list(measurements(text))
    if lines and lines[0][0] == "small axes":
        return from_loops(lines)
    if lines:
        return (from_cpu_lines if any(re.search(r" \d+t$", line[4]) for line in lines) else from_rates)(lines)
    if text.startswith("kernel ") and " gfx " in text.split("\n", 1)[0]:
        return from_amd_counts(text)
    return from_growth(text) if text.startswith("| kind |") else from_quickstart(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    for option in ("--title", "--machine"):
        parser.add_argument(option, required=True)
    parser.add_argument("--command", nargs="+", required=True)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--versions", default="")
    parser.add_argument("--to", type=pathlib.Path, default=DATA)
    options = parser.parse_args()
    columns, rows = parsed(sys.stdin.read())
    if not rows:
        sys.exit("record.py: nothing in this output is a measurement")
    about = {"title": options.title, "machine": options.machine, "date": options.date, "command": options.command,
             "versions": options.versions, "columns": columns}
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [about, *rows])
    (options.to / f"{options.name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
