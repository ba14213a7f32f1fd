#!/usr/bin/env python3
"""packages.py SOURCE_DIR BUILD_DIR [--without PACKAGE...]: what the builds use of /usr comes with the packages that the commands install.

Of quickstart.sh and of tests/run.sh: what configure found, and what the compiler and the linker read, lies in a package of the
command's list in cmake/packages.sh, in one that such a package depends on, or in one that every Debian has. What is of no package
was put there by hand. --without takes a package off the lists, as the test of this test does.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Looked for, and done without where they are not there: variables of the configuration.
OPTIONAL = re.compile(r"KILN_(DNNL|XSMM|CUDA)_?\w*|LIBXML2_XMLLINT_EXECUTABLE")
LISTS = {"quickstart.sh": "$KILN_BUILD_PACKAGES", "tests/run.sh": "$KILN_BUILD_PACKAGES $KILN_TEST_PACKAGES"}


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Packages:
    """The installed packages: what they depend on, and whose a file is."""

    def __init__(self):
        self.depends, self.providers, self.base = {}, {}, set()
        fields = ("Package", "db:Status-Status", "Essential", "Priority", "Depends", "Pre-Depends", "Provides")
        rows = output("dpkg-query", "-W", "-f", "\\t".join("${%s}" % field for field in fields) + "\\n")
        for row in rows.splitlines():
            name, status, essential, priority, depends, pre_depends, provides = row.split("\t")
            if status != "installed":
                continue
            self.depends[name] = self.alternatives(depends) + self.alternatives(pre_depends)
            if essential == "yes" or priority == "required" or name == "apt":
                self.base.add(name)
            for group in self.alternatives(provides):
                self.providers.setdefault(group[0], []).append(name)
        self.owner = {}
        folder = "/var/lib/dpkg/info"
        for file in os.listdir(folder):
            if file.endswith(".list"):
                name = file.removesuffix(".list").split(":")[0]
                with open(f"{folder}/{file}", encoding="utf-8", errors="replace") as lines:
                    for path in lines:
                        self.owner.setdefault(self.merged(path.rstrip("\n")), name)

    @staticmethod
    def alternatives(field):
        groups = [group for group in field.split(",") if group.strip()]
        return [[re.split(r"[ (:]", name.strip())[0] for name in group.split("|")] for group in groups]

    @staticmethod
    def merged(path):
        return "/usr" + path if re.match(r"/(bin|sbin|lib\w*)/", path) else path

    def installed(self, name):
        return [name] if name in self.depends else self.providers.get(name, [])

    def closure(self, names):
        """Of `a | b` apt takes the first that it can have."""
        seen, todo = set(), [name for name in [*names, *self.base]]
        while todo:
            name = todo.pop()
            for real in self.installed(name):
                if real not in seen:
                    seen.add(real)
                    todo += [next((one for one in group if self.installed(one)), group[0]) for group in self.depends[real]]
        return seen

    def of(self, path):
        for name in (path, os.path.realpath(path)):
            if owner := self.owner.get(self.merged(name)):
                return owner
        return None


class Build:
    """What a build directory uses below /usr: path -> what says so."""

    def __init__(self, folder, targets=()):
        self.folder, self.uses, self.optional = folder, {}, set()
        self.objects = {line for line in self.ninja("inputs", *(targets or ["all"])) if line.endswith((".o", ".gch"))}
        self.read_cache()
        self.read_commands(targets or ["all"])

    def ninja(self, tool, *arguments):
        return output("ninja", "-C", self.folder, "-t", tool, *arguments, stderr=subprocess.DEVNULL).splitlines()

    def use(self, path, by):
        path = os.path.normpath(path)
        if path.startswith("/usr/") and os.path.exists(path):
            self.uses.setdefault(path, by)

    def read_cache(self):
        with open(f"{self.folder}/CMakeCache.txt", encoding="utf-8") as cache:
            for line in cache:
                match = re.match(r"([^#/:]+):(?:FILEPATH|PATH|UNINITIALIZED)=(/.+)", line)
                if not match:
                    continue
                name, path = match.groups()
                if OPTIONAL.fullmatch(name):
                    self.optional.add(path)
                elif not os.path.isdir(path) or name.endswith("_DIR"):
                    self.use(path, f"configure: {name}")

    def read_commands(self, targets):
        commands = "\n".join(self.ninja("commands", *targets))
        for token in sorted(set(commands.split())):
            if token.startswith("/usr/") and not os.path.isdir(token):
                self.use(token, "a command of the build")
            elif match := re.fullmatch(r"-l([\w+.-]+)", token):
                self.use(output("c++", f"-print-file-name=lib{match[1]}.so").strip(), f"the linker: {token}")

    def read_headers(self, objects):
        """What the compiler read, where `objects` have been built."""
        built, current = 0, ""
        for line in self.ninja("deps"):
            if not line.startswith(" "):
                current = line.split(":")[0]
                built += current in objects
            elif current in objects:
                self.use(line.strip(), f"the compiler: {current}")
        return built


def check(packages, command, names, builds):
    names, failures = packages.closure(names), {}
    for build in builds:
        names_here = names | {packages.of(path) for path in build.optional}
        for path, by in build.uses.items():
            owner = packages.of(path)
            if owner is None:
                if any(pathlib.PurePath(path).is_relative_to(each) for each in build.optional):
                    continue
                failures[path] = f"{path} ({by}), which is of no package"
            elif owner not in names_here:
                failures.setdefault(owner, f"{path} ({by}) of {owner}, which its packages do not bring")
    for _, use in sorted(failures.items()):
        print(f"FAILED: {command} uses {use}")
    print(f"{command}: {sum(len(build.uses) for build in builds)} files of {len(names)} packages")
    return not failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("--without", action="append", default=[])
    arguments = parser.parse_args()
    if not os.path.isdir("/var/lib/dpkg/info"):
        print("[SKIPPED] not a Debian")
        return 77
    lists = {command: set(output("bash", "-c", f'. cmake/packages.sh; echo "{names}"', cwd=arguments.source).split())
             for command, names in LISTS.items()}
    for names in lists.values():
        names.difference_update(arguments.without)
    packages = Packages()
    tests = Build(arguments.build)
    built = tests.read_headers(tests.objects)
    clang = os.path.join(arguments.build, "clang")
    builds = [tests]
    if os.path.exists(f"{clang}/build.ninja"):
        builds.append(Build(clang))
        built += builds[1].read_headers(builds[1].objects)
    with open(f"{arguments.source}/quickstart.sh", encoding="utf-8") as script:
        options = re.search(r"^configure (.+?) >", script.read(), re.MULTILINE)[1].split()
    with open(f"{arguments.build}/CMakeCache.txt", encoding="utf-8") as cache:  # the same objects
        options += ["-D" + line.strip() for line in cache if line.startswith(("KILN_UNITY:", "KILN_PRECOMPILE:"))]
    with tempfile.TemporaryDirectory(prefix="kiln-packages-") as folder:
        subprocess.run(["cmake", "--preset", *options, "-B", folder], check=True, stdout=subprocess.DEVNULL, cwd=arguments.source)
        quickstart = Build(folder)
    # The same files, compiled with the same headers.
    quickstart.folder = arguments.build
    built_too = quickstart.read_headers(quickstart.objects)
    print(f"headers of {built} and {built_too} objects")
    good = check(packages, "quickstart.sh", lists["quickstart.sh"], [quickstart])
    return 0 if check(packages, "tests/run.sh", lists["tests/run.sh"], builds) and good else 1


if __name__ == "__main__":
    sys.exit(main())
