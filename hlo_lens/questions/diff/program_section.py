"""Program diff as text, tables and JSON, a part of ``hlo-lens diff``.

Changes of the module of one kind (donations of many parameters) are one row, as equal edits of
instructions are.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.matching.edits import Change, Noise
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Table, table_of
from hlo_lens.text.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.matching.difference import ProgramDiff

SHOWN = ("edit", "instructions", "opcode", "what", "where", "op_name", "source")
"""Columns of edits in text."""

COUNTS = ("unchanged", "changed", "added", "removed", "moved")
"""Numbers of instructions by change."""

_MODULE_COLUMNS = (
    Column("what", Unit.NONE, "input_output_alias, buffer_donor, or the header attribute"),
    Column("edit", Unit.NONE, "lost, gained or changed"),
    Column("count", Unit.COUNT, "how many"),
    Column("base", Unit.NONE, "in the base, the first few"),
    Column("head", Unit.NONE, "in the head, the first few"),
)
_NAMED = 3
_OF_TEXTS = {Noise.CHANNEL_IDS, Noise.INSTRUCTION_ORDER, Noise.COMPUTATION_ORDER}
TEXTS_DIFFER = (
    "diff compares programs, which are equal here; hlo-lens ls compares texts, and counts other "
    "channel ids and another order of instructions as differences"
)
_LONGEST = 120


def program_diff_facts(diff: ProgramDiff) -> tuple[tuple[str, str], ...]:
    """Return label and text of the summary lines."""
    if diff.identical:
        text = f"no change: {plural(diff.unchanged, 'instruction')}"
    else:
        counts = _counts(diff)  # text lists what is left out as noise
        counts["added"] -= diff.left_out_head
        counts["removed"] -= diff.left_out_base
        text = ", ".join(f"{format_count(count)} {kind}" for kind, count in counts.items())
    return (("program", text), *(("ignored", text) for text in [ignored_text(diff)] if text))


def program_diff_tables(diff: ProgramDiff) -> tuple[Table, ...]:
    """Return the tables of changes of the module, and of instructions; without empty ones."""
    module = tuple(_module_rows(diff))
    tables = [table_of("module-diff", "Module", _MODULE_COLUMNS, module)] if module else []
    if diff.groups:
        count = plural(diff.unseen_literals, "constant")
        note = f"{count} without printed value: taken to be equal"
        notes = (note,) if diff.unseen_literals else ()
        table = Table.of(diff, title="Program", shown=SHOWN, notes=notes)
        tables.append(replace(table, kept=("opcode", "source"), wrapped=("what",)))
    return tuple(tables)


def program_diff_json(diff: ProgramDiff) -> Mapping[str, object]:
    """Return the JSON object ``program``: counts of instructions, and ignored noise."""
    return {
        **_counts(diff),
        "identical": diff.identical,
        "left_out_base": diff.left_out_base,
        "left_out_head": diff.left_out_head,
        "unseen_literals": diff.unseen_literals,
        "ignored": {kind.value: count for kind, count in diff.ignored.items()},
        "module_changes": [asdict(change) for change in diff.module_changes],
    }


def ignored_text(diff: ProgramDiff) -> str:
    """Return the ignored noise kinds with their numbers; empty without noise.

    Numbers count instructions; of the order of computations they count computations.
    """
    return ", ".join(
        f"{kind.value} ({format_count(count)})" for kind, count in diff.ignored.items()
    )


def text_note(diff: ProgramDiff) -> str | None:
    """Return a note if programs are equal whose texts differ for `hlo-lens ls`, else None."""
    is_equal = diff.identical and not _OF_TEXTS.isdisjoint(diff.ignored)
    return TEXTS_DIFFER if is_equal else None


def _counts(diff: ProgramDiff) -> dict[str, int]:
    return {name: getattr(diff, name) for name in COUNTS}


def _module_rows(diff: ProgramDiff) -> Iterator[Row]:
    """Yield changes of the module, those of one attribute and direction as one row."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in diff.module_changes:
        edit = "gained" if change.base is None else "lost" if change.head is None else "changed"
        groups.setdefault((change.what, edit), []).append(change)
    for (what, edit), changes in groups.items():
        base, head = (
            _few([text for text in texts if text is not None])
            for texts in zip(*((c.base, c.head) for c in changes), strict=True)
        )
        yield what, edit, len(changes), base, head


def _few(texts: list[str]) -> str | None:
    """Return the first few texts and the number of the others; None without any."""
    shown = [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 3]}..." for t in texts[:_NAMED]]
    more = len(texts) - len(shown)
    return "; ".join([*shown, *([f"[{more} more]"] if more else [])]) or None
