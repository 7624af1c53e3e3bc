"""Compiler passes in which something appears, changes or disappears.

XLA writes the text after each pass that changed the module (``--xla_dump_hlo_pass_re=.*``). The
pass in the name of the later of two texts made the change between them. Passes may run nested
pipelines: a change at the start of one (``after_pipeline-start``) was made by the pass around it,
which is the pass in the name of the next text of the outer pipeline.

The examined texts are the one before optimizations, those of the passes by number, and the final
one. Texts that XLA writes at fixed places (after the partitioner, around buffer assignment) are
skipped, since their names do not show the passes around them.

Subjects:

- a kind of collective: logical operations, counted as by ``hlo-lens collectives``;
- an opcode, such as copy: instructions in all computations; of an asynchronous pair only the start;
- temp: estimated bytes of temporaries; of a text without a schedule in the order of the text, which
  shows changes and not the final amount;
- alias: entries of ``input_output_alias``, outputs in the memory of a parameter;
- a name: instructions and computations of this name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, OPCODES, opcode_traits
from hlo_lens.load.workers import map_modules
from hlo_lens.program.summary import backend_of_dump, instruction_table, no_hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.estimate import memory_estimate
from hlo_lens.render.envelope import ModulePage, report_of_pages
from hlo_lens.render.result import Records, Unit
from hlo_lens.render.table import Section, Table
from hlo_lens.text.dump_kinds import AFTER, BEFORE, TEXT_FLAGS
from hlo_lens.text.errors import MissingDumpError, UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import format_bytes, format_count, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump, Stage
    from hlo_lens.load.programs import Progress
    from hlo_lens.render.table import Report


TEMP = "temp"
ALIAS = "alias"
COLLECTIVE = "collective"
OPCODE = "opcode"
NAME = "name"

_START = "pipeline-start"


@dataclass(frozen=True, slots=True)
class Subject:
    """A thing to track.

    Attributes:
        text: Text of the user, without ``%``.
        kind: ``collective``, ``opcode``, ``temp``, ``alias`` or ``name``.
    """

    text: str
    kind: str

    @property
    def unit(self) -> Unit:
        """Unit of its count."""
        return Unit.BYTES if self.kind == TEMP else Unit.COUNT


def subject_of(text: str) -> Subject:
    """Return the subject that a word of the user names."""
    text = text.removeprefix("%")
    if text in (TEMP, ALIAS):
        return Subject(text, text)
    if text in COLLECTIVE_KINDS:
        return Subject(text, COLLECTIVE)
    return Subject(text, OPCODE if text in OPCODES else NAME)


@dataclass(frozen=True, slots=True)
class Measure:
    """Count of a subject in one text.

    Attributes:
        count: Number of items or bytes; None if not known.
        items: Names of the counted items, if they have names.
        op_name: Operation path of a tracked name.
    """

    count: int | None
    items: tuple[str, ...] = ()
    op_name: str | None = None


def measure(
    dump: ModuleDump, subjects: Sequence[Subject], backend: str | None
) -> tuple[Measure, ...] | None:
    """Return the measure of each subject in the text of one stage; None if it cannot be read."""
    module = dump.hlo
    if module is None or not module.computations:
        return None
    return tuple(_measured(dump, module, subject, backend) for subject in subjects)


def _measured(
    dump: ModuleDump, module: HloModule, subject: Subject, backend: str | None
) -> Measure:
    if subject.kind == COLLECTIVE:
        found = collectives(dump).collectives
        names = [one.name for one in found if one.kind == subject.text]
        return Measure(len(names), tuple(names))
    if subject.kind == OPCODE:
        names = [one.name for one in module.instructions if _performs(one.opcode, subject.text)]
        return Measure(len(names), tuple(names))
    if subject.kind == ALIAS:
        pairs = tuple(
            f"{{{','.join(map(str, alias.output_index))}}}=parameter {alias.parameter_number}"
            for alias in module.input_output_alias
        )
        return Measure(len(pairs), pairs)
    if subject.kind == TEMP:
        estimate = memory_estimate(instruction_table(dump), backend=backend, in_text_order=True)
        return Measure(None if estimate is None else estimate.temp_bytes)
    return _named(module, subject.text)


def _performs(opcode: str, wanted: str) -> bool:
    traits = opcode_traits(opcode)
    return opcode == wanted or (traits.base == wanted and traits.phase == "start")


def _named(module: HloModule, name: str) -> Measure:
    found = [c.instruction(name) for c in module.computations]
    there = [instruction for instruction in found if instruction is not None]
    items = [f"{one.opcode} {one.shape_text} in {one.computation.name}" for one in there]
    if module.computation(name) is not None:
        items.append("computation")
    return Measure(len(items), tuple(items), op_name=there[0].op_name if there else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassChange:
    """A change between two consecutive texts; other fields are columns of `PassTrack`.

    Attributes:
        stage: Name of the later text.
        after: The pass that made it; ``pipeline-start`` if the pass around the pipeline is not
            known, None for a text of no pass.
        nested: The nested pipeline of the pass before which it was made, if any.
    """

    text: Annotated[str, "number of the text"]
    pipeline: Annotated[str | None, "pipeline of passes"]
    after: Annotated[str | None, "pass that made the change"]
    before_count: Annotated[int | None, Unit.COUNT, "count before it"]
    after_count: Annotated[int | None, Unit.COUNT, "count after it"]
    change: Annotated[int | None, Unit.COUNT, "the difference"]
    added: Annotated[tuple[str, ...], "names that are new"]
    removed: Annotated[tuple[str, ...], "names that are gone"]
    stage: Annotated[str, "name of the text"]
    nested: str | None

    @property
    def where(self) -> str:
        """The pass as text."""
        if self.pipeline is None:
            return f"between the last pass and {self.stage}"
        if self.after == _START:
            return f"before pipeline {self.pipeline} began"
        nested = f", before its pipeline {self.nested}" if self.nested else ""
        return f"by {self.after} in pipeline {self.pipeline}{nested}"


@dataclass(frozen=True, kw_only=True)
class PassTrack(Records[PassChange]):
    """Changes of a subject during compilation.

    Attributes:
        subject: The tracked subject.
        stages: Names of the examined texts, in order.
        measures: Measure of each; None for a text that could not be read.
        changes: Changes, in order.
    """

    KIND: ClassVar[str] = "passes"
    changes: tuple[PassChange, ...]
    subject: Subject
    stages: tuple[str, ...]
    measures: tuple[Measure | None, ...]

    @property
    def counts(self) -> list[int | None]:
        """Count in each text."""
        return [None if one is None else one.count for one in self.measures]

    @property
    def appears(self) -> PassChange | None:
        """The first change from none to some, or None."""
        return next((c for c in self.changes if c.before_count == 0 and c.after_count), None)

    @property
    def disappears(self) -> PassChange | None:
        """The first change from some to none, or None."""
        return next((c for c in self.changes if c.before_count and c.after_count == 0), None)


def tracked_stages(dump: ModuleDump) -> list[Stage]:
    """Return the examined texts of a module: the first one, those of passes, and the final one."""
    stages = [stage for stage in dump.stages if stage.is_hlo]
    first = [stage for stage in stages if stage.name == BEFORE]
    passes = [stage for stage in stages if stage.pass_number is not None]
    last = [stage for stage in stages if stage.name.endswith(AFTER)]
    return [*first, *passes, *last[-1:]]


def pass_track(
    subject: Subject, stages: Sequence[Stage], measures: Sequence[Measure | None]
) -> PassTrack:
    """Return the changes of a subject over the texts of a module.

    Args:
        subject: The measured subject.
        stages: The texts, in order.
        measures: Measure of each; texts without one are skipped.
    """
    changes = []
    known = [(s.name, m) for s, m in zip(stages, measures, strict=True) if m is not None]
    names = [name for name, _ in known]
    for place, ((_, old), (stage, new)) in enumerate(pairwise(known)):
        if old.count == new.count:
            continue
        pipeline, after = pass_of(stage)
        around = _pass_around(names, place + 1) if after == _START else None
        changes.append(
            PassChange(
                text="final" if pipeline is None else stage.partition(".")[0],
                stage=stage,
                pipeline=pipeline if around is None else around[0],
                after=after if around is None else around[1],
                nested=None if around is None else pipeline,
                before_count=old.count,
                after_count=new.count,
                change=None if old.count is None or new.count is None else new.count - old.count,
                added=tuple(name for name in new.items if name not in set(old.items)),
                removed=tuple(name for name in old.items if name not in set(new.items)),
            )
        )
    return PassTrack(
        subject=subject,
        stages=tuple(stage.name for stage in stages),
        measures=tuple(measures),
        changes=tuple(changes),
    )


def _pass_around(names: Sequence[str], place: int) -> tuple[str, str] | None:
    """Return pipeline and pass that run a nested pipeline; None if no text shows them.

    It is the pass in the name of the outer pipeline's next text, unless that pipeline starts again
    before.
    """
    outer, nested = pass_of(names[place - 1])[0], pass_of(names[place])[0]
    if outer is None or outer == nested:
        return None
    for name in names[place + 1 :]:
        pipeline, after = pass_of(name)
        if pipeline == outer:
            return None if after in (_START, nested, None) else (outer, after or "")
    return None


def pass_of(stage: str) -> tuple[str | None, str | None]:
    """Return pipeline and pass of a text; None for a text of no pass.

    >>> pass_of("0009.spmd-partitioner.after_spmd-partitioning.before_dce")
    ('spmd-partitioner', 'spmd-partitioning')
    >>> pass_of("0054.copy-insertion.after_removing_unnecessary_copies")
    ('copy-insertion', 'removing_unnecessary_copies')
    """
    number, _, rest = stage.partition(".")
    if not number.isdecimal():
        return None, None
    pipeline, found, passes = rest.partition(".after_")
    if not found:
        pipeline, _, passes = rest.partition(".")
    return pipeline, passes.partition(".before_")[0]


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


_PASSES_NAMES_SHOWN = 8
_FLAG = f"{TEXT_FLAGS} --xla_dump_hlo_pass_re=.*"


def passes_report(
    modules: Sequence[ModuleDump], words: Sequence[str], *, progress: Progress | None = None
) -> Report:
    """Return the report on the pass after which each subject appears or disappears.

    Args:
        modules: Modules; those without texts of passes are left out.
        words: Subjects: a kind of collective, an opcode, ``temp``, ``alias``, or the name of an
            instruction.
        progress: Called with texts done and texts in all, for each module.

    Raises:
        MissingDumpError: If no module has texts of passes.
        UnknownNameError: If a name is in no text.
    """
    subjects = [subject_of(word) for word in dict.fromkeys(words)]
    pages = (
        passes_page(module, track(module, subjects, progress=progress))
        for module in modules_with_passes(modules)
    )
    return report_of_pages("passes", pages)


def modules_with_passes(modules: Sequence[ModuleDump]) -> list[ModuleDump]:
    """Return the modules that have texts of passes, whole modules rather than parts.

    Raises:
        MissingDumpError: If there are none; the message names the flag.
    """
    found = [m for m in modules if any(stage.pass_number is not None for stage in m.stages)]
    whole = [m for m in found if any(stage.pass_number is None for stage in m.stages)]
    if not found and modules and all(module.module_text is None for module in modules):
        raise MissingDumpError(f"{modules[0].name}: {no_hlo_text(modules[0])}")
    if not found:
        names = sorted({stage.name for module in modules for stage in module.stages})
        there = (
            f"there is {listed(names, _PASSES_NAMES_SHOWN)}" if names else "its names show no stage"
        )
        raise MissingDumpError(
            f"no texts of single passes in this dump ({there}); compile again with "
            f'XLA_FLAGS="{_FLAG}"'
        )
    return whole or found


def track(
    module: ModuleDump, subjects: Sequence[Subject], *, progress: Progress | None = None
) -> tuple[PassTrack, ...]:
    """Return the changes of each subject over the texts of a module.

    Raises:
        UnknownNameError: If a name is in no text.
    """
    stages = tracked_stages(module)
    dumps = [stage.dump.get() or module for stage in stages]
    function = partial(measure, subjects=tuple(subjects), backend=backend_of_dump(module))
    found = map_modules(function, dumps, progress=progress)
    tracks = []
    for place, subject in enumerate(subjects):
        measures = [None if one is None else one[place] for one in found]
        if subject.kind == NAME and not any(one is not None and one.count for one in measures):
            raise _unknown(subject, module, dumps)
        tracks.append(pass_track(subject, stages, measures))
    return tuple(tracks)


def _unknown(subject: Subject, module: ModuleDump, dumps: Sequence[ModuleDump]) -> UnknownNameError:
    names = {
        instruction.name
        for dump in (dumps[0], dumps[-1])
        if dump.hlo is not None
        for instruction in dump.hlo.instructions
    }
    hint = did_you_mean(subject.text, sorted(names))
    return UnknownNameError(
        f"{module.name}: {subject.text} is in no text: it is neither temp, alias, a collective or "
        f"other opcode, nor the name of an instruction{hint}"
    )
