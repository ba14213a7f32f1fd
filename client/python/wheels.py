#!/usr/bin/env python3
"""wheels.py BUILD_DIR VERSION OUT_DIR: the wheels `kiln`, with libkiln, the programs and all that these need, and `kiln_torch`.

What a machine need not have travels in kiln/lib: every library but those that manylinux (PEP 600) names, under a name of its own, so
that no other copy in the process takes its place. The tag is the oldest glibc that all files ask for. Needs binutils and patchelf, and
nothing from a registry; what is the same makes the same bytes.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
SONAME = "libkiln.so.0"
PROGRAMS = ["kiln", "kilnd", "kiln-runner", "kiln-tune", "kiln-worker"]
# Of PEP 600's policies, what Kiln uses.
EVERYWHERE = re.compile(r"(ld-linux-.*|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+))\.so\.\d+")
# The first glibc whose distributions all have such a libstdc++.
LIBSTDCXX = {(3, 4, 25): (2, 28), (3, 4, 28): (2, 31), (3, 4, 29): (2, 34), (3, 4, 30): (2, 35), (3, 4, 32): (2, 39), (3, 4, 33): (2, 40)}


def output(*command: str | pathlib.Path) -> str:
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(file: pathlib.Path) -> dict[str, pathlib.Path]:
    """Libraries that the file names itself, by soname."""
    places = dict(re.findall(r"(\S+) => (/\S+)", output("ldd", file)))
    names = output("patchelf", "--print-needed", file).split()
    lost = [name for name in names if name not in places and not EVERYWHERE.fullmatch(name)]
    if lost:
        raise SystemExit(f"{file}: {', '.join(lost)} is not on this machine")
    return {name: pathlib.Path(places[name]).resolve() for name in names if not EVERYWHERE.fullmatch(name)}


def travelling(files: list[pathlib.Path]) -> dict[str, pathlib.Path]:
    found: dict[str, pathlib.Path] = {}
    todo = list(files)
    while todo:
        for name, place in needed(todo.pop()).items():
            if name not in found:
                found[name] = place
                todo.append(place)
    return found


def own_name(soname: str, place: pathlib.Path) -> str:
    stem, _, version = soname.partition(".so")
    return f"{stem}-{hashlib.sha256(place.read_bytes()).hexdigest()[:8]}.so{version}"


def place_binaries(build: pathlib.Path, package: pathlib.Path) -> dict[str, pathlib.Path]:
    """Into the package, stripped and bound to each other; what travels."""
    ours = {f"bin/{name}": build / "bin" / name for name in PROGRAMS} | {SONAME: (build / "lib" / SONAME).resolve()}
    others = travelling(list(ours.values()))
    names = {soname: own_name(soname, place) for soname, place in others.items()}
    places = ours | {f"lib/{names[soname]}": place for soname, place in others.items()}
    for inside, place in places.items():
        target = package / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place, target)
        target.chmod(0o755)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
        folder = {"bin": "$ORIGIN/../lib", "lib": "$ORIGIN"}.get(pathlib.PurePath(inside).parent.name, "$ORIGIN/lib")
        # One at a time: together, patchelf 0.14 renames in one table and not in the other.
        changes = [["--replace-needed", soname, names[soname]] for soname in needed(place)] + [["--set-rpath", folder]]
        changes += [["--set-soname", target.name]] if inside.startswith("lib/") else []
        for change in changes:
            subprocess.run(["patchelf", *change, target], check=True)
    return others


def tag_of(package: pathlib.Path) -> str:
    files = [file for file in package.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    machine = {62: "x86_64", 183: "aarch64"}[int.from_bytes(files[0].read_bytes()[18:20], "little")]
    symbols = "".join(output("objdump", "-T", file) for file in files)

    def newest(name: str) -> tuple[int, ...]:
        return max((tuple(map(int, found.split("."))) for found in re.findall(rf"\b{name}_([0-9.]+)\b", symbols)), default=(0,))

    library = [glibc for version, glibc in LIBSTDCXX.items() if version >= newest("GLIBCXX")]
    if not library:
        return f"linux_{machine}"
    major, minor = max(newest("GLIBC")[:2], library[0])
    return f"manylinux_{major}_{minor}_{machine}"


def owner(place: pathlib.Path) -> str:
    """The Debian package of a file; /lib is /usr/lib, and dpkg knows one of the two names."""
    for name in (str(place), str(place).removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"{place} is of no Debian package, so that its licence is not known")


def place_licences(others: dict[str, pathlib.Path], folder: pathlib.Path) -> None:
    """Ours, and those of what travels, as Debian's packages have them."""
    folder.mkdir(parents=True)
    shutil.copyfile(SOURCE / "LICENSE", folder / "LICENSE")
    for place in others.values():
        package = owner(place)
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", folder / f"{package}.txt")


class Wheel:
    def __init__(self, project: pathlib.Path, version: str, root: pathlib.Path):
        self.project = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        if self.project["version"] != version:
            raise SystemExit(f"{project}/pyproject.toml is of version {self.project['version']}; Kiln is of {version}")
        self.name = self.project["name"].replace("-", "_")
        self.root = root / self.name
        self.info = self.root / f"{self.name}-{version}.dist-info"
        self.version = version
        package = project / self.name
        shutil.copytree(package, self.root / self.name, ignore=lambda _, names: [n for n in names if n not in ("py.typed",) and not n.endswith(".py")])

    def describe(self, tag: str, entry_points: str) -> None:
        self.info.mkdir(exist_ok=True)
        lines = ["Metadata-Version: 2.1", f"Name: {self.project['name']}", f"Version: {self.version}", f"Summary: {self.project['description']}",
                 "License: MIT", f"Requires-Python: {self.project['requires-python']}"]
        lines += [f"Requires-Dist: {each}" for each in self.project.get("dependencies", [])]
        (self.info / "METADATA").write_text("\n".join(lines) + "\n")
        pure = "true" if tag.endswith("-any") else "false"
        (self.info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: kiln\nRoot-Is-Purelib: {pure}\nTag: {tag}\n")
        (self.info / "entry_points.txt").write_text(entry_points)

    def pack(self, tag: str, out: pathlib.Path) -> pathlib.Path:
        file = out / f"{self.name}-{self.version}-{tag}.whl"
        records = []
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for place in sorted(place for place in self.root.rglob("*") if place.is_file()):
                data, name = place.read_bytes(), place.relative_to(self.root).as_posix()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                records.append(f"{name},sha256={digest},{len(data)}\n")
                self.add(archive, name, data, 0o755 if place.stat().st_mode & stat.S_IXUSR else 0o644)
            record = f"{self.info.name}/RECORD"
            self.add(archive, record, "".join([*records, f"{record},,\n"]).encode(), 0o644)
        return file

    @staticmethod
    def add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (stat.S_IFREG | mode) << 16
        archive.writestr(entry, data, zipfile.ZIP_DEFLATED)


def make_kiln(build: pathlib.Path, version: str, root: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    wheel = Wheel(HERE, version, root)
    package = wheel.root / "kiln"
    others = place_binaries(build, package)
    shutil.copytree(SOURCE / "autotune/tuned", package / "share/kiln/tuned")
    place_licences(others, wheel.info / "licenses")
    tag = f"py3-none-{tag_of(package)}"
    wheel.describe(tag, "[console_scripts]\nkiln = kiln._program:main\n")
    return wheel.pack(tag, out)


def make_kiln_torch(version: str, root: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    wheel = Wheel(HERE / "kiln_torch", version, root)
    points = wheel.project["entry-points"]
    text = "".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items()) for group, names in points.items())
    wheel.describe("py3-none-any", text)
    return wheel.pack("py3-none-any", out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("version")
    parser.add_argument("out", type=pathlib.Path)
    given = parser.parse_args()
    for tool in ("patchelf", "strip", "objdump", "ldd"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not installed")
    given.out.mkdir(parents=True, exist_ok=True)
    for old in given.out.glob("kiln*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as root:
        for file in (make_kiln(given.build.resolve(), given.version, pathlib.Path(root), given.out),
                     make_kiln_torch(given.version, pathlib.Path(root), given.out)):
            print(f"{file}, {file.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
