#!/usr/bin/env python3
"""unity.py SOURCE_DIR: files that kiln_unity() compiles together have no name twice in their anonymous namespaces.

A name that two files have would be defined twice where they meet, and which files meet changes with every new one.
"""
import collections
import pathlib
import re
import sys


def private_names(path):
    """Names, with their namespace, that the file defines for itself, read as clang-format leaves them: at column 0."""
    names, spaces, anonymous = set(), [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"namespace ([\w:]+) \{", line):
            spaces.append(match[1])
        elif line.startswith("namespace {"):
            anonymous = True
        elif line == "}  // namespace":
            anonymous = False
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif line and line[0] not in " }/#" and not line.startswith("using ") and (anonymous or line.startswith("static ")):
            if match := re.search(r"(\w+)\s*(?::\s*\w+.*)?$", re.split(r"[({=;\[]", line, maxsplit=1)[0].strip()):
                names.add("::".join([*spaces, match[1]]))
    return names


def together(folder, target, arguments, alone):
    """The groups of files that kiln_unity(TARGET ARGUMENTS) may compile as one."""
    apart = [set(group.split()) for group in arguments.split("APART")[1:]]
    places = {"kiln": "cli/*.cpp", "kiln_random": "*.cpp"}
    names = {file.relative_to(folder).as_posix() for file in folder.glob(places.get(target, "src/**/*.cpp"))}
    names = {name for name in names - alone if not name.endswith("_test.cpp")}  # those are another target's
    return [names.difference(*apart), *apart]


def main(source):
    failures, rooms = [], 0
    for project in sorted(source.glob("**/CMakeLists.txt")):
        text = project.read_text(encoding="utf-8")
        alone = {name for files in re.findall(r"^kiln_authoring_files\(([^)]*)\)", text, re.MULTILINE) for name in files.split()}
        for target, arguments in re.findall(r"^kiln_unity\(([^\s)]+)([^)]*)\)", text, re.MULTILINE):
            rooms += 1
            for group in together(project.parent, target, arguments, alone):
                owners = collections.defaultdict(list)
                for file in sorted(group):
                    for name in private_names(project.parent / file):
                        owners[name].append(file)
                failures += [f"{target}: {name} is in {', '.join(files)}: rename one, or move a file to another APART"
                             for name, files in sorted(owners.items()) if len(files) > 1]
    if rooms == 0:
        failures.append("no CMakeLists.txt has kiln_unity")
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
