#!/usr/bin/env python3
"""wheel_program.py: what somebody writes who has installed the wheels, and nothing else of Kiln's."""
import os
import subprocess
import sysconfig

import torch

assert not [name for name in os.environ if name.startswith("KILN_")]
model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.Linear(20, 5))
x = torch.randn(7, 12)
fast = torch.compile(model, backend="kiln")
torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
fast(x).sum().backward()

import kiln  # noqa: E402  (that PyTorch finds the backend by its name is what is tested)
import kiln_torch  # noqa: E402

report = kiln_torch.report()
assert report["parts"] == 2 and report["fallbacks"] == {}, report
home = sysconfig.get_path("platlib")
assert kiln._library.library._name.startswith(home), kiln._library.library._name
# Nothing that the process has is of a library that the wheel should have brought.
mapped = {line.split()[-1] for line in open("/proc/self/maps", encoding="utf-8") if "/kiln/" in line}
assert any("libcrypto-" in name for name in mapped), mapped
command = subprocess.run([os.path.join(sysconfig.get_path("scripts"), "kiln"), "stats"], check=True, capture_output=True, text=True)
assert f"{home}/kiln/bin/kiln-worker" in command.stdout, command.stdout
print(f"kiln {kiln.version()} of {home}: {report['launches']} launches, as PyTorch computes it")
