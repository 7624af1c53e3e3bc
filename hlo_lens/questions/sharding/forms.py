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
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.columns import END, OPERANDS_END
from hlo_lens.load.fact import fact
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.render.result import Column, Result, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


@dataclass(frozen=True, kw_only=True)
class ShardingForms(Result):
    """Forms of sharding with their numbers of instructions.

    Attributes:
        forms: Form, instructions, distinct texts, most frequent text, first instruction with it.
        unsharded: Instructions without a sharding attribute.
    """

    KIND: ClassVar[str] = "sharding-forms"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("form", Unit.NONE, "kind or spelling of the sharding"),
        Column("instructions", Unit.COUNT, "instructions that have it"),
        Column("distinct", Unit.COUNT, "distinct texts of this form"),
        Column("example", Unit.NONE, "the most frequent text of this form"),
        Column("example_instruction", Unit.NONE, "the first instruction with the example"),
    )
    RECORDS: ClassVar[str] = "forms"
    forms: tuple[tuple[str, int, int, str, str], ...]
    unsharded: int

    def totals(self) -> Mapping[str, int]:
        """Return the number of instructions with a sharding, and of distinct texts."""
        return {
            "instructions": sum(row[1] for row in self.forms),
            "distinct": sum(row[2] for row in self.forms),
        }


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
        rows.append((form, sum(counts[text] for text in texts), len(texts), example, name))
    return ShardingForms(
        forms=tuple(sorted(rows, key=lambda row: (-row[1], row[0]))),
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
