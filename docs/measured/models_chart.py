"""The chart of whole models: a bar each, how many times as fast as the faster of PyTorch eager and Inductor."""
import math
import statistics


def compared(rows):
    """Those whose results are right, and that nothing of stayed with PyTorch."""
    return [row["ratio"] for row in rows if row["right"] == row["whole"] == "yes" and "ratio" in row]


def sentence(rows):
    ratios = compared(rows)
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    return (f"Inference of {len(ratios)} models, in bf16 on an H200, is {mean:.2f} times as fast as with the faster of PyTorch eager and "
            f"Inductor, in the geometric mean. {sum(ratio >= 1 for ratio in ratios)} of them are at least as fast.\n")


def svg(rows):
    """Sorted, on a logarithmic axis, from 1, where the faster of both stands."""
    ratios = sorted(compared(rows))
    left, top, bar, scale = 60, 20, 9, 60  # scale: pixels of a factor of two
    low, high = 0.5, 8.0
    y = lambda value: top + scale * (math.log2(high) - math.log2(min(max(value, low), high)))
    width, height = left + bar * len(ratios) + 20, y(low) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height:.0f}" fill="#ffffff"/>']
    for mark in (0.5, 1, 2, 4, 8):
        stroke = 'stroke="#333333" stroke-width="1.5"' if mark == 1 else 'stroke="#cccccc"'
        out.append(f'<line x1="{left}" y1="{y(mark):.0f}" x2="{width - 20}" y2="{y(mark):.0f}" {stroke}/>')
        out.append(f'<text x="{left - 8}" y="{y(mark) + 4:.0f}" text-anchor="end">{mark:g}×</text>')
    for index, ratio in enumerate(ratios):
        begin, end = sorted((y(1), y(ratio)))
        colour = "#e08a2e" if ratio >= 1 else "#b03a2e"
        out.append(f'<rect x="{left + bar * index + 1}" y="{begin:.1f}" width="{bar - 2}" height="{max(end - begin, 1):.1f}" fill="{colour}"/>')
    out.append(f'<text x="{left}" y="{height - 8:.0f}">{len(ratios)} models of timm and transformers, inference, bf16, H200: times as fast as the '
               "faster of eager and Inductor</text>")
    return "\n".join([*out, "</svg>"]) + "\n"
