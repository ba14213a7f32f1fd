"""Where the programs of the suite are, in a packed folder or in a build tree, and the environment that they need.

    python3 tools.py PROGRAM [ARGUMENTS]    runs one of them
"""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# A packed folder brings bin and lib; run.sh names the build tree otherwise.
PACKED = os.path.isdir(os.path.join(HERE, "bin"))
BUILD = os.environ.get("KILN_GPU_BUILD", os.path.join(HERE, "../../build/release"))
PLACES = [os.path.join(HERE, "bin")] if PACKED else [
    os.path.join(BUILD, folder) for folder in ("bin", "tests/codegen", "tests/kernels", "tests/client/gpu", "tests/client/graph")]
EXAMPLES = os.path.join(HERE, "examples" if PACKED else "../../dsl/examples")


def find(name):
    """Its path, or "" where it is not."""
    for place in PLACES:
        if os.access(os.path.join(place, name), os.X_OK):
            return os.path.abspath(os.path.join(place, name))
    return ""


def tool(name):
    return find(name) or sys.exit(f"{name} is not in {', '.join(PLACES)}: build it, or run this in the folder that pack.sh packed")


def library_path():
    """For our programs alone: others, Python among them, want the libraries of their own machine."""
    own = [os.path.join(HERE, "lib")] if PACKED else []
    return ":".join(own + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path])


def assembler():
    """NVIDIA's assembler, where the compiler does not find it by itself: CUDA's, or the one that PyTorch's packages
    bring."""
    if os.environ.get("KILN_NVJITLINK"):
        return os.environ["KILN_NVJITLINK"]
    folders = ["/usr/local/cuda/lib64"] + [os.path.join(path, "nvidia/*/lib") for path in sys.path]
    for version in (13, 12):
        for folder in folders:
            for found in glob.glob(os.path.join(folder, f"libnvJitLink.so.{version}")):
                return found
    return ""


def environment(**more):
    out = dict(os.environ, LD_LIBRARY_PATH=library_path(), **more)
    if assembler():
        out["KILN_NVJITLINK"] = assembler()
    return out


if __name__ == "__main__":
    program = tool(sys.argv[1])
    sys.stdout.flush()
    os.execve(program, [program, *sys.argv[2:]], environment())
