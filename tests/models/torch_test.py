#!/usr/bin/env python3
"""torch.compile(backend="kiln") as people use it, and as they misuse it: needs PyTorch, and the packages kiln and kiln_torch."""
from __future__ import annotations

import copy
import json
import logging
import os
import threading
import unittest
import unittest.mock

import kiln
import kiln_torch
import torch
import torch.nn as nn
import torch.nn.functional as F


@torch.library.custom_op("kiln_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 5))


class TorchTest(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        kiln_torch.reset_report()
        torch.manual_seed(1)

    def same(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)

    def test_inference_is_one_part(self) -> None:
        module, x = mlp(), torch.randn(7, 12)
        with torch.no_grad():
            self.same(torch.compile(module, backend="kiln")(x), module(x))
        report = kiln_torch.report()
        self.assertEqual((report["parts"], report["eager_calls"]), (1, 0))
        self.assertGreater(report["launches"], 0)

    def test_training_has_gradients(self) -> None:
        module, x, target = mlp(), torch.randn(7, 12), torch.randint(0, 5, (7,))
        other = copy.deepcopy(module)
        F.cross_entropy(module(x), target).backward()
        F.cross_entropy(torch.compile(other, backend="kiln")(x), target).backward()
        for mine, theirs in zip(other.parameters(), module.parameters()):
            self.same(mine.grad, theirs.grad)
        self.assertEqual(kiln_torch.report()["eager_calls"], 0)

    def test_what_is_handed_through_is_not_copied(self) -> None:
        programs = []

        def noted(module: torch.fx.GraphModule) -> tuple[str, set[str]]:
            programs.append(program_of(module))
            return programs[-1]

        program_of = kiln_torch.function.program_of
        x = torch.randn(7, 12)
        with unittest.mock.patch.object(kiln_torch.function, "program_of", noted):
            torch.compile(mlp(), backend="kiln")(x).sum().backward()
        self.assertEqual(len(programs), 2)
        for text, _ in programs:
            graph = json.loads(text)["graph_module"]["graph"]
            names = [[each["as_tensor"]["name"] for each in graph[side]] for side in ("inputs", "outputs")]
            self.assertEqual(set(names[0]) & set(names[1]), set())
            self.assertEqual(len(names[1]), len(set(names[1])))

    def test_a_training_run_learns_the_same(self) -> None:
        module, x, target = mlp(), torch.randn(32, 12), torch.randint(0, 5, (32,))
        other = copy.deepcopy(module)
        losses = []
        for net, call in ((module, module), (other, torch.compile(other, backend="kiln"))):
            optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
            for _ in range(15):
                optimiser.zero_grad()
                loss = F.cross_entropy(call(x), target)
                loss.backward()
                optimiser.step()
            losses.append(loss.detach())
        self.same(losses[1], losses[0])

    def test_sizes_share_one_part(self) -> None:
        module = mlp()
        call = torch.compile(module, backend="kiln", dynamic=True)
        with torch.no_grad():
            for rows in (2, 3, 17, 64, 5):
                x = torch.randn(rows, 12)
                self.same(call(x), module(x))
        self.assertEqual(kiln_torch.report()["parts"], 1)

    def test_an_int_that_no_shape_says(self) -> None:
        call = torch.compile(lambda x, n: x * n + torch.arange(n).sum(), backend="kiln", dynamic=True)
        x = torch.randn(4)
        for n in (3, 8, 11):
            self.same(call(x, n), x * n + torch.arange(n).sum())

    def test_strides_of_results_are_pytorchs(self) -> None:
        x = torch.randn(3, 4, 5)
        result = torch.compile(lambda x: (x + 1).transpose(1, 2), backend="kiln")(x)
        self.assertEqual(result.stride(), (x + 1).transpose(1, 2).stride())
        self.same(result, (x + 1).transpose(1, 2))

    def test_inputs_of_any_strides(self) -> None:
        call = torch.compile(lambda x: x.relu().sum(1), backend="kiln")
        x = torch.randn(6, 8)
        for view in (x, x.t(), x[::2], x[:, 1:5], x[:1].expand(4, 8)):
            self.same(call(view), view.relu().sum(1))

    def test_strides_that_a_call_counts_on(self) -> None:
        def picked(x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided(x + 1, (6,), (2,))
        for x, stays in ((torch.randn(4, 3), 0), (torch.randn(3, 4).t(), 1)):
            kiln_torch.reset_report()
            self.same(torch.compile(picked, backend="kiln")(x), picked(x))
            self.assertEqual(kiln_torch.report()["eager_calls"], stays)

    def test_mutated_inputs_are_written(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + 1
        x = torch.randn(5)
        y = x.clone()
        self.same(torch.compile(function, backend="kiln")(x), function(y))
        self.same(x, y)

    def test_what_kiln_lacks_stays_and_is_named_once(self) -> None:
        call = torch.compile(lambda x: twice(x.sin()).cos() + twice(x), backend="kiln")
        x = torch.randn(9)
        with self.assertLogs("kiln_torch", logging.WARNING) as log:
            self.same(call(x), (2 * x.sin()).cos() + 2 * x)
        self.assertEqual(len([line for line in log.output if "kiln_test.twice" in line]), 1)
        report = kiln_torch.report()
        self.assertEqual(report["fallbacks"], {"kiln_test.twice.default": 2})
        self.assertGreaterEqual(report["parts"], 1)

    def test_full_is_an_error_that_names_it(self) -> None:
        call = torch.compile(lambda x: twice(x.sin()), backend="kiln", options={"full": True})
        with self.assertRaisesRegex(Exception, "kiln_test.twice"):
            call(torch.randn(9))

    def test_unknown_options_are_errors(self) -> None:
        with self.assertRaisesRegex(Exception, "kiln has no option fast"):
            torch.compile(lambda x: x + 1, backend="kiln", options={"fast": 1})(torch.randn(3))
        with self.assertRaisesRegex(Exception, "kiln has no mode quick"):
            torch.compile(lambda x: x + 1, backend=lambda m, i: kiln_torch.backend(m, i, mode="quick"))(torch.randn(3))

    def test_threads(self) -> None:
        module = mlp()
        call = torch.compile(module, backend="kiln")
        inputs = [torch.randn(7, 12) for _ in range(8)]
        results: list[torch.Tensor | None] = [None] * 8
        with torch.no_grad():
            call(inputs[0])

        def run(i: int) -> None:
            with torch.no_grad():
                for _ in range(20):
                    results[i] = call(inputs[i])
        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with torch.no_grad():
            for x, y in zip(inputs, results):
                self.same(y, module(x))

    def test_constants_of_the_program(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return x * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(0.5)
        x = torch.randn(4, 3)
        self.same(torch.compile(function, backend="kiln")(x), function(x))
        self.assertEqual(kiln_torch.report()["eager_calls"], 0)

    def test_training_in_bf16(self) -> None:
        module, x, target = mlp().bfloat16(), torch.randn(7, 12).bfloat16(), torch.randint(0, 5, (7,))
        other = copy.deepcopy(module)
        F.cross_entropy(module(x).float(), target).backward()
        F.cross_entropy(torch.compile(other, backend="kiln")(x).float(), target).backward()
        for mine, theirs in zip(other.parameters(), module.parameters()):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=5e-2, atol=5e-2)
        self.assertEqual(kiln_torch.report()["eager_calls"], 0)

    def test_training_of_attention(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            q, k, v = x.unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = torch.randn(2, 6, 48, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        function(x).square().sum().backward()
        torch.compile(function, backend="kiln")(y).square().sum().backward()
        self.same(y.grad, x.grad)
        self.assertEqual(kiln_torch.report()["eager_calls"], 0)

    def test_training_of_attention_with_a_mask(self) -> None:
        def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            q, k, v = x.unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)
        for mask in (torch.randn(6, 6), torch.rand(6, 6) + torch.eye(6) > 0.4):
            x = torch.randn(2, 6, 48, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            function(x, mask).square().sum().backward()
            torch.compile(function, backend="kiln")(y, mask).square().sum().backward()
            self.same(y.grad, x.grad)

    def test_another_shape_of_weights(self) -> None:
        module, x = mlp(), torch.randn(7, 12)
        call = torch.compile(module, backend="kiln")
        with torch.no_grad():
            call(x)
            module[3] = nn.Linear(20, 9)
            self.same(call(x), module(x))

    def test_two_models_and_a_copy(self) -> None:
        first, second, x = mlp(), nn.Linear(12, 3), torch.randn(7, 12)
        calls = [torch.compile(first, backend="kiln"), torch.compile(second, backend="kiln")]
        again = copy.deepcopy(calls[0])
        with torch.no_grad():
            self.same(calls[0](x), first(x))
            self.same(calls[1](x), second(x))
            self.same(again(x), first(x))

    def test_autocast(self) -> None:
        module, x = mlp(), torch.randn(7, 12)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(torch.compile(module, backend="kiln")(x).float(), module(x).float(), rtol=2e-2, atol=2e-2)

    def test_random_numbers_follow_the_seed(self) -> None:
        call = torch.compile(lambda x: F.dropout(x, 0.5), backend="kiln")
        x = torch.ones(4000)
        torch.manual_seed(3)
        first = call(x)
        second = call(x)
        torch.manual_seed(3)
        self.same(call(x), first)
        self.assertFalse(torch.equal(first, second))
        self.assertTrue(1800 < int((first == 0).sum()) < 2200)

    def test_complex_numbers_stay(self) -> None:
        x = torch.randn(16)
        self.same(torch.compile(lambda x: torch.fft.fft(x * 2).abs() + 1, backend="kiln")(x), torch.fft.fft(x * 2).abs() + 1)

    def test_empty_tensors_and_scalars(self) -> None:
        call = torch.compile(lambda x, s: x * s + 1, backend="kiln")
        self.same(call(torch.randn(0, 4), torch.tensor(2.0)), torch.empty(0, 4))
        self.same(call(torch.tensor(3.0), torch.tensor(2.0)), torch.tensor(7.0))

    def test_a_child_of_fork_computes(self) -> None:
        module, x = nn.Linear(12, 3), torch.randn(7, 12)
        call = torch.compile(module, backend="kiln")
        with torch.no_grad():
            expected = call(x)
            child = os.fork()
            if child == 0:
                os._exit(0 if torch.allclose(call(x), expected) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_run_that_fails_is_done_by_pytorch(self) -> None:
        module, x = mlp(), torch.randn(7, 12)
        call = torch.compile(module, backend="kiln")
        run = kiln_torch.function.Function.__call__

        def fail(self: object, *arguments: object) -> object:
            raise kiln.Error("no memory", "OUT_OF_MEMORY")
        with torch.no_grad():
            call(x)
            kiln_torch.function.Function.__call__ = fail
            try:
                self.same(call(x), module(x))
            finally:
                kiln_torch.function.Function.__call__ = run
        self.assertEqual(kiln_torch.report()["fallbacks"], {"a run that failed: no memory": 1})


if __name__ == "__main__":
    unittest.main()
