"""Launches Kiln's artifacts from Python by the CUDA driver alone, beside PyTorch: docs/reference/artifact.md, "GPU artifacts"."""
import ctypes as C
import json

import torch

TYPES = {"u8": 0, "i8": 0, "f8e4m3": 0, "f8e5m2": 0, "u16": 1, "i16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f16": 6,
         "f32": 7, "f64": 8, "bf16": 9}  # CUtensorMapDataType; f8 as bytes
SWIZZLES = {"none": 0, "32": 1, "64": 2, "128": 3}
SCALARS = {"i1": C.c_uint8, "i8": C.c_int8, "u8": C.c_uint8, "i16": C.c_int16, "u16": C.c_uint16, "i32": C.c_int32,
           "u32": C.c_uint32, "i64": C.c_int64, "u64": C.c_uint64, "f32": C.c_float, "f64": C.c_double}
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
CLUSTER_DIMENSION = 4   # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class Attribute(C.Structure):
    _fields_ = [("id", C.c_int), ("pad", C.c_int), ("value", C.c_uint32 * 16)]


class Config(C.Structure):
    _fields_ = [("grid", C.c_uint * 3), ("block", C.c_uint * 3), ("shared", C.c_uint), ("stream", C.c_void_p),
                ("attributes", C.POINTER(Attribute)), ("count", C.c_uint)]


class Driver:
    def __init__(self):
        self.library = C.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            status = function(*arguments)
            if status != 0:
                text = C.c_char_p()
                self.library.cuGetErrorString(status, C.byref(text))
                raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

        return call


def up(value, to):
    return (value + to - 1) // to * to


def evaluate(expression, scalars):
    """A sum of products of atoms, over the launch's scalar arguments by number."""
    operators = {"div": lambda a, b: a // b, "rem": lambda a, b: a % b, "min": min, "max": max,
                 "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b), "lt": lambda a, b: int(a < b),
                 "le": lambda a, b: int(a <= b)}
    total = 0
    for coefficient, atoms in expression:
        for atom in atoms:
            coefficient *= scalars[atom[1]] if atom[0] == "p" else operators[atom[0]](
                evaluate(atom[1], scalars), evaluate(atom[2], scalars))
        total += coefficient
    return total


class Artifact:
    """Code and metadata as gpu-compile writes them, loaded into PyTorch's context."""

    def __init__(self, path):
        torch.cuda.current_stream()
        self.driver = Driver()
        self.metadata = json.load(open(path + ".json"))
        self.device = self.metadata["device"]
        self.module = C.c_void_p()
        self.driver.cuModuleLoadData(C.byref(self.module), open(path, "rb").read())
        self.stages = []
        for stage in self.metadata.get("plan", [{"entry": self.metadata["entry"], "chunks": 1}]):
            threads = stage.get("threads", self.device["threads"])
            shared = stage.get("shared_bytes", self.device["shared_bytes"])
            function = C.c_void_p()
            self.driver.cuModuleGetFunction(C.byref(function), self.module, stage["entry"].encode())
            if shared > 48 << 10:
                self.driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared)
            self.stages.append((function, stage["chunks"], threads, shared))

    def unload(self):
        self.driver.cuModuleUnload(self.module)

    def tensor_map(self, plan, arguments, scalars):
        element = {"f8": 1, "i8": 1, "u8": 1}.get(plan["type"][:2]) or int("".join(filter(str.isdigit, plan["type"]))) // 8
        address = arguments[plan["param"]].data_ptr() + evaluate(plan.get("offset", []), scalars) * element
        rank = plan["rank"]
        dims = (C.c_uint64 * rank)(*(evaluate(e, scalars) for e in plan["dims"]))
        strides = (C.c_uint64 * max(1, rank - 1))(*(evaluate(e, scalars) for e in plan["strides_bytes"]))
        box, ones = (C.c_uint32 * rank)(*plan["box"]), (C.c_uint32 * rank)(*([1] * rank))
        raw = C.create_string_buffer(128 + 64)
        start = up(C.addressof(raw), 64)
        self.driver.cuTensorMapEncodeTiled(C.c_void_p(start), TYPES[plan["type"]], rank, C.c_void_p(address), dims, strides,
                                           box, ones, 0, SWIZZLES[plan.get("swizzle", "none")], 2, 0)
        return C.string_at(start, 128)

    def bind(self, arguments, early=True):
        """A function that queues the launch on PyTorch's current stream; it keeps the tensors. `early`: kernels that wait
        for earlier ones by themselves may begin before these are done."""
        params = self.metadata["params"]
        scalars = {i: int(a) for i, a in enumerate(arguments) if not torch.is_tensor(a)}
        grid = [evaluate(e, scalars) for e in self.metadata["grid_expr"]]
        programs_x, programs_of_block = grid[0], self.device.get("programs", 1)
        block = bytearray(4096 + 64)
        size = self.metadata["params_bytes"]
        for param, argument in zip(params, arguments, strict=True):
            value = C.c_uint64(argument.data_ptr()) if torch.is_tensor(argument) else SCALARS[param["type"]](argument)
            block[param["offset"]:param["offset"] + C.sizeof(value)] = bytes(value)
        keep = [arguments]

        def pointer(at, tensor):
            keep.append(tensor)
            block[at:at + 8] = bytes(C.c_uint64(tensor.data_ptr()))
            return at + 8

        if "workspace_bytes" in self.metadata:
            programs = grid[0] * grid[1] * grid[2]
            size = pointer(up(size, 8), torch.empty(self.metadata["workspace_bytes"] * programs, dtype=torch.uint8,
                                                    device="cuda"))
        # One by one: where a kernel with tensor maps has its parameters is the assembler's choice.
        offsets = [param["offset"] for param in params]
        if "workspace_bytes" in self.metadata:
            offsets.append(size - 8)
        for plan in self.device.get("tensor_maps", []):
            at = up(size, 64)
            block[at:at + 128] = self.tensor_map(plan, arguments, scalars)
            offsets.append(at)
            size = at + 128
        if "failure_param" in self.metadata:
            offsets.append(up(size, 8))
            size = pointer(up(size, 8), torch.zeros(64, dtype=torch.uint8, device="cuda"))
        if "programs_param" in self.metadata:
            at = up(size, 8)
            offsets.append(at)
            block[at:at + 8] = bytes(C.c_uint64(programs_x))
            size = at + 8
        if "grid_param" in self.metadata:
            at = up(size, 8)
            offsets += [at, at + 4, at + 8]
            block[at:at + 12] = bytes((C.c_uint32 * 3)(*grid))
            size = at + 12
            at_once = self.device["persistent"] * torch.cuda.get_device_properties("cuda").multi_processor_count
            cluster = self.device.get("cluster", [1])[0]
            blocks = min(up(grid[0] * grid[1] * grid[2], cluster), max(at_once // cluster, 1) * cluster)
            programs_x, grid = blocks, [0, 1, 1]
        if "queue_param" in self.metadata:
            offsets.append(up(size, 8))
            size = pointer(up(size, 8), torch.zeros(4, dtype=torch.int32, device="cuda"))
        buffer = C.create_string_buffer(bytes(block[:size]), size)
        each = (C.c_void_p * len(offsets))(*(C.addressof(buffer) + at for at in offsets))
        attributes, cluster = [], self.device.get("cluster", [1, 1, 1])
        if cluster != [1, 1, 1]:
            attributes.append(Attribute(CLUSTER_DIMENSION, 0, (C.c_uint32 * 16)(*cluster)))
        if early and self.device.get("waits"):
            attributes.append(Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (C.c_uint32 * 16)(1)))
        attributes = (Attribute * len(attributes))(*attributes)
        launches = []
        for function, chunks, threads, shared in self.stages:
            config = Config((C.c_uint * 3)(up(programs_x, programs_of_block) // programs_of_block * chunks, grid[1], grid[2]), (C.c_uint * 3)(threads, 1, 1), shared, None,
                            attributes, len(attributes))
            launches.append((config, C.byref(config), function))
        keep += [buffer, each, attributes]
        start = self.driver.library.cuLaunchKernelEx

        def launch(keep=keep):
            stream = torch.cuda.current_stream().cuda_stream
            for config, reference, function in launches:
                config.stream = stream
                status = start(reference, function, each, None)
                if status != 0:
                    raise RuntimeError(f"cuLaunchKernelEx: {status}")

        return launch
