#!/usr/bin/env python3
"""refused.py CASES COMPILER FLAG...: what the compiler takes, and what it refuses in which words.

A file of cases begins with what they share, then has pairs:

    // refused: what the error must say
    #if RIGHT
    code that compiles
    #else
    code that must not
    #endif

The right halves are compiled together, each in a namespace of its own, and each wrong half alone.
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def compile(compiler, flags, *words):
    done = subprocess.run([compiler, "-std=c++20", *flags, *words], capture_output=True, text=True,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    return done.returncode, " ".join(done.stderr.split())


def main():
    cases, compiler, *flags = sys.argv[1:]
    shared, *pairs = re.split(r"^// refused: ", pathlib.Path(cases).read_text(), flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as directory:
        # Precompiled once; both GCC and Clang take a header's where it is included first.
        header = pathlib.Path(directory, "shared.h")
        header.write_text(shared)
        code, errors = compile(compiler, flags, "-x", "c++-header", str(header), "-o", f"{header}.gch")
        if code:
            sys.exit(f"{cases}: what the cases share does not compile:\n{errors}")

        def syntax(text, right):
            source = pathlib.Path(directory, "case.cpp")
            source.write_text(text)
            return compile(compiler, flags, "-include", str(header), f"-DRIGHT={right}", "-fsyntax-only", str(source))

        failures = []
        code, errors = syntax("".join(f"namespace case_{i} {{\n{pair.partition(chr(10))[2]}}}\n"
                                      for i, pair in enumerate(pairs)), 1)
        if code:
            failures.append(f"a right half does not compile:\n{errors}")
        for pair in pairs:
            sentence, _, body = pair.partition("\n")
            code, errors = syntax(body, 0)
            if not code:
                failures.append(f"compiles, and should not: {sentence}\n{body}")
            elif sentence not in errors:
                failures.append(f"does not say: {sentence}\n{body}{errors}")
        if failures or not pairs:
            sys.exit("\n\n".join(failures) or "no cases")
        print(f"{len(pairs)} pairs")


main()
