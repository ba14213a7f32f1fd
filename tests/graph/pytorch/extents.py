"""Extents that are known when a graph runs: expressions of SymPy, as torch.export has them, and the text that graphs have."""
import sympy
from sympy.printing.str import StrPrinter


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
