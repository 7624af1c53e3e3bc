"""The same computation is in the program many times instead of in a loop.

What:
    Products of one line of the program and one shape occur eight times or more outside of each
    other's loop, as a Python loop over layers makes them. Lines of libraries do not count: all
    dense layers share them.

Why it costs:
    Time to compile, which grows with the number of instructions, and the size of the program's
    code. Memory is often larger too: XLA may run what it likes first.

Fix:
    Stack the parameters of the layers and use jax.lax.scan over them, in flax nn.scan. unroll= of
    scan keeps a few iterations together where the loop itself costs.

Fine when:
    It compiles fast enough. Below 16 copies, or in programs of less than 5,000 instructions, it is
    an info.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.program.flops import flops
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.findings.finding import Finding, Severity, at
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.memory.roles import BACKWARD, RECOMPUTED
from hlo_lens.text.source_files import is_library_file
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump

_LEAST, _MANY = 8, 16
"""Fewest copies of a finding, and of a warning."""

_MANY_INSTRUCTIONS = 5000
_MOST_PRODUCTS = 5_000
"""Products of the largest program that is looked at."""

_DIGITS = re.compile(r"\d+")


def unrolled_computation(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for the line of most copies."""
    names = {one.name: (one.flops, one.times) for one in flops(known).products if one.flops}
    if not _LEAST <= len(names) <= _MOST_PRODUCTS:
        return
    groups: dict[tuple[SourceLocation, str, object], list[str]] = {}
    for row in instruction_table(known).rows_where(lambda traits: traits.is_product):
        name = hlo_text(known).columns.name(row)
        path = origins(known).places.op_name(row) if name in names else None
        if path is None or BACKWARD in path or RECOMPUTED in path:
            continue
        place = origins(known).places.innermost(row)
        if place is not None and not is_library_file(place.file):
            groups.setdefault((place, _DIGITS.sub("#", path), names[name]), []).append(name)
    most = max(groups.items(), key=lambda pair: len(pair[1]), default=None)
    if most is not None and len(most[1]) >= _LEAST:
        yield _finding(known, most[0][0], most[1], sum(len(n) >= _LEAST for n in groups.values()))


def _finding(known: ModuleDump, place: SourceLocation, names: Sequence[str], lines: int) -> Finding:
    count = len(hlo_text(known).columns)
    is_large = len(names) >= _MANY and count >= _MANY_INSTRUCTIONS
    return Finding(
        message=(
            f"{len(names)} equal products of one line: the computation is unrolled "
            f"({count:,} instructions)"
        ),
        fix="stack the parameters of the layers and use jax.lax.scan over them, in flax nn.scan",
        **at(place),
        values=tuple(names),
        evidence=(f"{plural(lines, 'product')} of the program unrolled in this way",),
        severity=Severity.WARNING if is_large else Severity.INFO,
    )


RULE = ModuleRule("X002", unrolled_computation)
