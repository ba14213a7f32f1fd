#!/usr/bin/env python3
"""The Python package over libkiln.so: graphs and kernels on arrays of NumPy, of DLPack and of others. PyTorch, where it is."""

import contextlib
import ctypes
import gc
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import kiln

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None

LAYER = """dim n: 1..4096
graph layer(%x: f32[n, 3], %w: f32[2, 3], %b: f32[2]) {
  %0 = linear %x, %w, %b : f32[n, 2]
  %1 = relu %0 : f32[n, 2]
  output y = %1
}
"""
STEP = """dim n: 1..64
graph step(%state: f32[n] donated to next, %x: f32[n]) {
  %0 = add %state, %x : f32[n]
  %1 = mul %0, %x : f32[n]
  output next = %0
  output y = %1
}
"""


class Interface:
    """An array of whoever, by its interface alone."""

    def __init__(self, values, **changes):
        self.memory = (ctypes.c_float * len(values))(*values)
        self.__array_interface__ = {"version": 3, "shape": (len(values),), "typestr": "<f4", "strides": None,
                                    "data": (ctypes.addressof(self.memory), False), **changes}


def fails(test, words, call, *arguments, code="INVALID_ARGUMENT", **named):
    with test.assertRaises(kiln.Error) as caught:
        call(*arguments, **named)
    test.assertIn(words, str(caught.exception))
    test.assertEqual(caught.exception.code, code)


class WithoutNumpy(unittest.TestCase):
    def test_errors_have_codes(self):
        self.assertEqual(kiln.version(), "0.1.0")
        fails(self, "nowhere.kg: cannot be opened", kiln.Graph, "nowhere.kg")
        fails(self, "kernel:1:", kiln.load, "kernel k {\n")
        fails(self, "no kernel `fly`", kiln.library_kernel, "fly", code="NOT_FOUND")
        fails(self, "unknown mode `best`", kiln.Graph(LAYER).compile, mode="best")
        fails(self, "toaster", kiln.Graph(LAYER).compile, "toaster")
        fails(self, "unknown device `tpu`", kiln.Stream, "tpu")
        fails(self, "is no array", kiln.from_dlpack, 3)

    def test_graph_is_what_was_written(self):
        graph = kiln.Graph(LAYER)
        self.assertEqual(kiln.Graph(graph.encode()).encode(), graph.encode())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "layer.kg")
            path.write_text(graph.text())
            self.assertEqual(kiln.Graph(path).text(), graph.text())
            self.assertEqual(kiln.Graph(str(path)).text(), graph.text())

    def test_kernel_adds_arrays_of_whoever(self):
        add = kiln.library_kernel("vector_add")
        self.assertEqual(kiln.load(add.text()).name, "vector_add")
        x, y, out = Interface([1, 2, 3]), Interface([10, 20, 30]), Interface([0, 0, 0])
        add.launch(x, y, out, 3)
        self.assertEqual(list(out.memory), [11, 22, 33])
        fn = add.compile("interp", config={"BLOCK": 256})
        self.assertEqual(fn.config()["BLOCK"], 256)
        fn.prepare(x, y, out, 3)
        fn.launch(x, y, x, 2, grid=[1], threads=1)
        self.assertEqual(list(x.memory), [11, 22, 3])
        fails(self, "takes 4 arguments, not 3", fn.launch, x, y, out)
        fails(self, "its type does not have 5000000000", fn.launch, x, y, out, 5_000_000_000)
        fails(self, "`n` is no int", fn.launch, x, y, out, 1.5)
        fails(self, "the array is read only", fn.launch, x, y, Interface([0], data=(16, True)), 1)
        fails(self, "is not row-major", fn.launch, x, y, Interface([0, 1, 2, 3], shape=(2,), strides=(8,)), 1)
        fails(self, "the array is of f64", fn.launch, x, y, Interface([0, 0], shape=(1,), typestr="<f8"), 1)
        fails(self, "no elements like '>f4'", fn.launch, x, y, Interface([0], typestr=">f4"), 1)
        fails(self, "no multiple of an element's size", fn.launch, x, y, Interface([0], strides=(3,)), 1)

    def test_code_of_ones_own_is_a_function(self):
        declared = kiln.load("kernel shift(%x: ptr<f32> readonly, %out: ptr<f32>, %a: f32, %n: i32) {\n  grid [n, 1, 1]\n}\n")
        code = """define void @mine(ptr %x, ptr %out, float %a, i32 %n, i32 %i, i32 %py, i32 %pz) {
          %at = sext i32 %i to i64
          %from = getelementptr float, ptr %x, i64 %at
          %v = load float, ptr %from
          %sum = fadd float %v, %a
          %to = getelementptr float, ptr %out, i64 %at
          store float %sum, ptr %to
          ret void
        }"""
        x, out = Interface([1, 2, 3]), Interface([0, 0, 0])
        declared.custom(code, "llvm", entry="mine").launch(x, out, 0.5, 3)
        self.assertEqual(list(out.memory), [1.5, 2.5, 3.5])
        with self.assertRaises(kiln.Error) as caught:
            declared.custom(code + "}", "llvm", entry="mine", file="mine.ll")
        self.assertIn("mine.ll:", str(caught.exception))
        self.assertEqual(caught.exception.code, "COMPILE_FAILED")
        fails(self, "unknown form `wasm`", declared.custom, code, "wasm")
        fails(self, "/nowhere/mine.so", declared.of_object, "/nowhere/mine.so", "shift")

    def test_profile_has_what_was_done(self):
        add = kiln.library_kernel("vector_add").compile("interp")
        with kiln.profile() as profile:
            fails(self, "a profile is on already", kiln.profile().__enter__)
            kiln.fallback("softshrink", "no kernel", 512)
            with kiln.scope("step"):
                add.launch(Interface([1]), Interface([2]), Interface([0]), 1)
        self.assertIn(" launch interp vector_add\n", profile.summary)
        self.assertIn(" scope step\n", profile.summary)
        names = [event["name"] for event in json.loads(profile.trace)["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(names, ["step", "vector_add"])

    def test_safetensors_are_tensors(self):
        header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode().ljust(72)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "m.safetensors")
            path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 3, 4))
            file = kiln.Safetensors(path)
            self.assertEqual(list(file), ["w"])
            w = file["w"]
            del file
            self.assertEqual((w.shape, w.dtype, w.device), ((2,), "f32", "cpu"))
            self.assertIn("f32[2]", repr(w))
            out = Interface([0, 0])
            kiln.library_kernel("vector_add").launch(w, w, out, 2)
            self.assertEqual(list(out.memory), [6, 8])

    def test_library_is_named_where_it_is_missing(self):
        environment = {**os.environ, "KILN_LIBRARY": "/nowhere/libkiln.so"}
        done = subprocess.run([sys.executable, "-c", "import kiln"], env=environment, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("KILN_LIBRARY says where libkiln.so is", done.stderr)


@unittest.skipIf(np is None, "no NumPy")
class WithNumpy(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(1)
        self.x = random.standard_normal((8, 3), dtype=np.float32)
        self.w = random.standard_normal((2, 3), dtype=np.float32)
        self.b = random.standard_normal(2, dtype=np.float32)
        self.expected = np.maximum(self.x @ self.w.T + self.b, 0)

    def test_graph_is_a_function(self):
        for target in ("cpu", "interp"):
            fn = kiln.Graph(LAYER).compile(target, full=True)
            self.assertEqual(fn.inputs, {"x": "f32[n, 3]", "w": "f32[2, 3]", "b": "f32[2]"})
            self.assertEqual(fn.outputs, {"y": "f32[n, 2]"})
            self.assertTrue(fn.target.startswith(target) and fn.launches >= 1 and "launch" in fn.explain(n=8))
            self.assertEqual(fn.output_shapes(self.x, self.w, self.b), {"y": (8, 2)})
            self.assertEqual(fn.memory(self.x, self.w, self.b)["results"], 64)
            fn.prepare(self.x, self.w, self.b)
            y = fn(self.x, self.w, self.b, threads=1)
            self.assertEqual((y.shape, y.dtype), ((8, 2), "f32"))
            kept = y.numpy()
            del y
            gc.collect()
            np.testing.assert_allclose(kept, self.expected, atol=1e-5)

    def test_graph_writes_where_it_is_told(self):
        fn = kiln.Graph(LAYER).compile()
        out = np.zeros((8, 2), np.float32)
        self.assertIs(fn(self.x, self.w, self.b, out=out), out)
        np.testing.assert_allclose(out, self.expected, atol=1e-5)
        call = fn.ready(self.x, self.w, self.b, out=out)
        self.x *= 2
        call()
        np.testing.assert_allclose(out, np.maximum(self.x @ self.w.T + self.b, 0), atol=1e-5)
        stream = kiln.Stream()
        fn(self.x, self.w, self.b, out=out, stream=stream)
        stream.synchronise()
        fails(self, "output `y`", fn, self.x, self.w, self.b, out=np.zeros((7, 2), np.float32))
        out.flags.writeable = False
        fails(self, "read only", fn, self.x, self.w, self.b, out=out)
        fails(self, "has 3 inputs, and 2 were given", fn, self.x, self.w)
        fails(self, "`x` is f64[8, 3]", fn, self.x.astype(np.float64), self.w, self.b)

    def test_model_of_pytorch_is_a_function(self):
        models = pathlib.Path(__file__).parents[2] / "graph/pt2/models"
        expected = json.loads((models / "expected.json").read_text(encoding="utf-8"))["steps"]
        x, y, mean = (np.array(each["values"], np.float32).reshape(each["shape"]) for each in
                      (expected["inputs"]["x"], expected["outputs"]["y"], expected["outputs"]["b_norm_running_mean_next"]))
        model = kiln.Model(models / "steps.pt2")
        fn = model.compile()
        self.assertEqual(sorted(model.states), sorted(fn.inputs)[:3])
        results = fn(*(model.states.get(name, x) for name in fn.inputs))
        self.assertEqual((list(fn.outputs)[0], list(fn.outputs)[3]), ("b_norm_running_mean_next", "y"))
        np.testing.assert_allclose(results[0].numpy(), mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(results[3].numpy(), y, rtol=1e-4, atol=1e-5)
        fails(self, "nowhere.pt2", kiln.Model, "nowhere.pt2", code="NOT_FOUND")

    def test_graph_is_exported(self):
        package = kiln.Graph(LAYER).compile().export()
        y = kiln.load_graph(package)(self.x, self.w, self.b)
        np.testing.assert_allclose(y.numpy(), self.expected, atol=1e-5)
        fails(self, "no package of a graph", kiln.load_graph, package[:-1])

    def test_numbers_of_numpy_are_numbers(self):
        x = np.ones(4, np.float32)
        kiln.library_kernel("vector_add").launch(x, x, x, np.int64(3))
        np.testing.assert_array_equal(x, [2, 2, 2, 1])

    def test_weights_are_bound(self):
        model = kiln.Graph(LAYER).compile().bind(w=self.w, b=self.b)
        self.assertEqual(list(model.inputs), ["x"])
        np.testing.assert_allclose(model(self.x).numpy(), self.expected, atol=1e-5)
        np.testing.assert_allclose(model(self.x[::-2]).numpy(), self.expected[::-2], atol=1e-5)
        fails(self, "`v`", kiln.Graph(LAYER).compile().bind, v=self.w)

    def test_page_has_a_program(self):
        page = pathlib.Path(__file__).parents[3] / "docs/use/python.md"
        program = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(program, str(page), "exec"), {})
        self.assertEqual(said.getvalue(), "[3. 3.] (8, 2)\n[6. 6.]\n")

    def test_state_is_taken_over(self):
        fn = kiln.Graph(STEP).compile()
        state, x = np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)
        y = np.zeros(4, np.float32)
        fn(state, x, out=(state, y))
        np.testing.assert_array_equal(state, [2, 3, 4, 5])
        following, y = fn(state, x)
        np.testing.assert_array_equal(following.numpy(), [4, 5, 6, 7])
        np.testing.assert_array_equal(y.numpy(), [8, 10, 12, 14])
        np.testing.assert_array_equal(state, [2, 3, 4, 5])

    def test_threads_share_a_function(self):
        fn = kiln.Graph(LAYER).compile()
        wrong = []

        def work():
            for _ in range(50):
                if not np.allclose(fn(self.x, self.w, self.b, threads=1).numpy(), self.expected, atol=1e-5):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_dlpack_goes_both_ways(self):
        fn = kiln.Graph(LAYER).compile()
        y = fn(self.x, self.w, self.b)
        self.assertEqual(y.__dlpack_device__(), (1, 0))
        shared = np.from_dlpack(y)
        del y
        gc.collect()
        np.testing.assert_allclose(shared, self.expected, atol=1e-5)
        capsule = self.x.__dlpack__()
        taken = kiln.from_dlpack(capsule)
        self.assertEqual(taken.numpy().ctypes.data, self.x.ctypes.data)
        fails(self, "was used before", kiln.from_dlpack, capsule)
        taken.__dlpack__(max_version=(1, 0))  # nobody takes it
        taken.__dlpack__()
        gc.collect()
        np.testing.assert_array_equal(taken.numpy(), self.x)
        with self.assertRaises(BufferError):
            taken.__dlpack__(copy=True)


@unittest.skipIf(torch is None, "no PyTorch")
class WithTorch(unittest.TestCase):
    def test_graph_takes_tensors(self):
        fn = kiln.Graph(LAYER).compile()
        x, w, b = torch.randn(8, 3), torch.randn(2, 3), torch.randn(2)
        y = torch.from_dlpack(fn(x, w, b))
        torch.testing.assert_close(y, torch.relu(torch.nn.functional.linear(x, w, b)))
        out = torch.zeros(8, 2)
        fn(x, w.t().contiguous().t(), b, out=out)
        torch.testing.assert_close(out, y)
        half = kiln.Graph(LAYER.replace("f32", "bf16")).compile()
        self.assertEqual(torch.from_dlpack(half(x.bfloat16(), w.bfloat16(), b.bfloat16())).dtype, torch.bfloat16)


if __name__ == "__main__":
    unittest.main()
