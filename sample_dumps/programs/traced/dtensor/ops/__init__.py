"""Operators: the sharding rule of each, and what it computes on one device."""

from __future__ import annotations

from programs.traced.dtensor.ops.matrix_ops import matmul, matmul_rule
from programs.traced.dtensor.ops.pointwise_ops import add, add_rule, relu, relu_rule

RULES = {
    "matmul": (matmul_rule, matmul),
    "add": (add_rule, add),
    "relu": (relu_rule, relu),
}
