"""A collective moves f32 values that were bf16 before and are bf16 after it.

What:
    The operand of a collective is converted from 16 bits to f32, and each use of its result
    converts it back.

Why it costs:
    Twice the bytes on the wire.

Fix:
    Convert after the collective: leave the value in bf16 where it is sharded, and cast what the
    arithmetic needs (x.astype(jnp.float32) after the gather).

Fine when:
    It is a sum, and its precision matters: then f32 is right. CPU's compiler computes bf16 in f32
    and converts around everything, so this rule does not look at CPU dumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import (
    by_line,
    converted_from,
    finding_of,
    is_converted,
    subject,
    transfers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding

_NARROW = ("bf16", "f16")


def wide_collective(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose collectives are between conversions."""
    if backend_of_dump(known) not in ("gpu", "tpu"):
        return
    module = hlo_text(known)
    found = [
        one.collective
        for one in transfers(known)
        if one.collective.element_type == "f32"
        and one.parts
        and all(
            converted_from(module, part.operand) in _NARROW
            and is_converted(module, part.result, _NARROW)
            for part in one.parts
        )
    ]
    for group in by_line(found):
        yield finding_of(
            group,
            f"{subject(group)} moves f32, converted from 16 bits before and to 16 bits after",
            "convert after the collective, or not at all: x.astype(jnp.float32) where f32 is used",
            saved_share=0.5,
        )


RULE = ModuleRule("C010", wide_collective)
