"""What changed in a program, for people and for scripts: a part of ``hlo-lens diff``.

Module-wide changes of one kind (donations of many parameters) are one row, like equal edits of
instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program_diff.noise import Noise
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.report.render.table import Table
from hlo_lens.report.render.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.analysis.program_diff.difference import ProgramDiff
    from hlo_lens.analysis.program_diff.edits import Change
    from hlo_lens.analysis.result import Row

SHOWN = ("edit", "instructions", "opcode", "what", "where", "op_name", "source")
"""Columns of the table of edits that people see."""

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
    """Return label and text of the lines that say it all in short."""
    if diff.identical:
        text = f"no change: {plural(diff.unchanged, 'instruction')}"
    else:
        text = ", ".join(f"{format_count(count)} {kind}" for kind, count in _counts(diff).items())
    return (("program", text), *(("ignored", text) for text in [ignored_text(diff)] if text))


def program_diff_tables(diff: ProgramDiff) -> tuple[Table, ...]:
    """Return the tables of a difference: of the module, and of the instructions; none if empty."""
    tables = []
    module = tuple(_module_rows(diff))
    if module:
        tables.append(
            Table(
                name="module-diff",
                title="Module",
                columns=_MODULE_COLUMNS,
                read_rows=lambda: module,
                row_count=len(module),
            )
        )
    if diff.groups:
        tables.append(Table.of(diff, title="Program", shown=SHOWN, notes=tuple(_notes(diff))))
    return tuple(tables)


def program_diff_json(diff: ProgramDiff) -> Mapping[str, object]:
    """Return the object ``program`` of the JSON: counts of instructions, and what was ignored."""
    return {
        **_counts(diff),
        "identical": diff.identical,
        "left_out_base": diff.left_out_base,
        "left_out_head": diff.left_out_head,
        "unseen_literals": diff.unseen_literals,
        "ignored": {kind.value: count for kind, count in diff.ignored.items()},
        "module_changes": [_change(change) for change in diff.module_changes],
    }


def ignored_text(diff: ProgramDiff) -> str:
    """Return what was ignored, in words; empty for nothing.

    The numbers are instructions; of the order of computations it is computations.
    """
    return ", ".join(
        f"{kind.value} ({format_count(count)})" for kind, count in diff.ignored.items()
    )


def text_note(diff: ProgramDiff) -> str | None:
    """Return a note where programs are equal whose texts `hlo-lens ls` takes for different."""
    is_equal = diff.identical and not _OF_TEXTS.isdisjoint(diff.ignored)
    return TEXTS_DIFFER if is_equal else None


def _counts(diff: ProgramDiff) -> dict[str, int]:
    return {
        "unchanged": diff.unchanged,
        "changed": diff.changed,
        "added": diff.added,
        "removed": diff.removed,
        "moved": diff.moved,
    }


def _change(change: Change) -> Mapping[str, object]:
    return {"what": change.what, "base": change.base, "head": change.head}


def _module_rows(diff: ProgramDiff) -> Iterator[Row]:
    """Yield module-wide changes, those of one respect and direction as one."""
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
    """Return the first few of some texts, and how many others there are."""
    shown = [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 3]}..." for t in texts[:_NAMED]]
    more = len(texts) - len(shown)
    return "; ".join([*shown, *([f"[{more} more]"] if more else [])]) or None


def _notes(diff: ProgramDiff) -> Iterator[str]:
    if diff.unseen_literals:
        yield (
            f"{plural(diff.unseen_literals, 'constant')} of which a text leaves out the value: "
            "taken to be equal"
        )
