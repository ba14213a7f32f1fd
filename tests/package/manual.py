#!/usr/bin/env python3
"""manual.py BUILD_DIR: the manual pages have every command and option that --help has, in sound roff."""
import pathlib
import re
import shutil
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1])
failures = []


def help_of(program, words):
    return subprocess.run([BUILD / "bin" / program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def commands_in(text):
    listed = text.split("Subcommands:\n", 1)[1] if "Subcommands:\n" in text else ""
    return re.findall(r"^  ([a-z][a-z-]*)", listed, re.M)


def options_in(text):
    lines = [line for line in text.splitlines() if re.match(r" +-", line)]
    return {name for line in lines for name in re.findall(r"(?:^ +|,)(--?[a-z][a-z-]*)", line)}


def check_command(program, page, words):
    text = help_of(program, words)
    title = " ".join([program, *words])
    start = f'.SS "{title}"' if words else ".SH OPTIONS"
    plain = page.replace("\\-", "-")
    if start not in plain:
        return failures.append(f"{program}: no section {start}")
    section = re.split(r"^\.S[SH]", plain.split(start, 1)[1], maxsplit=1, flags=re.M)[0]
    options = options_in(text)
    if not options:
        failures.append(f"{title} --help: no options were found")
    failures.extend(f"{title}: {name} is missing" for name in options if f"\\fB{name}\\fR" not in section)
    for command in commands_in(text):
        # What it prints for --help is another program's.
        if (title, command) != ("kiln", "tune"):
            check_command(program, page, [*words, command])


def check_roff(path):
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-Tlint", "-W", "error", path], capture_output=True, text=True, check=False)
        if done.returncode != 0 or done.stdout:
            failures.append(f"mandoc: {done.stdout}")
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
        if done.returncode != 0 or done.stderr:
            failures.append(f"man -l {path}: {done.stderr}")


for name in ("kiln.1", "kilnd.8", "kiln-tune.1"):
    path = BUILD / "cmake" / "packaging" / name
    page = path.read_text(encoding="utf-8")
    check_command(name.rsplit(".", 1)[0], page, [])
    check_roff(path)
    if re.search(r"@[A-Z_]+@", page):
        failures.append(f"{name}: a name was not replaced")
    if str(pathlib.Path.home()) + "/." in page or str(BUILD) in page:
        failures.append(f"{name}: names a path of this machine")
if not shutil.which("mandoc"):
    print("note: mandoc is not installed; its part was left out")
print("\n".join(failures) or "all options are in the pages")
sys.exit(1 if failures else 0)
