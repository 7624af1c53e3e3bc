"""Facts of a module: functions of it that are computed once and kept on it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.load.module import ModuleDump

T = TypeVar("T")


def fact(compute: Callable[[ModuleDump], T]) -> Callable[[ModuleDump], T]:
    """Compute a function of a module at its first call, and keep the value on the module.

    A fact asks for others by calling them. It depends on the module's texts and on what its user
    stated (`ModuleDump.given`); a function with more parameters is no fact.
    """

    @wraps(compute)
    def kept(module: ModuleDump) -> T:
        if kept not in module.facts:
            module.facts[kept] = compute(module)
        return cast("T", module.facts[kept])

    return kept


def plant(module: ModuleDump, function: Callable[[ModuleDump], object], value: object) -> None:
    """Keep a value as a fact of a module: one computed elsewhere, or that a test needs."""
    module.facts[function] = value
