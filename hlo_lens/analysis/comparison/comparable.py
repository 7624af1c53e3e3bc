"""Whether two compiles can be compared: the same backend, target and number of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.dump_files import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot


def differences(base: ModuleSnapshot, head: ModuleSnapshot) -> tuple[str, ...]:
    """Return why the figures of two modules cannot be compared, in words; empty if they can.

    What only one side knows is no difference.
    """
    return tuple(_differences(base, head))


def _differences(base: ModuleSnapshot, head: ModuleSnapshot) -> Iterator[str]:
    mine, yours = base.facts, head.facts
    if mine.backend and yours.backend and mine.backend != yours.backend:
        yield f"backend {mine.backend} -> {yours.backend}"
    elif base.target and head.target and base.target != head.target:
        yield f"target {base.target} -> {head.target}"
    partitions = [_partitions(module) for module in (base, head)]
    has_text = base.collectives is not None and head.collectives is not None
    if has_text and not _may_be_equal(*partitions):
        texts = ["1 (none printed)" if n is None else str(n) for n in partitions]
        yield f"partitions {' -> '.join(texts)}"
    replicas = [facts.replica_count for facts in (mine, yours)]
    if None not in replicas and replicas[0] != replicas[1]:
        yield f"replicas {replicas[0]} -> {replicas[1]}"
    stages = [facts.stage for facts in (mine, yours)]
    if None not in stages and (stages[0] == BEFORE) != (stages[1] == BEFORE):
        yield "one text is from before optimizations, the other from after"


def _partitions(module: ModuleSnapshot) -> int | None:
    """Return the number of partitions; None if nothing in the text gives it.

    Texts of before the end of 2023 have no number: shardings or groups of collectives give it.
    """
    printed = module.facts.evident_partitions
    if printed is not None or not module.collectives:
        return printed
    sizes = [(fact.group_size or 1) * (fact.num_groups or 1) for fact in module.collectives]
    most = max(sizes) // (module.facts.replica_count or 1)
    return most if most > 1 else None


def _may_be_equal(one: int | None, other: int | None) -> bool:
    """Return whether numbers of partitions are equal; a text of one partition prints none."""
    return (one or 1) == (other or 1)


def toolchain_change(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return how the compilers differ; empty if they do not, or one is not known."""
    if not base.toolchain or not head.toolchain or base.toolchain == head.toolchain:
        return ""
    return f"{base.toolchain} -> {head.toolchain}"
