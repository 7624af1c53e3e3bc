"""Compiler warnings with their instructions in a dump."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.report.render.table import Section, Table, filled
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.logs.warnings_in_dump import WarningJoins


def warnings_section(name: str, result: WarningJoins) -> Section:
    """Return the section on the warnings of a log.

    Args:
        name: Name of the log.
        result: Its warnings.
    """
    return Section(
        title=f"{name}: compiler warnings",
        facts=tuple(_facts(result)),
        tables=(Table.of(result, title="Warnings, equal ones together", shown=_shown(result)),),
        notes=tuple(_notes(result)),
    )


def _facts(result: WarningJoins) -> Iterator[tuple[str, str]]:
    counts: Counter[str] = Counter()
    for join in result.joins:
        counts[join.warning.kind.value] += join.times
    for kind, count in counts.items():
        yield kind, plural(count, "warning")
    if result.is_joined:
        sure = sum(join.module is not None for join in result.joins)
        yield "joined", f"{sure} of {len(result.joins)} with the dump"


def _shown(result: WarningJoins) -> tuple[str, ...]:
    wanted = ["about", "op_name", "source", "from_sharding", "to_sharding", "seconds"]
    if result.is_joined:
        is_all_found = all(join.instructions for join in result.joins)
        wanted = ["instruction", "source", "full_bytes", "how", "from_sharding", "to_sharding"]
        wanted = [*([] if is_all_found else ["about"]), *wanted, "seconds"]
    return ("line", "times", "warning", *filled(result.COLUMNS, list(result.rows()), wanted))


def _notes(result: WarningJoins) -> Iterator[str]:
    kinds = {join.warning.kind.name for join in result.joins}
    if "FULL_REMATERIALIZATION" in kinds:
        yield (
            "full rematerialization: every device gathers the whole value, then keeps its part; a "
            "sharding constraint in between, one axis at a time, may avoid it"
        )
    if "UNUSED_DONATION" in kinds:
        yield "unused donation: no output has the shape and type, so the memory is not reused"
    if not result.is_joined and result.joins:
        yield "hlo-lens report DUMP --log LOG finds the instructions in a dump of the same program"
