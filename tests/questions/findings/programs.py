"""Findings of rules in HLO texts, for the tests of rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.load.module import ModuleDump, already_read
from hlo_lens.questions.dumps.listing import hashed_facts
from hlo_lens.questions.findings.findings import all_findings
from hlo_lens.text.dump_kinds import DumpKind
from tests.hlo_texts import without_elements

if TYPE_CHECKING:
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.findings.finding import Finding


def analysis_of_text(text: str, before: str | None = None, name: str = "m") -> ModuleDump:
    """Return the analysis of a module's text, which has no gaps."""
    module = hlo_lens.parse_hlo(text)
    assert module.gaps == ()
    return ModuleDump(
        name=name,
        kind=DumpKind.HLO,
        module_text=already_read(module),
        before_text=None if before is None else already_read(hlo_lens.parse_hlo(before)),
    )


def listed(*known: ModuleDump) -> list[ListingFacts]:
    """Return the facts of modules that rules about several modules take."""
    return [hashed_facts(one) for one in known]


def findings_of(
    text: str, code: str, before: str | None = None, *, is_decided: bool = True
) -> tuple[Finding, ...]:
    """Return the findings of one rule in a module's text; the rule must be decided, or not.

    They are the same where the text prints no elements of tuples.
    """
    listed = []
    for spelling in (text, without_elements(text)):
        found = all_findings(analysis_of_text(spelling, before))
        assert (code not in dict(found.undecided)) == is_decided
        listed.append(tuple(one for one in found.findings if one.code == code))
    assert listed[0] == listed[1]
    return listed[0]


def with_lines(text: str) -> str:
    """Return a text with metadata for each ``@path:line``, of the function ``step`` in m.py."""
    metadata = r'metadata={op_name="jit(step)/\1" source_file="m.py" source_line=\2}'
    return re.sub(r"@(\S+):(\d+)", metadata, text)


def looped(body: str, *, size: int, trips: int, backend: str | None = None) -> str:
    """Return a program with a loop that carries ``v``, which changes, and ``k``, which does not.

    Args:
        body: Instructions of the loop, the last one ``r``, the new ``v``; SIZE is their length.
        size: Length of the two arrays.
        trips: Trip count.
        backend: ``cpu`` for a text of a CPU; None for one that does not show its backend.
    """
    config = ', backend_config={"outer_dimension_partitions":["2"]}' if backend == "cpu" else ""
    text = _LOOP.replace("BODY", body.strip()).replace("CONFIG", config)
    return text.replace("SIZE", str(size)).replace("TRIPS", str(trips))


_LOOP = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

doubled {
  q = f32[SIZE]{0} parameter(0)
  ROOT d = f32[SIZE]{0} add(q, q)
}

body {
  t = (s32[], f32[SIZE]{0}, f32[SIZE]{0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[SIZE]{0} get-tuple-element(t), index=1
  k = f32[SIZE]{0} get-tuple-element(t), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  BODY
  f = f32[SIZE]{0} fusion(r), kind=kLoop, calls=doubledCONFIG
  ROOT n = (s32[], f32[SIZE]{0}, f32[SIZE]{0}) tuple(next, f, k)
}

condition {
  t = (s32[], f32[SIZE]{0}, f32[SIZE]{0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  end = s32[] constant(TRIPS)
  ROOT c = pred[] compare(i, end), direction=LT
}

ENTRY main {
  x = f32[SIZE]{0} parameter(0)
  y = f32[SIZE]{0} parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[SIZE]{0}, f32[SIZE]{0}) tuple(zero, x, y)
  loop = (s32[], f32[SIZE]{0}, f32[SIZE]{0}) while(start), condition=condition, body=body
  ROOT o = f32[SIZE]{0} get-tuple-element(loop), index=1
}
"""
