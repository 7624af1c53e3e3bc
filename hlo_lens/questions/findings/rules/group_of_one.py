"""A collective's groups are of one device each: it moves nothing.

What:
    Each group of a collective has one device, so its result is its operand. The axis that it names
    has size 1, or the mesh is of one device.

Why it costs:
    XLA removes most of them. Where it is left, the operation is still started, which takes some
    microseconds each time, and fusions end at it.

Fix:
    Leave the axis of size 1 out of the names that the program gives (lax.psum over axes that
    exist), or build the mesh without it.

Fine when:
    The same program also runs on larger meshes. It is an info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import Saves, Severity
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import by_line, finding_of, subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding


def group_of_one(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line with collectives that move nothing."""
    idle = (one for one in collectives(known).collectives if one.moves_nothing)
    for found in by_line(idle):
        yield finding_of(
            found,
            f"{subject(found)}: each group is one device, nothing is moved",
            "leave the axis of size 1 out of the mesh, or of the collective's axis names",
            saves=Saves(),
            severity=Severity.INFO,
        )


RULE = ModuleRule("C006", group_of_one)
