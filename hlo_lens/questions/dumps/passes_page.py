"""Page of ``hlo-lens passes``: changes of a subject over the passes of the compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.dumps.pass_track import (
    ALIAS,
    COLLECTIVE,
    NAME,
    OPCODE,
    TEMP,
    PassChange,
    PassTrack,
    tracked_stages,
)
from hlo_lens.render.envelope import ModulePage
from hlo_lens.render.result import Unit
from hlo_lens.render.table import Section, Table
from hlo_lens.text.units import format_bytes, format_count, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump

_NAMES_SHOWN = 4


def passes_page(dump: ModuleDump, tracks: Sequence[PassTrack]) -> ModulePage:
    """Return the page on the subjects tracked in one module."""
    return ModulePage(
        sections=tuple(_section(dump, track) for track in tracks),
        make_object=lambda: {
            "name": dump.name,
            "left_out": _left_out(dump),
            "tracks": [_object(track) for track in tracks],
        },
    )


def _object(track: PassTrack) -> Mapping[str, object]:
    changes = [
        {**row, "nested": change.nested, "where": change.where}
        for row, change in zip(track.objects(), track.changes, strict=True)
    ]
    by_change = dict(zip(track.changes, changes, strict=True))
    return {
        "track": track.subject.text,
        "tracked": track.subject.kind,
        "unit": track.subject.unit.value,
        "counts": [
            {"stage": stage, "count": count}
            for stage, count in zip(track.stages, track.counts, strict=True)
        ],
        "appears": None if track.appears is None else by_change[track.appears],
        "disappears": None if track.disappears is None else by_change[track.disappears],
        "changes": changes,
    }


def _section(dump: ModuleDump, track: PassTrack) -> Section:
    counts = [count for count in track.counts if count is not None]
    return Section(
        title=f"{dump.name}: {track.subject.text}",
        facts=tuple(_facts(track, counts)),
        tables=(_table(track),) if track.changes else (),
        notes=(*_notes(track), *_left_out_note(dump)),
    )


def _left_out(dump: ModuleDump) -> list[str]:
    """Return the stages with HLO text that are not tracked."""
    tracked = {stage.name for stage in tracked_stages(dump)}
    return [stage.name for stage in dump.stages if stage.is_hlo and stage.name not in tracked]


def _left_out_note(dump: ModuleDump) -> Iterator[str]:
    last = ("_before_buffer_assignment", "_after_buffer_assignment")  # the final text once more
    names = [name for name in _left_out(dump) if not name.endswith((*last, "after_codegen"))]
    if names:
        yield f"left out, because their names show no place among the passes: {', '.join(names)}"


def _table(track: PassTrack) -> Table:
    """Return the table of changes, in bytes where the subject is counted in bytes."""
    shown = ["text", "pipeline", "after", "before_count", "after_count", "change"]
    if track.subject.kind != TEMP:
        shown += ["added", "removed"]
    columns = tuple(
        replace(column, unit=track.subject.unit) if column.unit is Unit.COUNT else column
        for column in track.COLUMNS
    )
    return replace(Table.of(track, title="Where it changes", shown=shown), columns=columns)


_WHAT = {
    COLLECTIVE: "logical collectives of this kind",
    OPCODE: "instructions with this opcode",
    TEMP: "bytes of temporaries, estimated",
    ALIAS: "outputs that are the memory of a parameter",
    NAME: "instructions and computations with this name",
}


def _facts(track: PassTrack, counts: Sequence[int]) -> Iterator[tuple[str, str]]:
    passes = sum(stage[:4].isdecimal() for stage in track.stages)
    yield "tracked", f"{_WHAT[track.subject.kind]}, over {plural(passes, 'text')} of passes"
    if not counts:
        yield "result", "not known: no text could be measured"
        return
    known = [
        f"{_amount(track, count)} in {stage}"
        for stage, count in zip(track.stages, track.counts, strict=True)
        if count is not None
    ]
    yield "from, to", f"{known[0]}, {known[-1]}"
    if track.appears is not None:
        yield "appears", _change(track, track.appears, track.appears.added)
    elif counts[0] and track.subject.kind != TEMP:
        yield "appears", "present from the start"
    if track.disappears is not None:
        gone = _change(track, track.disappears, track.disappears.removed)
        later = track.changes[track.changes.index(track.disappears) + 1 :]
        back = next((change for change in later if change.after_count), None)
        again = "" if back is None else f"; present again {back.where}"
        yield "disappears", f"{gone}{again}"
    if track.subject.kind == TEMP and track.changes:
        largest = max(track.changes, key=_growth)
        if _growth(largest) > 0:
            yield "most growth", _change(track, largest, ())
    if not track.changes:
        yield "changes", "none"


def _growth(change: PassChange) -> int:
    return (change.after_count or 0) - (change.before_count or 0)


def _change(track: PassTrack, change: PassChange, names: Sequence[str]) -> str:
    amounts = " -> ".join(_amount(track, n) for n in (change.before_count, change.after_count))
    what = f": {listed(names, _NAMES_SHOWN)}" if names else ""
    return f"{change.where} ({amounts}, {change.stage.partition('.')[0]}){what}"


def _amount(track: PassTrack, count: int | None) -> str:
    if count is None:
        return "?"
    return format_bytes(count) if track.subject.unit is Unit.BYTES else format_count(count)


def _notes(track: PassTrack) -> Iterator[str]:
    unread = sum(one is None for one in track.measures)
    if unread:
        yield f"{plural(unread, 'text')} could not be read"
    unknown = sum(one is not None and one.count is None for one in track.measures)
    if unknown:
        yield f"unknown in {plural(unknown, 'text')}"
    if track.subject.kind == TEMP:
        yield "before scheduling, estimated as if the program ran in the order of the text"
