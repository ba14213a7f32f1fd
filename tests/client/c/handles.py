#!/usr/bin/env python3
"""handles.py HEADER LIBRARY MODEL: every function of kiln.h, with each of its handles and results wrong in turn.

A handle is NULL, freed, of another kind, a number, an address; a result's place is NULL. Each is INVALID_ARGUMENT with a
sentence that names the parameter, or the value that kiln.h says of bad handles. The signatures are read from the headers,
so that a new function is tested when it is declared.
"""
import ctypes
import pathlib
import re
import struct
import sys
import threading

HEADER, LIBRARY, MODEL = sys.argv[1:]
INVALID_ARGUMENT = 1
TEXT = "".join(path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(HEADER).parent.glob("*.h")))
TEXT = re.sub(r"/\*.*?\*/", "", TEXT, flags=re.DOTALL)
KINDS = re.findall(r"typedef struct (kiln_\w+) \1;", TEXT)
kiln = ctypes.CDLL(LIBRARY)

# NULL is fine there: the default stream, a result that nobody wants, elements that are none.
OPTIONAL = {("kiln_memory_copy_from_host", "stream"), ("kiln_memory_copy_to_host", "stream"), ("kiln_memory_copy", "stream"),
            ("kiln_memory_fill", "stream"), ("kiln_profile_stop", "summary"), ("kiln_profile_stop", "trace"),
            ("kiln_device_give_back_caches", "bytes")}
# Begin or end what is of the whole process, or do nothing with a bad argument by design.
LEFT_OUT = {"kiln_profile_start", "kiln_profile_stop", "kiln_free"}

GRAPH = b"graph g(%x: f32[2]) {\n  %y = neg %x\n  output y = %y\n}\n"
KERNEL = b"kernel k(%x: ptr<f32>) {\n  grid [1, 1, 1]\n}\n"
ZEROS = ctypes.create_string_buffer(1 << 16)
WORK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda data: 0)


def functions():
    """(result, name, [(type, parameter)]) of each declaration."""
    for result, name, params in re.findall(r"KILN_API\s+([\w\s*]+?)\s*(\bkiln_\w+)\(([^)]*)\);", TEXT):
        split = [re.fullmatch(r"(.*?)\s*(\w+)", " ".join(param.split())).groups() for param in params.split(",") if param.strip() != "void"]
        yield result, name, [(kind.replace(" *", "*"), parameter) for kind, parameter in split]


def message():
    kiln.kiln_error_message.restype = ctypes.c_char_p
    return kiln.kiln_error_message().decode()


def made(name, *arguments):
    out = ctypes.c_void_p()
    status = getattr(kiln, name)(*arguments, ctypes.byref(out))
    assert status == 0, f"{name}: {message()}"
    return out.value


class Options(ctypes.Structure):
    """kiln_graph_options and kiln_kernel_options begin alike; the rest is 0."""
    _fields_ = [("size", ctypes.c_size_t), ("target", ctypes.c_char_p)]


def handles():
    """One of each kind, and how to make another."""
    interp = ctypes.byref(Options(ctypes.sizeof(Options), b"interp"))
    pathlib.Path("w.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    shape = (ctypes.c_int64 * 1)(4)
    makers = {}
    makers["kiln_client"] = lambda: made("kiln_client_create", None)
    makers["kiln_cancel"] = lambda: made("kiln_cancel_create")
    makers["kiln_graph"] = lambda: made("kiln_graph_parse", GRAPH, ctypes.c_size_t(len(GRAPH)), None)
    makers["kiln_kernel"] = lambda: made("kiln_kernel_parse", KERNEL, ctypes.c_size_t(len(KERNEL)), None)
    makers["kiln_tensor"] = lambda: made("kiln_tensor_allocate", 12, 1, shape)
    makers["kiln_safetensors"] = lambda: made("kiln_safetensors_open", b"w.safetensors")
    makers["kiln_model"] = lambda: made("kiln_model_open", MODEL.encode(), None)
    makers["kiln_device"] = lambda: made("kiln_device_open", 0, 0)
    kept = {kind: make() for kind, make in makers.items()}
    def of(kind):
        return ctypes.c_void_p(kept[kind])
    more = {
        "kiln_bytes": lambda: made("kiln_graph_text", of("kiln_graph")),
        "kiln_compiled_graph": lambda: made("kiln_graph_compile", of("kiln_client"), of("kiln_graph"), interp),
        "kiln_function": lambda: made("kiln_kernel_compile", of("kiln_client"), of("kiln_kernel"), interp),
        "kiln_stream": lambda: made("kiln_stream_create", of("kiln_device"), None, ctypes.c_size_t(0)),
        "kiln_event": lambda: made("kiln_event_create", of("kiln_device")),
        "kiln_memory": lambda: made("kiln_memory_allocate", of("kiln_device"), ctypes.c_uint64(64)),
        "kiln_recording": lambda: made("kiln_recording_capture", of("kiln_stream"), WORK, None),
    }
    for kind, make in more.items():
        kept[kind] = make()
    return kept, {**makers, **more}


KEPT, MAKERS = handles()
assert sorted(KEPT) == sorted(KINDS), f"a kind has no maker: {set(KINDS) - set(KEPT)}"


def freed(kind):
    handle = MAKERS[kind]()
    assert kiln.kiln_free(ctypes.c_void_p(handle)) == 0
    return handle


def handle_kind(kind):
    match = re.fullmatch(r"(kiln_\w+)\*", kind)
    return match.group(1) if match and match.group(1) in KINDS else None


def argument(kind):
    """Something that fits: only what is wrong on purpose shall be."""
    if handle_kind(kind):
        return ctypes.c_void_p(KEPT[handle_kind(kind)])
    if kind == "kiln_work_fn":
        return WORK
    if kind.endswith("_options*"):
        return None
    if kind == "const char*":
        return b"x"
    if kind == "const char* const*":
        return (ctypes.c_char_p * 1)(b"x")
    if kind.endswith("*"):
        return ctypes.byref(ZEROS)
    return {"double": ctypes.c_double(0.5), "size_t": ctypes.c_size_t(1), "uint64_t": ctypes.c_uint64(4)}.get(kind, 0)


PROBLEMS = []
CALLS = 0


def call(result, name, params, wrong, value, words):
    """With one argument that is wrong."""
    global CALLS
    CALLS += 1
    arguments = [ctypes.c_void_p(value) if i == wrong else argument(kind) for i, (kind, _) in enumerate(params)]
    function = getattr(kiln, name)
    function.restype = {"kiln_status": ctypes.c_int32, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
                        "int64_t": ctypes.c_int64}.get(result, ctypes.c_size_t)
    got = function(*arguments)
    what = f"{name}({params[wrong][1]} = {words})"
    if result != "kiln_status":
        if got not in (0, -1):
            PROBLEMS.append(f"{what} gives {got}")
    elif got != INVALID_ARGUMENT:
        PROBLEMS.append(f"{what} is status {got}")
    elif f"`{params[wrong][1]}`" not in message():
        PROBLEMS.append(f"{what} says: {message()}")


def try_handle(result, name, params, at):
    kind = handle_kind(params[at][0])
    other = next(each for each in KINDS if each != kind)
    wrong = {"freed": freed(kind), "of another kind": KEPT[other], "a number": 4660, "an address": ctypes.addressof(ZEROS),
             "all ones": 2**64 - 1}
    if (name, params[at][1]) not in OPTIONAL:
        wrong["NULL"] = None
    for words, value in wrong.items():
        call(result, name, params, at, value, words)


def try_all():
    for result, name, params in functions():
        if name in LEFT_OUT:
            continue
        for at, (kind, parameter) in enumerate(params):
            if handle_kind(kind):
                try_handle(result, name, params, at)
            elif kind.endswith("*") and "const" not in kind and kind != "void*" and (name, parameter) not in OPTIONAL:
                call(result, name, params, at, None, "NULL")


def try_threads():
    """An error, and parts of a profile, are of the thread that made them."""
    assert kiln.kiln_graph_text(None, ctypes.byref(ZEROS)) == INVALID_ARGUMENT and message()
    assert kiln.kiln_profile_begin(b"part") == 0
    seen = []
    def other():
        seen.extend([message(), kiln.kiln_profile_end(), message()])
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    if seen[0] != "" or seen[1] != INVALID_ARGUMENT or "this thread has begun no part" not in seen[2]:
        PROBLEMS.append(f"another thread sees {seen}")
    assert kiln.kiln_profile_end() == 0


def main():
    try_all()
    try_threads()
    for handle in KEPT.values():
        if kiln.kiln_free(ctypes.c_void_p(handle)) != 0:
            PROBLEMS.append(f"a handle does not go: {message()}")
    print("\n".join(PROBLEMS))
    print(f"{CALLS} wrong calls of {len(list(functions()))} functions")
    return 1 if PROBLEMS or CALLS < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
