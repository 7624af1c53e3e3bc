"""Whether two compiles can be compared at all: the same backend, target and number of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.model.snapshot import ModuleSnapshot

BEFORE = "before_optimizations"


def differences(base: ModuleSnapshot, head: ModuleSnapshot) -> tuple[str, ...]:
    """Return what makes numbers of two modules incomparable, in words; empty where nothing does.

    What only one side's files tell makes no difference.
    """
    return tuple(_differences(base, head))


def _differences(base: ModuleSnapshot, head: ModuleSnapshot) -> Iterator[str]:
    if base.backend and head.backend and base.backend != head.backend:
        yield f"backend {base.backend} -> {head.backend}"
    elif base.target and head.target and base.target != head.target:
        yield f"target {base.target} -> {head.target}"
    for name, noun in (("evident_partitions", "partitions"), ("replica_count", "replicas")):
        one, other = base.number(name), head.number(name)
        if one is not None and other is not None and one != other:
            yield f"{noun} {one} -> {other}"
    stages = [module.report.get("stage") for module in (base, head)]
    if None not in stages and (stages[0] == BEFORE) != (stages[1] == BEFORE):
        yield "one text is from before optimizations, the other from after"


def toolchain_change(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return how the compilers differ, as far as the files tell; empty where they do not."""
    if not base.toolchain or not head.toolchain or base.toolchain == head.toolchain:
        return ""
    return f"{base.toolchain} -> {head.toolchain}"
