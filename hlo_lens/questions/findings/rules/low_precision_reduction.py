"""A sum over devices is made in bf16 or f16, and its result converted to f32 at once.

What:
    An all-reduce or reduce-scatter adds values of 16 bits, and each use of the result is a
    conversion to f32.

Why it costs:
    Precision: each addition rounds to 8 bits of mantissa (bf16), although f32 is wanted after it.
    Nothing is saved by f32; the transfer would take twice the bytes.

Fix:
    Convert before the sum: lax.psum(x.astype(jnp.float32), axis); for gradients that the
    partitioner reduces, preferred_element_type=jnp.float32 in the product that makes them.

Fine when:
    The precision is enough and the bytes matter, as for gradients of large models. It is an info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import WIRE, run_sum
from hlo_lens.questions.findings.finding import Saves, Severity
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import by_line, finding_of, is_converted, subject, transfers
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding


def low_precision_reduction(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line with sums of 16 bits that are converted to f32."""
    module = hlo_text(known)
    found = [
        one.collective
        for one in transfers(known)
        if opcode_traits(one.collective.kind).is_reduction
        and one.collective.element_type in ("bf16", "f16")
        and one.parts
        and all(is_converted(module, part.result, ("f32",)) for part in one.parts)
    ]
    for group in by_line(found):
        verb = "adds" if len(group) == 1 else "add"
        wire = run_sum(group, WIRE)
        cost = "twice the bytes" if wire is None else f"{format_bytes(wire.most)} more"
        yield finding_of(
            group,
            f"{subject(group)} {verb} {group[0].element_type} values, converted to f32 at once: "
            f"sums in f32 are more precise and send {cost}",
            "where precision matters, convert before the sum, or preferred_element_type="
            "jnp.float32 in the product",
            saves=Saves(),
            severity=Severity.INFO,
        )


RULE = ModuleRule("C009", low_precision_reduction)
