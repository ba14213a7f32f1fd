"""What bench.py prints of its results: a line a row, lines `area,case,dtype,who,metric,value`, and at the end the ratios."""
import csv
import math

# Of which the geometric mean of the ratios is printed: rows of bf16 by these names.
HEADLINE = ["512x512x512 nt", "1024x1024x1024 nt", "2048x2048x2048 nt", "4096x4096x4096 nt", "8192x8192x8192 nt",
            "4096x14336x4096 nt", "16x8192x8192 nt", "1000x1000x1000 nn"]


def rivals(result):
    """Speeds of the peers."""
    return {name: value for name, value in result["speed"].items() if name != "kiln"}


def ratio(result):
    """To the best peer, whose name comes with it; None where one of the two is missing."""
    peers = rivals(result)
    if "kiln" not in result["speed"] or not peers or result.get("pair"):
        return None
    best = max(peers, key=peers.get)
    return result["speed"]["kiln"] / peers[best], best


def config_text(stage):
    text = ",".join(f"{k}={v}" for k, v in stage["config"].items()) + f" r{stage['registers']}"
    return text + (f" spills {stage['spill_bytes']}" if stage["spill_bytes"] else "")


def line_of(result):
    """Ours, ratio to the best peer, share of a copy, peers, config."""
    wide = f"{result['row']} {result['type']}"
    text = f"{result['area']:<10}{wide:<46}"
    if result.get("pair"):
        if "cost_percent" in result:
            text += f" {result['pair'][1]} costs {result['cost_percent']:+.1f} %: "
        text += " ".join(f"{name} {value:.3f}" for name, value in result["speed"].items())
    else:
        mine, best = result["speed"].get("kiln"), ratio(result)
        text += f"{mine:9.3f}" if mine else "        –"
        text += f" {best[0]:6.2f}" if best else "      –"
        text += f" {100 * result['share_of_copy']:4.0f} %" if "share_of_copy" in result else "      –"
        text += "  " + " ".join(f"{name} {value:.3f}" for name, value in rivals(result).items())
    if result["complete"]:
        text += "  " + "; ".join(config_text(stage) for stage in result["stages"])
        if len(result["stages"]) > 1:
            text += "  " + " + ".join(f"{stage['us']:.0f}" for stage in result["stages"]) + " us alone"
        compiling, assembling = (sum(stage[what] for stage in result["stages"]) for what in ("compile_ms", "assembler_ms"))
        text += f"  {compiling:.0f} ms ({assembling:.0f})"
    elif result["refused"]:
        text += "  " + result["refused"][0]["why"]
    return text


def csv_rows(result):
    head = [result["area"], result["row"], result["type"]]
    for name, us in result["us"].items():
        yield [*head, name, "us", f"{us:.3f}"]
        if name in result["speed"]:
            yield [*head, name, result["unit"], f"{result['speed'][name]:.4f}"]
    if "share_of_copy" in result:
        yield [*head, "kiln", "share of copy", f"{result['share_of_copy']:.4f}"]
    if "cost_percent" in result:
        yield [*head, "kiln", "cost percent", f"{result['cost_percent']:.2f}"]
    best = ratio(result)
    if best:
        yield [*head, "kiln", "ratio to best peer", f"{best[0]:.4f}"]


def write_csv(results, file):
    writer = csv.writer(file, lineterminator="\n")
    for result in results:
        writer.writerows(csv_rows(result))


def mean_of(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def headline(results, names=HEADLINE):
    """The geometric mean over the products of these names, where all ran."""
    found = {r["row"]: ratio(r) for r in results if r["area"] == "gemm" and r["type"] == "bf16" and r["row"] in names}
    there = [name for name in names if found.get(name)]
    if not there:
        return []
    if len(there) < len(names):
        missing = ", ".join(name for name in names if name not in there)
        return [f"# no geometric mean of the bf16 products: without {missing}"]
    values = [found[name][0] for name in names]
    each = ", ".join(f"{name.split()[0]} {value:.3f}" for name, value in zip(names, values))
    return [f"# geometric mean of {len(names)} bf16 products, ours to the best peer: {mean_of(values):.3f} ({each})"]


def summary(results):
    """Lines: the mean of the headline's products, all ratios with those below 1 marked, and what epilogues cost."""
    lines = headline(results)
    table = [(best[0], r, best[1]) for r in results if (best := ratio(r))]
    table.sort(key=lambda one: one[0])
    if table:
        lines += ["", f"{'ratio':>6}     {'row':<58} best peer" + " " * 13 + "share of a copy"]
    for value, result, who in table:
        name = f"{result['area']} {result['row']} {result['type']}"
        share = f"{100 * result['share_of_copy']:.0f} %" if "share_of_copy" in result else ""
        lines.append(f"{value:6.2f} {'<<<' if value < 1 else '   '} {name:<58} {who:<22}{share}".rstrip())
    if table:
        good = sum(value >= 1 for value, _, _ in table)
        lines.append(f"# {good} of {len(table)} rows are at 1.00 of the best peer or above; geometric mean "
                     f"{mean_of([value for value, _, _ in table]):.3f}")
    for result in results:
        if "cost_percent" in result:
            lines.append(f"# {result['row']}: {result['pair'][1]} costs {result['cost_percent']:+.1f} % of our product"
                         + (", at most 2 % wanted" if "gelu" in result["row"] else ""))
        if not result["complete"]:
            lines.append(f"# nothing of ours: {result['area']} {result['row']} {result['type']}")
    return lines
