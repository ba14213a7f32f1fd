#!/usr/bin/env python3
"""includes.py SOURCE_DIR: arrows between rooms point one way, LLVM's headers stay inside codegen's sources, and programs
that include a header of the client get no JSON library with it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
# The room that all may see, with the contracts between compiler, launcher and tuner.
DSL = {"dsl", "abi", "target"}
# Room → rooms whose public headers it may include.
MAY_INCLUDE = {
    "dsl": DSL,
    "dsl/graph": DSL | {"graph"},
    "dsl/graph/pytorch": DSL | {"graph"},
    "client/wire": DSL | {"wire"},
    "client/cmdline": {"cmdline"},
    "client/redis": DSL | {"wire", "redis"},
    "client/confine": DSL | {"wire", "confine"},
    "client": DSL | {"wire", "cmdline", "client", "graph"},
    "client/graph": DSL | {"wire", "client", "graph"},
    "client/c": DSL | {"wire", "client", "graph"},
    "codegen": DSL | {"codegen"},
    "codegen/graph": DSL | {"graph", "planner"},
    "codegen/worker": DSL | {"codegen", "graph", "planner", "wire", "confine"},
    "autotune": DSL | {"client", "wire", "redis", "confine", "cmdline", "autotune"},
    "server": DSL | {"wire", "redis", "cmdline", "autotune", "server"},
}

# Folder of codegen/src → others of it that it may not include: what is common knows no vendor, and no vendor another.
MAY_NOT_INCLUDE = {
    "passes": {"cpu", "gpu", "nvptx", "amdgcn"},
    "cpu": {"gpu", "nvptx", "amdgcn"},
    "gpu": {"cpu", "nvptx", "amdgcn"},
    "nvptx": {"cpu", "amdgcn"},
    "amdgcn": {"cpu", "nvptx"},
}


# What programs include, and where headers lie that these may include.
CLIENT_HEADERS = [ROOT / "client/include", ROOT / "client/graph/include"]
PUBLIC_HEADERS = [ROOT / room / "include" for room in MAY_INCLUDE]


def room_of(path):
    relative = path.relative_to(ROOT).as_posix()
    matches = [room for room in MAY_INCLUDE if relative.startswith(room + "/")]
    return max(matches, key=len) if matches else None


def violations(path):
    room = room_of(path)
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#include\s*[<"]([^>"]+)[>"]', line)
        if not match:
            continue
        include = match.group(1)
        kiln = re.match(r"kiln/([a-z]+)/", include)
        if kiln and kiln.group(1) not in MAY_INCLUDE[room]:
            yield f"{path.relative_to(ROOT)}:{number}: {room} includes {include}"
        folder = path.relative_to(ROOT).parts[:3]
        if folder[:2] == ("codegen", "src") and include.split("/")[0] in MAY_NOT_INCLUDE.get(folder[2], ()):
            yield f"{path.relative_to(ROOT)}:{number}: {folder[2]} includes {include}"
        if re.match(r"(llvm|lld)", include) and (room != "codegen" or "/include/" in path.as_posix()):
            yield f"{path.relative_to(ROOT)}:{number}: LLVM outside codegen/src"


def json_behind(header, seen, way=()):
    """The ways from a header to the JSON library, each once."""
    name = header.relative_to(ROOT).as_posix()
    if name in seen:
        return
    seen.add(name)
    for include in re.findall(r'^\s*#include\s*[<"]([^>"]+)[>"]', header.read_text(encoding="utf-8"), re.MULTILINE):
        if include.startswith("nlohmann/"):
            yield " → ".join((*way, name, include))
        for folder in PUBLIC_HEADERS:
            if (folder / include).is_file():
                yield from json_behind(folder / include, seen, (*way, name))


checked = 0
found = []
for suffix in ("*.h", "*.cpp", "*.def"):
    for path in sorted(ROOT.rglob(suffix)):
        if room_of(path) is None or "build" in path.relative_to(ROOT).parts[:1]:
            continue
        checked += 1
        found += violations(path)
client_headers = sorted(header for folder in CLIENT_HEADERS for header in folder.rglob("*.h"))
for header in client_headers:
    found += json_behind(header, set())
print("\n".join(found))
if checked < 50 or len(client_headers) < 5:
    found.append("too few files")
sys.exit(1 if found else 0)
