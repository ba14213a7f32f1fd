#!/usr/bin/env python3
"""abi.py HEADER LIBRARY LISTING PROGRAM…: what programs that were compiled before rely on.

kiln.h with what it includes is C99 and C++ without a warning by GCC and Clang, and so are the programs. The library shows the functions of the
header, with their version, and nothing else. LISTING has the functions, the numbers, and the structs with the places of
their fields: what it says must stay so; KILN_UPDATE_GOLDEN=1 writes it anew, for a release that may break programs or
where something was added.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HEADER, LIBRARY, LISTING, *PROGRAMS = map(pathlib.Path, sys.argv[1:])
HEADERS = sorted(HEADER.parent.glob("*.h"))  # HEADER includes the others, and each may be included alone
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only", f"-I{HEADER.parent}"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def check_compilers():
    clang = next((name for name in ("clang-22", "clang") if shutil.which(name)), None)
    for compiler in ("gcc", clang):
        if compiler is None:
            print("note: no Clang; its part was left out")
            continue
        for source in (*HEADERS, *PROGRAMS):
            run(compiler, "-x", "c", "-std=c99", *STRICT, str(source))
        for header in HEADERS:
            run(compiler, "-x", "c++", "-std=c++11", *STRICT, str(header))


def one_line(text):
    return re.sub(r"\s*([(),*])\s*", r"\1", " ".join(text.split())).replace(",", ", ").replace("*", "* ").replace("* *", "**").strip()


def read_header():
    """Functions by name, structs with their fields, and the names of numbers."""
    text = "".join(header.read_text(encoding="utf-8") for header in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    functions = {}
    for declaration in re.findall(r"^KILN_API\s+([^;{]+);", text, flags=re.MULTILINE):
        name = re.search(r"(kiln_\w+)\(", one_line(declaration)).group(1)
        functions[name] = one_line(declaration)
    structs = {}
    text = re.sub(r"union \{.*?\}\s*(\w+);", r"union_ \1;", text, flags=re.DOTALL)
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}\s*\w+;", text, flags=re.DOTALL):
        structs[name] = re.findall(r"(\w+)(?:\[\w+\])?;", body)
    numbers = re.findall(r"^\s*(KILN_\w+) = ", text, flags=re.MULTILINE)
    return functions, structs, numbers


def listing(functions, structs, numbers):
    lines = ['printf("# %s on x86-64 and other machines of 64 bits\\n", "kiln.h");']
    lines += [f'puts("function {functions[name]}");' for name in sorted(functions)]
    for name, fields in structs.items():
        lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
        lines += [f'printf("  {field} %zu\\n", offsetof({name}, {field}));' for field in fields]
    lines += [f'printf("{name} = %d\\n", (int){name});' for name in numbers]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "listing.c")
        source.write_text('#include <stdio.h>\n#include "kiln.h"\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
        run("gcc", f"-I{HEADER.parent}", str(source), "-o", f"{folder}/listing")
        return run(f"{folder}/listing")


def visible():
    found = [line.split()[-1] for line in run("nm", "-D", "--defined-only", str(LIBRARY)).splitlines()]
    return {name for name in found if not re.fullmatch(r"KILN_[\d.]+", name)}


def main():
    check_compilers()
    functions, structs, numbers = read_header()
    assert len(functions) > 30 and len(structs) > 5 and len(numbers) > 30, "kiln.h was not read"
    declared = {re.sub("@.*", "", name) for name in functions}
    seen = visible()
    problems = [f"{name} has no version" for name in seen if "@@KILN_" not in name]
    seen = {re.sub("@.*", "", name) for name in seen}
    problems += [f"{name} is visible, and not in kiln.h" for name in sorted(seen - declared)]
    problems += [f"{name} is in kiln.h, and not visible" for name in sorted(declared - seen)]
    if "NODELETE" not in run("readelf", "-d", str(LIBRARY)):
        problems.append("dlclose() would unload code that threads are in")
    now = listing(functions, structs, numbers)
    if os.environ.get("KILN_UPDATE_GOLDEN") == "1":
        LISTING.write_text(now, encoding="utf-8")
    before = LISTING.read_text(encoding="utf-8")
    if now != before:
        changed = set(before.splitlines()) ^ set(now.splitlines())
        problems.append(f"{LISTING.name} says otherwise (KILN_UPDATE_GOLDEN=1 writes it anew):")
        problems += [f"  {line}" for line in sorted(changed)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
