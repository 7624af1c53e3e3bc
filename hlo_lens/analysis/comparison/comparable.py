"""Whether two compiles can be compared at all: the same backend, target and number of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.model.snapshot.facts import ModuleSnapshot

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
    partitions = [_partitions(module) for module in (base, head)]
    has_text = base.collectives is not None and head.collectives is not None
    if has_text and not _may_be_equal(*partitions):
        texts = ["1, as far as it tells" if n is None else str(n) for n in partitions]
        yield f"partitions {' -> '.join(texts)}"
    replicas = [module.number("replica_count") for module in (base, head)]
    if None not in replicas and replicas[0] != replicas[1]:
        yield f"replicas {replicas[0]} -> {replicas[1]}"
    stages = [module.report.get("stage") for module in (base, head)]
    if None not in stages and (stages[0] == BEFORE) != (stages[1] == BEFORE):
        yield "one text is from before optimizations, the other from after"


def _partitions(module: ModuleSnapshot) -> int | None:
    """Return the number of partitions as far as anything in a text tells; None if nothing does.

    Texts of before the end of 2023 have no number; then shardings tell it, or who collectives
    are between.
    """
    told = module.number("evident_partitions")
    if told is not None or not module.collectives:
        return told
    sizes = [(fact.group_size or 1) * (fact.num_groups or 1) for fact in module.collectives]
    most = max(sizes) // (module.number("replica_count") or 1)
    return most if most > 1 else None


def _may_be_equal(one: int | None, other: int | None) -> bool:
    """Return whether numbers of partitions are equal; a text of one partition has no number."""
    return (one or 1) == (other or 1)


def toolchain_change(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return how the compilers differ, as far as the files tell; empty where they do not."""
    if not base.toolchain or not head.toolchain or base.toolchain == head.toolchain:
        return ""
    return f"{base.toolchain} -> {head.toolchain}"
