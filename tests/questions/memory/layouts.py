"""Small memory layouts, and an HLO text, whose answers are known."""

from __future__ import annotations

import hlo_lens
from hlo_lens.questions.memory.layout import LaidAllocation, LaidValue, MemoryLayout
from hlo_lens.questions.memory.peak import PeakMemory, peak_memory

SCHEDULE = ("p", "a", "b", "c")


def value(
    name: str, allocation: int, offset: int, size: int, start: int | None, end: int | None
) -> LaidValue:
    return LaidValue(f"{name}{{}}", name, allocation, offset, size, start, end, "f32[2]{0}")


def layout(*, schedule: tuple[str, ...] | None = SCHEDULE) -> MemoryLayout:
    """Return p (argument), a and b in place at instant 2, c (output), and a thread-local scalar."""
    return MemoryLayout(
        source="buffer-assignment",
        allocations=(
            LaidAllocation(index=0, size=100, color=0, category="argument", parameter_number=0),
            LaidAllocation(index=1, size=64, color=0, category="temp"),
            LaidAllocation(index=2, size=8, color=0, category="output", is_output=True),
            LaidAllocation(index=3, size=4, color=0, category="thread-local"),
            LaidAllocation(index=4, size=1000, color=5, category="temp"),
        ),
        values=(
            value("p", 0, 0, 100, 0, 4),
            value("a", 1, 0, 40, 1, 2),
            value("b", 1, 0, 64, 2, 3),
            value("c", 2, 0, 8, 3, 4),
            value("x", 3, 0, 4, None, None),
            value("h", 4, 0, 1000, 1, 1),
        ),
        schedule=schedule,
    )


TEXT = """HloModule m, is_scheduled=true

%body (q: (s32[], f32[2])) -> (s32[], f32[2]) {
  %q = (s32[], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%q), index=0
  %x = f32[2] get-tuple-element(%q), index=1
  %y = f32[2] negate(%x), metadata={op_name="jit(f)/while/body/neg" source_file="f.py" \
source_line=7}
  ROOT %t = (s32[], f32[2]) tuple(%i, %y)
}

%cond (r: (s32[], f32[2])) -> pred[] {
  %r = (s32[], f32[2]) parameter(0)
  ROOT %k = pred[] constant(false)
}

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0), metadata={op_name="params['a/b']"}
  %z = s32[] constant(0)
  %a = f32[2] exponential(%p), metadata={op_name="jit(f)/exp" source_file="f.py" source_line=3}
  %init = (s32[], f32[2]) tuple(%z, %a)
  %w = (s32[], f32[2]) while(%init), condition=%cond, body=%body
  ROOT %out = f32[2] get-tuple-element(%w), index=1
}
"""


def program() -> MemoryLayout:
    return MemoryLayout(
        source="buffer-assignment",
        allocations=(
            LaidAllocation(index=0, size=8, color=0, category="argument", parameter_number=0),
            LaidAllocation(index=1, size=64, color=0, category="temp"),
        ),
        values=(
            LaidValue("p{}", "p", 0, 0, 8, 0, 3, "f32[2]{0}"),
            LaidValue("q{1}", "q", 1, 0, 8, 0, 3, "f32[2]{0}"),
            LaidValue("y{}", "y", 1, 8, 8, 0, 3, "f32[2]{0}"),
            LaidValue("gone{}", "gone", 1, 16, 8, 0, 3, "f32[2]{0}"),
        ),
        schedule=("p", "a", "y"),
    )


def peak_of_program() -> PeakMemory:
    peak = peak_memory(program(), module=hlo_lens.parse_hlo(TEXT))
    assert peak is not None
    return peak
