"""Extents that are known when a graph runs: expressions of SymPy, as torch.export has them, and the text that graphs have."""
import sympy
from sympy.printing.str import StrPrinter
from torch.utils._sympy.functions import FloorDiv


class Printer(StrPrinter):
    def _print_FloorDiv(self, e):
        return f"div({self._print(e.args[0])}, {self._print(e.args[1])})"

    def _print_Pow(self, e):
        base, times = e.args
        return "*".join([self.parenthesize(base, 50)] * int(times))


def dim(name):
    return sympy.Symbol(name, integer=True, positive=True)


def is_extent(x):
    return isinstance(x, sympy.Expr) and not x.is_Integer


def plain(x):
    """An int where it is one."""
    x = sympy.expand(x) if isinstance(x, sympy.Expr) else x
    return int(x) if isinstance(x, sympy.Integer) else x


def text(x):
    return Printer().doprint(plain(x))


def read(written):
    """Of a type's text."""
    names = {name: dim(name) for name in set("".join(c if c.isalnum() or c == "_" else " " for c in written).split()) if not name.isdigit()}
    return plain(sympy.sympify(written, locals={**names, "div": FloorDiv, "max": sympy.Max, "min": sympy.Min}))


def quotient(a, b):
    """Of numbers that divide."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    out = sympy.cancel(sympy.sympify(a) / b)
    return plain(out if out.is_polynomial() else FloorDiv(a, b))


def broadcast(*shapes):
    """The shape of all together."""
    out = []
    for place in range(1, max((len(s) for s in shapes), default=0) + 1):
        extents = [s[-place] for s in shapes if len(s) >= place]
        others = [e for e in extents if e != 1]
        assert all(e == others[0] for e in others), f"{shapes} do not broadcast"
        out.insert(0, others[0] if others else 1)
    return out
