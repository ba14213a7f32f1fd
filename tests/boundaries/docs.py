#!/usr/bin/env python3
"""docs.py SOURCE_DIR: links of the documentation lead somewhere, and sentences that people read in one go are short.

Checked are: links and anchors of README.md, docs/ and tests/README.md; pages that code, scripts and tests name by path
(docs/use/cli.md) or pages name by file (cli.md); that each page is in the index docs/README.md; and that no sentence of
README.md, docs/use and docs/inside has more than LONGEST words. What docs/glossary.md says is to be renamed is there: who
renames takes its line away. Files and members that pages of docs/inside name exist, and what the glossary's terms are called in
code; so do the tests of GoogleTest that any page names. docs/use/cli.md names the processors of targets.def, all of them.
"""
import fnmatch
import pathlib
import re
import sys

LONGEST = 30
CODE = ("*.h", "*.cpp", "*.def", "*.py", "*.sh", "*.cmake", "CMakeLists.txt", "*.txt", "*.in", "*.md")
ROOMS = ("autotune", "client", "cmake", "codegen", "docs", "dsl", "server", "tests")


def without_code(text):
    """The page without code blocks, line by line: lines of blocks are empty."""
    lines, fenced, was_blank, in_block = [], False, True, False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            lines.append("")
            continue
        in_block = line.startswith("    ") and (was_blank or in_block)
        was_blank = not line.strip()
        lines.append("" if fenced or in_block else line)
    return lines


def anchors(text):
    """What GitHub makes of headings."""
    found = set()
    for line in without_code(text):
        if match := re.match(r"#+ (.*)", line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def broken_links(root, page):
    text = page.read_text(encoding="utf-8")
    for number, line in enumerate(without_code(text), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"https?:", target):
                continue
            path, _, anchor = target.partition("#")
            where = (page.parent / path).resolve() if path else page
            if not where.exists():
                yield f"{page.relative_to(root)}:{number}: there is no {target}"
            elif anchor and anchor not in anchors(where.read_text(encoding="utf-8")):
                yield f"{page.relative_to(root)}:{number}: {path or page.name} has no heading #{anchor}"


def broken_mentions(root, path, pages):
    """`docs/…/x.md` anywhere, and a bare `x.md` in a page of docs."""
    in_docs = path.relative_to(root).parts[0] == "docs"
    text = path.read_text(encoding="utf-8", errors="replace")
    if not in_docs and "docs/" not in text:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md\b", line):
            if not (root / name).exists():
                yield f"{path.relative_to(root)}:{number}: there is no {name}"
        if in_docs and path.suffix == ".md":
            for name in re.findall(r"(?<![\w/.-])(?<!\]\()([a-z][\w-]*\.md)\b", line):
                if name not in pages:
                    yield f"{path.relative_to(root)}:{number}: no page is called {name}"


def paragraphs(text):
    """(line, words) of each paragraph, item of a list and cell of a table."""
    start, words = 0, []
    for number, line in enumerate([*without_code(text), ""], 1):
        plain = re.sub(r"<!--.*?-->", "", line).strip()
        is_table = plain.startswith("|")
        opens = is_table or not plain or plain.startswith("#") or re.match(r"(?:[-*]|\d+\.) ", plain)
        if opens and words:
            yield start, " ".join(words)
            words = []
        if is_table:
            for cell in plain.strip("|").split("|"):
                yield number, cell.strip()
        elif plain and not plain.startswith("#"):
            start = start if words else number
            words.append(re.sub(r"^(?:[-*]|\d+\.) ", "", plain))


def sentences(paragraph):
    plain = re.sub(r"`[^`]*`", "code", paragraph)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    return re.split(r"(?<=[.!?])[)*_\"]*\s+(?=[(*_\"]*[A-Z0-9c])|(?<=:)\s+(?=[A-Z])", plain)


def long_sentences(root, page):
    for number, paragraph in paragraphs(page.read_text(encoding="utf-8")):
        for sentence in sentences(paragraph):
            count = sum(any(char.isalnum() for char in word) for word in sentence.split())
            if count > LONGEST:
                yield f"{page.relative_to(root)}:{number}: {count} words: {sentence[:70]}…"


def code_names(root):
    """Words of the rooms' sources, and names of files: of sources, scripts and data."""
    words, files = set(), set()
    for room in ROOMS:
        for path in (root / room).rglob("*"):
            if path.is_file():
                files.add(path.name)
            if path.suffix in (".h", ".cpp", ".def"):
                words.update(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf-8")))
    return words, files


def is_there(name, words, files):
    """False of a file's name, x::y or x* that nothing is called; anything else is no name of code."""
    last = re.split(r"::", name)[-1]
    if re.fullmatch(r"[\w/.*-]*\w\*?\.(?:h|cpp|def|\*)", name):
        return bool(fnmatch.filter(files, pathlib.PurePath(name).name))
    if last.endswith("*") and re.fullmatch(r"\w+", last[:-1]):
        return any(word.startswith(last[:-1]) for word in words)
    return not re.fullmatch(r"\w+", last) or last in words


def gone_names(root):
    """What pages about the inside call by a name that nothing has any more; of the glossary the list of renames."""
    words, files = code_names(root)
    for page in sorted((root / "docs/inside").rglob("*.md")):
        for number, line in enumerate(without_code(page.read_text(encoding="utf-8")), 1):
            for name in re.findall(r"`([^`\s]*(?:\.h|\.cpp|\.def|\.\*|::\w+))`", line):
                if "NAME" not in name and not is_there(name, words, files):
                    yield f"{page.relative_to(root)}:{number}: nothing is called {name}"
    terms, _, renames = (root / "docs/glossary.md").read_text(encoding="utf-8").partition("## To be renamed")
    for number, line in enumerate(terms.splitlines(), 1):
        cells = line.split("|")
        for name in re.findall(r"`([^`]*)`", cells[3] if len(cells) == 5 else ""):
            if not is_there(name.removesuffix("()"), words, files):
                yield f"docs/glossary.md:{number}: nothing is called {name}"
    rows = [line for line in renames.splitlines() if line.startswith("| ")][1:]
    for row in rows:
        for name in re.findall(r"`([^`]*)`", row.strip("|").split("|")[2]):
            if not is_there(name, words, files):
                yield f"docs/glossary.md: nothing is called {name} any more: {row.split('|')[1].strip()}"


def gone_tests(root, pages):
    """`Suite.Test`, `Suite.Te*` and `Prefix/Suite.Test/value` of a page that nothing tests any more."""
    tests = {}  # by suite
    for path in (root / "tests").rglob("*.cpp"):
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            tests.setdefault(suite, []).append(name)
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for suite, name in re.findall(r"`(?:\w+/)?([A-Z]\w*[a-z]\w*)\.((?:[A-Z]\w*[a-z]|\*)[\w*…]*)(?:/[^`]*)?`", line):
                if not fnmatch.filter(tests.get(suite, []), name.replace("…", "*")):
                    yield f"{page.relative_to(root)}:{number}: no test is called {suite}.{name}"


def other_processors(root):
    """GPUs that the compiler knows and the table of targets does not, and the other way round."""
    rows = (root / "dsl/include/kiln/target/targets.def").read_text(encoding="utf-8")
    known = set(re.findall(r'^KILN_(?:NVIDIA|AMD)_GPU\("(\w+)"', rows, re.MULTILINE))
    table = re.findall(r"^\| (`(?:cuda:sm_|amd:gfx)[^|]*)\|", (root / "docs/use/cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name.split(":")[-1] for row in table for name in re.findall(r"`([^`]*)`", row)}
    for name in sorted(known - named):
        yield f"docs/use/cli.md does not name the target {name}"
    for name in sorted(named - known):
        yield f"docs/use/cli.md: no target is called {name}"


def main(root):
    pages = sorted((root / "docs").rglob("*.md"))
    failures = []
    for page in [*pages, root / "README.md", root / "tests/README.md"]:
        failures += broken_links(root, page)
    names = {page.name for page in pages} | {"README.md"}
    for room in ROOMS:
        for pattern in CODE:
            for path in sorted((root / room).rglob(pattern)):
                if path.name != "docs_test.py":  # whose pages are made up
                    failures += broken_mentions(root, path, names)
    failures += broken_mentions(root, root / "README.md", names)
    index = (root / "docs/README.md").read_text(encoding="utf-8")
    failures += [f"docs/README.md does not list {page.relative_to(root)}" for page in pages
                 if f"]({page.relative_to(root / 'docs')})" not in index and page != root / "docs/README.md"]
    for page in [root / "README.md", *pages]:
        if page.relative_to(root).as_posix().startswith(("README.md", "docs/use/", "docs/inside/")):
            failures += long_sentences(root, page)
    failures += gone_names(root)
    failures += other_processors(root)
    failures += gone_tests(root, [*pages, root / "README.md", root / "tests/README.md"])
    if len(pages) < 10:
        failures.append("too few pages")
    print(*failures, sep="\n", end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
