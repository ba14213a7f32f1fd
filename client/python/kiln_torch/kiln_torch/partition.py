"""Which nodes of an FX graph Kiln compiles, and the parts that they make."""
from __future__ import annotations

import operator
from collections import Counter
from typing import Callable, Mapping

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .program import ELEMENTS, target_of


def tensors_of(node: Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [each for each in values if isinstance(each, torch.Tensor)]


class Support(OperatorSupportBase):
    """Calls that a graph has, of tensors that it can have, all on one device."""

    def __init__(self, is_known: Callable[[str], bool], device: torch.device) -> None:
        self.is_known, self.device = is_known, device
        self.reasons: dict[Node, str | None] = {}

    def refused(self) -> Counter[str]:
        """Why calls stay with PyTorch, and how many do."""
        return Counter(reason for reason in self.reasons.values() if reason is not None)

    def reason(self, node: Node) -> str | None:
        """Why a call stays with PyTorch; None where it need not."""
        target = target_of(node)
        if target is None or not tensors_of(node):
            return None if node.target is operator.getitem else str(node.target)
        if not self.is_known(target):
            return target
        # Seeds and lengths of fused attentions, which only their own backward calls read.
        if "_scaled_dot_product_" in target and any(user.target is operator.getitem and user.args[1] > 1 and user.users for user in node.users):
            return f"{target} with what its gradient needs"
        # Tensors of graphs have no strides, so that only those of one order are what the call takes them for.
        if "as_strided" in target and not all(tensor.is_contiguous() for tensor in tensors_of(node.all_input_nodes[0])):
            return f"{target} of a tensor that does not lie in row-major order"
        for tensor in [t for near in (node, *node.all_input_nodes) for t in tensors_of(near)]:
            if tensor.dtype not in ELEMENTS or tensor.layout is not torch.strided:
                return f"{target} of {tensor.dtype}"
            if tensor.device != self.device and tensor.dim() > 0:
                return f"{target} on {tensor.device} beside {self.device}"
        return None

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            source = node.args[0]
            return bool(tensors_of(node)) and isinstance(source, Node) and self.is_node_supported(submodules, source)
        if not tensors_of(node):
            return False  # sizes are PyTorch's affair
        if node not in self.reasons:
            self.reasons[node] = self.reason(node)
        return self.reasons[node] is None


def device_of(module: GraphModule) -> torch.device:
    """Where most of it lies: a GPU, if any tensor does."""
    devices = [tensor.device for node in module.graph.nodes for tensor in tensors_of(node)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def split(module: GraphModule, support: Support) -> tuple[GraphModule, list[str]]:
    """The module with each part that Kiln can have as a submodule, and the names of those."""
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions(), prefix="kiln_part_")
    names = [node.target for node in fused.graph.nodes if node.op == "call_module" and str(node.target).startswith("kiln_part_")]
    return fused, names
