#!/usr/bin/env python3
"""make.py [--check]: writes every measured figure of the documentation from docs/measured/data/*.jsonl.

A results file is JSON lines: the first says what was run, where and when, and which columns its table has; the others
are the rows. A page has a block for each table,

    <!-- table NAME -->  …made from data/NAME.jsonl…  <!-- end -->

README.md one for each chart, and it and models.md one for a sentence. Text between the marks is never edited by hand. `--check` writes
nothing and fails where a page or a chart is not what this would write, and where no page shows a results file.
"""
import json
import math
import pathlib
import re
import statistics
import sys

import models_chart

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGES = [*sorted(HERE.glob("*.md")), ROOT / "README.md"]
BLOCK = re.compile(r"(<!-- (table|chart|sentence) ([a-z0-9_]+) -->\n).*?(<!-- end -->)", re.DOTALL)

# The ten kernels of the chart: what they are called there, the row on the CPU (two threads) and that on the GPU.
CHART = [
    ("vector_add", ("vector_add", "16777216"), ("elementwise of 2^28 f32", "vector_add")),
    ("GELU", ("gelu", "16777216"), ("elementwise of 2^28 f32", "gelu")),
    ("softmax", ("softmax", "4096×1024"), ("softmax", "16384×4096 bf16")),
    ("layer norm", ("layer_norm", "4096×4096"), ("layer_norm", "16384×4096 bf16")),
    ("cross entropy", ("cross_entropy", "128×128256"), ("cross_entropy", "4096×128256 bf16")),
    ("sum of rows", ("row_sum", "4096×4096"), ("row_sum", "8192² f32")),
    ("transpose", ("transpose", "4096×4096"), ("transpose", "8192² f32")),
    ("embedding", ("embedding", "32000×4096×4096"), ("embedding", "32768 of 128256×4096 bf16")),
    ("bf16 product", ("matmul", "1024×1024×1024 bf16"), ("bf16 product", "4096³, NN")),
    ("attention, causal", ("attention", "1×8×2048×128 causal"), ("attention bf16", "4×32×4096×128, causal")),
]


def results(name):
    lines = [json.loads(line) for line in (HERE / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return lines[0], lines[1:]


def number(value):
    if isinstance(value, list):
        return " to ".join(number(part) for part in value)
    if isinstance(value, str):
        return value
    if isinstance(value, float) and 0 < abs(value) < 1e-2:
        return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:.4f}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def ratio(value):
    if isinstance(value, list):
        return " to ".join(ratio(part) for part in value)
    text = f"{value:.3f}" if round(value, 2) != value else f"{value:.2f}" if value < 10 else f"{value:g}"
    return f"**{text}**" if value < 1 else text


SHOWN = {
    "text": str,
    "code": lambda value: f"`{value}`",
    "number": number,
    "ratio": ratio,
    "percent": lambda value: f"{value} %",
    "seconds": lambda value: value if isinstance(value, str) else f"{value:.2f}",
}


def table(name):
    about, rows = results(name)
    columns = about["columns"]
    out = ["| " + " | ".join(title for _, title, _ in columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = ["" if row.get(key) is None else SHOWN[kind](row[key]) for key, _, kind in columns]
        out.append("| " + " | ".join(cells) + " |")
    facts = [", ".join(f"`{command}`" for command in about["command"]), about["machine"], about["date"]]
    facts += [about["versions"]] if about["versions"] else []
    return "\n".join([*out, "", "*" + "; ".join(facts) + f". Data: [{name}.jsonl](data/{name}.jsonl).*"]) + "\n"


def row_of(rows, **wanted):
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if len(found) != 1:
        sys.exit(f"make.py: {len(found)} rows are {wanted}")
    return found[0]


def chart_rows():
    _, cpu = results("cpu_epyc_large")
    _, gpu = results("gpu_h200")
    for title, (kernel, shape), (family, case) in CHART:
        yield (title, row_of(cpu, kernel=kernel, shape=shape)["ratio_2t"], row_of(gpu, kernel=family, case=case)["ratio"])


def chart_svg():
    """Two bars a kernel on a logarithmic axis, from 1, where the fastest peer stands."""
    left, top, height, scale = 140, 48, 34, 150  # scale: pixels of a factor of two
    low, high = 0.5, 4.0
    x = lambda value: left + scale * (math.log2(min(max(value, low), high)) - math.log2(low))
    rows = list(chart_rows())
    bottom = top + height * len(rows)
    width = x(high) + 70
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {bottom + 34}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width:.0f}" height="{bottom + 34}" fill="#ffffff"/>',
           f'<rect x="{left}" y="14" width="12" height="12" fill="#3b6ea5"/><text x="{left + 18}" y="24">CPU, 2 threads</text>',
           f'<rect x="{left + 140}" y="14" width="12" height="12" fill="#e08a2e"/><text x="{left + 158}" y="24">H200</text>']
    for mark in (0.5, 1, 2, 4):
        stroke = 'stroke="#333333" stroke-width="1.5"' if mark == 1 else 'stroke="#cccccc"'
        out.append(f'<line x1="{x(mark):.0f}" y1="{top - 8}" x2="{x(mark):.0f}" y2="{bottom}" {stroke}/>')
        text = "fastest peer" if mark == 1 else f"{mark:g}× as fast"
        out.append(f'<text x="{x(mark):.0f}" y="{bottom + 18}" text-anchor="middle" fill="#333333">{text}</text>')
    for index, (title, *bars) in enumerate(rows):
        y = top + index * height
        out.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{title}</text>')
        for bar, (value, colour) in enumerate(zip(bars, ("#3b6ea5", "#e08a2e"))):
            begin, end = sorted((x(1), x(value)))
            out.append(f'<rect x="{begin:.1f}" y="{y + 2 + 12 * bar}" width="{max(end - begin, 1):.1f}" height="11" fill="{colour}"/>')
            out.append(f'<text x="{max(end, x(1)) + 4:.1f}" y="{y + 11 + 12 * bar}" font-size="10">{value:.2f}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def models_block():
    about, rows = results("models_gpu_times")
    return ("![How many times as fast whole models are as with the faster of PyTorch eager and Inductor](docs/measured/models.svg)\n\n"
            f"*By turns, results checked; `{about['command'][0].split()[0]}`, {about['date']}, {about['versions'].split(',')[0]}.* "
            + models_chart.sentence(rows) + "All rows, and what fails: [models](docs/measured/models.md).\n")


def chart_block(name):
    if name == "models":
        return models_block()
    cpu, gpu = results("cpu_epyc_large"), results("gpu_h200")
    ratios = [[row[key] for row in rows] for (_, rows), key in ((cpu, "ratio_2t"), (gpu, "ratio"))]
    behind = [[1 - value for value in values if value < 1] for values in ratios]
    counts = [f"{len(lost)} of {len(values)} rows, by {100 * statistics.median(lost):.0f} % in the median and "
              f"{100 * max(lost):.0f} % at most" for lost, values in zip(behind, ratios)]
    return (
        "![Time of the fastest peer over ours, ten kernels](docs/measured/chart.svg)\n\n"
        f"*Time of the fastest peer over ours, interleaved medians, results checked. CPU: `{cpu[0]['command'][0]}` on an AMD EPYC with "
        f"AVX-512, {cpu[0]['date']}. GPU: `{gpu[0]['command'][0]}` on an H200, {gpu[0]['date']}.*\n"
        f"On the CPU's list Kiln is slower than its fastest peer in {counts[0]}. "
        f"On the GPU's it is in {counts[1]}.\n"
        "All rows: [CPU](docs/measured/cpu.md), [GPU](docs/measured/gpu.md), [service](docs/measured/service.md).\n")


def first_compile():
    cold = [row["cold_ms"] for row in results("quickstart_epyc")[1] if row["cold_ms"] >= 5]  # others share an earlier compile
    ptx, _, code = results("gpu_latency")[1][:3]
    gpu = [ptx[kernel] + code[kernel] for kernel in ("add", "softmax", "matmul")]
    return f"- A first compile takes {min(cold):.0f} to {max(cold):.0f} ms on a CPU and {min(gpu)} to {max(gpu)} ms on a GPU.\n"


def models_right(name, where):
    sound = {stage: [row["right"] == row["whole"] == "yes" for row in results(name)[1] if row["stage"] == stage]
             for stage in ("inference", "training")}
    inference, training = (f"{sum(each)} of {len(each)}" for each in sound.values())
    return f"On {where} inference of {inference} models is right and whole, and a training step of {training}.\n"


def models_times():
    return models_chart.sentence(results("models_gpu_times")[1])


SENTENCES = {
    "first_compile": first_compile,
    "models_right": lambda: models_right("models_gpu", "a GPU in bf16"),
    "models_right_on_cpus": lambda: models_right("models_cpu_whole", "a CPU in f32"),
    "models_times": models_times,
}


def page_text(path):
    make = {"table": table, "chart": chart_block, "sentence": lambda name: SENTENCES[name]()}
    return BLOCK.sub(lambda match: match[1] + make[match[2]](match[3]) + match[4], path.read_text(encoding="utf-8"))


def main():
    outputs = {path: page_text(path) for path in PAGES} | {
        HERE / "chart.svg": chart_svg(), HERE / "models.svg": models_chart.svg(results("models_gpu_times")[1])}
    used = {name for text in outputs.values() for name in re.findall(r"<!-- table ([a-z0-9_]+) -->", text)}
    failures = [f"no page shows data/{path.name}" for path in sorted((HERE / "data").glob("*")) if path.stem not in used]
    for path, text in outputs.items():
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            failures.append(f"{path.relative_to(ROOT)} is not current: run docs/measured/make.py")
    print(*failures, sep="\n", end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
