"""Number of instructions with each form of sharding.

The forms are XLA's spellings (formats of hlo_sharding.cc and named_sharding.cc): ``replicated``,
``maximal``, ``manual``, ``unknown``, ``unreduced``; tilings as a list of devices (``v1-list``), an
iota (``v2-iota``) or mesh axes (``v3-named``); ``tuple`` for one sharding per leaf. A sharding
whose text cannot be read is counted as ``[unreadable]``. Only the ``sharding`` attribute counts,
not Shardy's frontend attributes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import END, OPERANDS_END
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import instruction_table
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump

_KEY = ", sharding="
_PLAIN = r"[^{}\"]*"
_BRACES = re.compile(
    rf"\{{{_PLAIN}(?:\{{{_PLAIN}(?:\{{{_PLAIN}(?:\{{{_PLAIN}\}}{_PLAIN})*\}}{_PLAIN})*\}}{_PLAIN})*\}}"
)
"""A value in braces, nested at most four deep and without strings; others are read in full."""

UNREADABLE = "[unreadable]"


class ShardingForm(NamedTuple):
    """Instructions with one form of sharding."""

    form: Annotated[str, "kind or spelling of the sharding"]
    instructions: Annotated[int, Unit.COUNT, "instructions that have it"]
    distinct: Annotated[int, Unit.COUNT, "distinct texts of this form"]
    example: Annotated[str, "the most frequent text of this form"]
    example_instruction: Annotated[str, "the first instruction with the example"]


@dataclass(frozen=True, kw_only=True)
class ShardingForms(Records[ShardingForm]):
    """Forms of sharding, and the number of instructions without a sharding attribute."""

    KIND: ClassVar[str] = "sharding-forms"
    TOTALS: ClassVar[tuple[str, ...]] = ("instructions", "distinct")
    forms: tuple[ShardingForm, ...]
    unsharded: int


@fact
def sharding_forms(module: ModuleDump) -> ShardingForms:
    """Return the forms of sharding in a module, most frequent first, then by name."""
    table = instruction_table(module)
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for row, text in _sharding_texts(table):
        counts[text] += 1
        first.setdefault(text, row)
    by_form: dict[str, list[str]] = {}
    for text in counts:
        by_form.setdefault(_form(table.module, text), []).append(text)
    rows = []
    for form, texts in by_form.items():
        example = max(texts, key=lambda text: (counts[text], -first[text]))
        name = table.instruction(first[example]).name
        count = sum(counts[text] for text in texts)
        rows.append(ShardingForm(form, count, len(texts), example, name))
    return ShardingForms(
        forms=tuple(sorted(rows, key=lambda row: (-row.instructions, row.form))),
        unsharded=len(table.opcodes) - sum(counts.values()),
    )


def _form(module: HloModule, text: str) -> str:
    """Return the form of a sharding text."""
    try:
        return module.reader.sharding(text).form
    except DumpSyntaxError:
        return UNREADABLE


def _sharding_texts(table: InstructionTable) -> Iterator[tuple[int, str]]:
    """Yield row and sharding text of each instruction that has one.

    The attribute comes before all attributes that hold free text, so the first match outside quotes
    is it; a value that is not plain is read as an attribute list.
    """
    columns = table.module.columns
    text = columns.source.text
    starts, ends = columns.column(OPERANDS_END), columns.column(END)
    for row in table.module.columns.rows_with_attribute_text(_KEY):
        start, end = starts[row], ends[row]
        place = text.find(_KEY, start, end)
        match = _BRACES.match(text, place + len(_KEY), end)
        if match is not None and text.count('"', start, place) % 2 == 0:
            yield row, match[0]
            continue
        value = table.instruction(row).attribute("sharding")
        if value is not None:
            yield row, value
