#!/usr/bin/env python3
"""authoring_reference.py SOURCE_DIR [--check]: writes docs/reference/authoring-reference.md from the public headers.

The page has what an author of kernels calls: declarations without bodies, private members and the line of the call,
with the comments that stand before them. `--check` writes nothing, and fails where the page is not what it would be.
"""
import pathlib
import re
import sys

HEADERS = [  # in the order of docs/use/authoring.md
    ("dsl/include/kiln/dsl", "kernel.h", "Kernels"),
    ("dsl/include/kiln/dsl", "value.h", "Constants, values, variables, parameters"),
    ("dsl/include/kiln/dsl", "builder.h", "Functions of the language"),
    ("dsl/include/kiln/dsl", "memory.h", "Memory"),
    ("dsl/include/kiln/dsl", "control.h", "Control flow"),
    ("dsl/include/kiln/dsl", "algebra.h", "Products, reductions, scans, orders"),
    ("dsl/include/kiln/dsl", "library.h", "Library"),
    ("client/include/kiln/client", "client.h", "Clients"),
    ("client/include/kiln/client", "function.h", "Handles"),
    ("client/include/kiln/client", "handle.h", "Launches, and handles of kernels known at run time"),
    ("client/include/kiln/client", "launch_argument.h", "Arguments of launches"),
    ("client/include/kiln/client", "gpu.h", "GPUs"),
    ("client/include/kiln/client", "host_memory.h", "Arrays of the host"),
]
LOCATION = re.compile(r",?\s*(?:SourceLocation|std::source_location|Location) loc = "
                      r"(?:SourceLocation|std::source_location|Location)::current\(\)")
HIDDEN = re.compile(r"^(?:using (?:dsl|client)::|template <[^>]*> (?:class|struct) \w+;|class \w+;|struct \w+;|friend |template <[^>]*>\s*struct LaunchType|"
                    r"template <class Param>\s*using launch_type_t|template <class Param>\s*struct LaunchType|explicit Scalar|explicit Ptr|explicit Const\(Expr|"
                    r"struct Argument|explicit (?:KernelDef|Function|UntypedFunction)\(|\w+\(const \w+&\) = delete|"
                    r"\w+& operator=\((?:const )?\w+&&?\) = delete|.*kIsKnownWhileTracing|.*as_condition|"
                    r"template <std::same_as<bool> T>|template <class T>\s*concept)")


def block_end(text, start):
    """Behind the brace that closes the one at `start`; comments and literals of the headers have balanced braces."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    sys.exit("a brace is not closed")


def items(text):
    """The comments, blank lines and declarations of a scope, in order."""
    at = 0
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        line = text[at:line_end].strip()
        if not line or line.startswith(("//", "#")) or line in ("public:", "private:"):
            yield ("blank" if not line else "comment" if line.startswith("//") else "other"), line
            at = line_end + 1
            continue
        end, depth = at, 0
        while True:  # to `;` or the end of a body, outside of parentheses
            char = text[end]
            depth += {"(": 1, ")": -1}.get(char, 0)
            if char == "{":
                closed = block_end(text, end)
                is_default = depth > 0 or re.search(r"[=,]\s*$", text[at:end]) is not None
                is_default |= re.search(r"[)\w]\s*:\s[^{]*$", text[at:end]) is not None and text[closed] != "\n"
                end = closed
                if not is_default and not text[closed:closed + 1] == ";":
                    break
                continue
            end += 1
            if char == ";" and depth == 0:
                break
        behind = text.find("\n", end)
        behind = len(text) if behind < 0 else behind
        trailing = text[end:behind].strip()
        yield "code", text[at:end].strip() + (f"  {trailing}" if trailing.startswith("//") and "NOLINT" not in trailing else "")
        at = behind + 1 if not trailing or trailing.startswith("//") else end


def squeezed(code):
    return re.sub(r"\s+", " ", code)


def without_body(code):
    """A declaration: no body, no initialisers of members, no line of the call."""
    code, comment = (code.split(";  //", 1) + [""])[:2] if ";  //" in code else (code, "")
    code = squeezed(re.sub(r"//[^\n]*", "", code))
    opening = code.find("{")
    while opening >= 0:
        before = code[:opening]
        if before.count("(") == before.count(")") and not re.search(r"=\s*$", before):
            code = before
            break
        opening = code.find("{", block_end(code, opening))
    code = re.sub(r"\)\s*:\s.*$", ")", code) if " ? " not in code else code
    code = LOCATION.sub("", code).strip().rstrip(";").strip().replace("(, ", "(")
    return code + ";" + (f"  //{comment}" if comment else "")


def members(code, indent):
    opening = code.index("{")
    head = squeezed(code[:opening]).strip()
    out = [f"{indent}{head} {{"]
    visible = not head.split("<")[0].startswith("class") and " class " not in f" {head} "
    visible = visible or "struct" in head
    for kind, text in items(code[opening + 1:block_end(code, opening) - 1]):
        if text in ("public:", "private:"):
            visible = text == "public:"
        elif visible and (kind != "blank" or len(out) > 1):
            out += rendered(kind, text, indent + "  ")
    while out[-1] == "":
        out.pop()
    return out + [f"{indent}}};"]


def rendered(kind, text, indent=""):
    if kind == "blank":
        return [""]
    if kind == "comment":
        return [] if "NOLINT" in text else [indent + text]
    if kind == "other" or HIDDEN.match(squeezed(text.split("{")[0])) or "for the tracer" in text.split("\n")[0]:
        return ["hidden"]
    head = re.sub(r"^template <.*?>\s*(?=class|struct)", "", squeezed(text))
    if re.match(r"(?:class|struct)\b(?! \w+;)", head) and "{" in text:
        return members(text, indent)
    if re.match(r"enum\b", text):
        return [indent + line for line in text.split("\n")]
    # A definition of what a class above declares.
    if re.match(r"[^(]*\b\w+(?:<[^(]*>)?::~?\w+\(", squeezed(text).split(" = ")[0]) and "std::" not in squeezed(text).split("(")[0]:
        return ["hidden"]
    return [indent + without_body(text)]


def scope(text):
    """Lines of a namespace: its own and those of namespaces in it, but for what only templates need."""
    lines = []
    for kind, code in items(text):
        named = re.match(r"namespace ([\w:]*) ?\{", code)
        if named and named[1].split("::")[-1] in ("detail", "tracing"):
            lines.append("hidden")
            continue
        if named:
            lines += scope(code[code.index("{") + 1:block_end(code, code.index("{")) - 1])
        elif kind == "code" and code.startswith("namespace"):
            continue
        else:
            lines += rendered(kind, code)
    return lines


def tidy(lines):
    """Drops the comments of what is hidden, and blank lines in a row."""
    out = []
    for line in lines:
        if line == "hidden":
            while out and out[-1].lstrip().startswith("//") and not out[-1].lstrip().startswith("// ---"):
                out.pop()
        elif line or (out and out[-1]):
            out.append(line)
    return out


def page(root):
    out = ["# Reference of the authoring functions", "",
           "Generated from the public headers by `cmake/authoring_reference.py`; a test checks that it is current. The guide is",
           "[authoring.md](../use/authoring.md); what an op computes is in [ops.md](ops.md). Functions that take the line of their call as a",
           "last, defaulted argument are shown without it.", ""]
    for directory, name, title in HEADERS:
        text = pathlib.Path(root, directory, name).read_text()
        first = re.match(r"(?://[^\n]*\n)*", text)[0]
        lines = tidy(scope(text[len(first):]))
        out += [f"## {title}: `{'/'.join(directory.split('/')[-2:])}/{name}`", ""]
        out += ["```cpp"] + [line for line in first.strip().split("\n")] + ["", *lines]
        while out[-1] == "":
            out.pop()
        out += ["```", ""]
    return "\n".join(out)


def main():
    root = pathlib.Path(sys.argv[1])
    target = root / "docs/reference/authoring-reference.md"
    text = page(root)
    if sys.argv[2:] != ["--check"]:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        sys.exit(f"docs/reference/authoring-reference.md is not current: run cmake/authoring_reference.py {root}")


main()
