"""Roles of values in memory, in the words of those who train models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ROLES: Mapping[str, str] = {
    "weights": "arguments that products use and results replace",
    "optimizer state": "arguments that results replace and no product uses",
    "caches": "arguments that results replace in part",
    "inputs": "arguments that no result replaces, and copies of them",
    "constants": "constants of the program",
    "outputs": "results that have memory of their own",
    "gathered weights": "copies of weights: gathered, converted or in another layout",
    "gradients": "values from which replaced arguments are computed elementwise",
    "saved activations": "values of the forward pass whose last use is in the backward pass",
    "temporaries": "all other temporary values",
    "other": "memory whose role is not evident",
}
"""Meaning of each role, in the order in which pictures stack them, lowest first."""

WEIGHTS, STATE, CACHES, INPUTS, CONSTANTS, OUTPUTS = list(ROLES)[:6]
GATHERED, GRADIENTS, SAVED, TEMPORARIES, OTHER = list(ROLES)[6:]


class Role(NamedTuple):
    """Role of a value, and the evidence for it."""

    role: str
    basis: str


NO_ROLE = Role(OTHER, "its role is not evident")
