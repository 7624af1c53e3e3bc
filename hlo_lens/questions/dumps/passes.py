"""Compiler passes in which something appears, changes or disappears.

XLA writes the text after each pass that changed the module (``--xla_dump_hlo_pass_re=.*``). The
pass in the name of the later of two texts made the change between them. Passes may run nested
pipelines: a change at the start of one (``after_pipeline-start``) was made by the pass around it,
which is the pass in the name of the next text of the outer pipeline.

The examined texts are the one before optimizations, those of the passes by number, and the final
one; others have names that do not show the passes around them. Collectives are counted as by
``hlo-lens collectives``, of other asynchronous pairs only the start. Temporaries of a text without
a schedule are estimated in the order of the text, which shows changes and not the final amount.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, OPCODES, opcode_traits
from hlo_lens.load.programs import map_modules
from hlo_lens.program.summary import backend_of_dump, instruction_table, no_hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.estimate import memory_estimate
from hlo_lens.render.result import Records, Unit, format_cell
from hlo_lens.render.table import Section, Table
from hlo_lens.render.to_json import ModulePage
from hlo_lens.text.dump_kinds import AFTER, BEFORE, TEXT_FLAGS
from hlo_lens.text.errors import MissingDumpError, UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump, Stage
    from hlo_lens.load.programs import Progress


_TRACKED = {
    "collective": "logical collectives of this kind",
    "opcode": "instructions with this opcode",
    "temp": "bytes of temporaries, estimated",
    "alias": "outputs that are the memory of a parameter",
    "name": "instructions and computations with this name",
}


def kind_of(subject: str) -> str:
    """Return what a word of the user names: a key of `_TRACKED`."""
    if subject in ("temp", "alias"):
        return subject
    if subject in COLLECTIVE_KINDS:
        return "collective"
    return "opcode" if subject in OPCODES else "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassChange:
    """A change between two consecutive texts; other fields are columns of `PassTrack`.

    Attributes:
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
        if self.pipeline is None:
            return f"between the last pass and {self.stage}"
        if self.after == "pipeline-start":
            return f"before pipeline {self.pipeline} began"
        nested = f", before its pipeline {self.nested}" if self.nested else ""
        return f"by {self.after} in pipeline {self.pipeline}{nested}"


@dataclass(frozen=True, kw_only=True)
class PassTrack(Records[PassChange]):
    """Changes of a subject during compilation.

    `counts` are items or bytes of it in each examined text, None if not known.
    """

    KIND: ClassVar[str] = "passes"
    changes: tuple[PassChange, ...]
    subject: str
    stages: tuple[str, ...]
    counts: tuple[int | None, ...]
    unread: int

    @property
    def unit(self) -> Unit:
        return Unit.BYTES if self.subject == "temp" else Unit.COUNT

    @property
    def appears(self) -> PassChange | None:
        return next((c for c in self.changes if c.before_count == 0 and c.after_count), None)

    @property
    def disappears(self) -> PassChange | None:
        return next((c for c in self.changes if c.before_count and c.after_count == 0), None)


# ---- facts --------------------------------------------------------------------------------------


def modules_with_passes(modules: Sequence[ModuleDump]) -> list[ModuleDump]:
    """Return the modules that have texts of passes, whole modules rather than parts.

    Raises:
        MissingDumpError: If there are none; the message names the flag.
    """
    with_passes = [m for m in modules if any(s.pass_number is not None for s in m.stages)]
    whole = [m for m in with_passes if any(s.pass_number is None for s in m.stages)]
    if not with_passes and modules and all(module.module_text is None for module in modules):
        raise MissingDumpError(f"{modules[0].name}: {no_hlo_text(modules[0])}")
    if not with_passes:
        raise MissingDumpError(
            "no texts of single passes in this dump; compile again with "
            f'XLA_FLAGS="{TEXT_FLAGS} --xla_dump_hlo_pass_re=.*"'
        )
    return whole or with_passes


def tracked_stages(module: ModuleDump) -> list[Stage]:
    """Return the examined texts of a module: the first one, those of passes, and the final one."""
    stages = [stage for stage in module.stages if stage.is_hlo]
    return [
        *(stage for stage in stages if stage.name == BEFORE),
        *(stage for stage in stages if stage.pass_number is not None),
        *[stage for stage in stages if stage.name.endswith(AFTER)][-1:],
    ]


_Measure = tuple["int | None", tuple[str, ...]]
"""Number of items or bytes in a text, None if not known; names of the items that have names."""


def track(
    module: ModuleDump, subjects: Sequence[str], *, progress: Progress | None = None
) -> tuple[PassTrack, ...]:
    """Return the changes of each subject over the texts of a module, which are read on all cores.

    Raises:
        UnknownNameError: If a name is in no text.
    """
    stages = tracked_stages(module)
    dumps = [stage.dump.get() or module for stage in stages]
    measure = partial(_measures, subjects=tuple(subjects), backend=backend_of_dump(module))
    by_text = map_modules(measure, dumps, progress=progress)
    tracks = []
    for place, subject in enumerate(subjects):
        measures = [None if one is None else one[place] for one in by_text]
        if kind_of(subject) == "name" and not any(one is not None and one[0] for one in measures):
            texts = [dump.hlo for dump in (dumps[0], dumps[-1]) if dump.hlo is not None]
            names = {instruction.name for text in texts for instruction in text.instructions}
            raise UnknownNameError(
                f"{module.name}: {subject} is in no text: it is neither temp, alias, a collective "
                "or other opcode, nor the name of an instruction"
                f"{did_you_mean(subject, sorted(names))}"
            )
        read = [(s.name, m) for s, m in zip(stages, measures, strict=True) if m is not None]
        tracks.append(
            PassTrack(
                changes=tuple(_changes(read)),
                subject=subject,
                stages=tuple(stage.name for stage in stages),
                counts=tuple(None if one is None else one[0] for one in measures),
                unread=measures.count(None),
            )
        )
    return tuple(tracks)


def _measures(
    dump: ModuleDump, subjects: Sequence[str], backend: str | None
) -> list[_Measure] | None:
    module = dump.hlo
    if module is None or not module.computations:
        return None

    def measure(subject: str) -> _Measure:
        kind = kind_of(subject)
        if kind == "temp":
            estimate = memory_estimate(instruction_table(dump), backend=backend, in_text_order=True)
            return None if estimate is None else estimate.temp_bytes, ()
        if kind == "collective":
            names = [one.name for one in collectives(dump).collectives if one.kind == subject]
        elif kind == "opcode":
            names = []
            for one in module.instructions:
                traits = opcode_traits(one.opcode)
                if one.opcode == subject or (traits.base, traits.phase) == (subject, "start"):
                    names.append(one.name)
        elif kind == "alias":
            names = [
                f"{{{','.join(map(str, alias.output_index))}}}=parameter {alias.parameter_number}"
                for alias in module.input_output_alias
            ]
        else:
            named = filter(None, (c.instruction(subject) for c in module.computations))
            names = [f"{one.opcode} {one.shape_text} in {one.computation.name}" for one in named]
            names += ["computation"] * (module.computation(subject) is not None)
        return len(names), tuple(names)

    return [measure(subject) for subject in subjects]


def _changes(texts: Sequence[tuple[str, _Measure]]) -> Iterator[PassChange]:
    names = [stage for stage, _ in texts]
    for place, ((_, (before, old)), (stage, (after, new))) in enumerate(pairwise(texts), start=1):
        if before == after:
            continue
        pipeline, made_by = pass_of(stage)
        around = _pass_around(names, place) if made_by == "pipeline-start" else None
        yield PassChange(
            text="final" if pipeline is None else stage.partition(".")[0],
            stage=stage,
            pipeline=pipeline if around is None else around[0],
            after=made_by if around is None else around[1],
            nested=None if around is None else pipeline,
            before_count=before,
            after_count=after,
            change=None if before is None or after is None else after - before,
            added=tuple(name for name in new if name not in set(old)),
            removed=tuple(name for name in old if name not in set(new)),
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
            return None if after in ("pipeline-start", nested, None) else (outer, after or "")
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
    pipeline, after, passes = rest.partition(".after_")
    if not after:
        pipeline, _, passes = rest.partition(".")
    return pipeline, passes.partition(".before_")[0]


# ---- page ---------------------------------------------------------------------------------------


def pages(
    modules: Sequence[ModuleDump], words: Sequence[str], *, progress: Progress | None = None
) -> Iterator[ModulePage]:
    """Yield a page for each module with texts of passes, on the subjects that words name.

    Raises:
        MissingDumpError: If no module has texts of passes.
        UnknownNameError: If a name is in no text.
    """
    subjects = [*dict.fromkeys(word.removeprefix("%") for word in words)]
    for module in modules_with_passes(modules):
        tracks = track(module, subjects, progress=progress)
        yield ModulePage(
            sections=tuple(_section(module, track) for track in tracks),
            make_object=partial(_object, module, tracks),
        )


def _object(module: ModuleDump, tracks: Sequence[PassTrack]) -> Mapping[str, object]:
    def track_object(track: PassTrack) -> Mapping[str, object]:
        changes = [
            {**row, "nested": change.nested, "where": change.where}
            for row, change in zip(track.objects(), track.changes, strict=True)
        ]
        ends = {"appears": track.appears, "disappears": track.disappears}
        pairs = zip(track.stages, track.counts, strict=True)
        return {
            "track": track.subject,
            "tracked": kind_of(track.subject),
            "unit": track.unit.value,
            "counts": [{"stage": stage, "count": count} for stage, count in pairs],
            **{key: one and changes[track.changes.index(one)] for key, one in ends.items()},
            "changes": changes,
        }

    return {"name": module.name, "tracks": [*map(track_object, tracks)]}


def _section(module: ModuleDump, track: PassTrack) -> Section:
    shown = ("text", "pipeline", "after", "before_count", "after_count", "change")
    names = () if track.subject == "temp" else ("added", "removed")
    table = Table.of(track, title="Where it changes", shown=(*shown, *names))
    columns = tuple(
        replace(column, unit=track.unit) if column.unit is Unit.COUNT else column
        for column in table.columns
    )
    unread = f"{plural(track.unread, 'text')} could not be read"
    estimated = "before scheduling, estimated as if the program ran in the order of the text"
    return Section(
        title=f"{module.name}: {track.subject}",
        facts=tuple(_facts(track)),
        tables=(replace(table, columns=columns),) if track.changes else (),
        notes=(*[unread] * bool(track.unread), *[estimated] * (track.subject == "temp")),
    )


def _facts(track: PassTrack) -> Iterator[tuple[str, str]]:
    passes = sum(stage[:4].isdecimal() for stage in track.stages)
    yield "tracked", f"{_TRACKED[kind_of(track.subject)]}, over {plural(passes, 'text')} of passes"
    pairs = zip(track.counts, track.stages, strict=True)
    counted = [
        (format_cell(count, track.unit), stage) for count, stage in pairs if count is not None
    ]
    if not counted:
        yield "result", "not known: no text could be measured"
        return
    yield "from, to", ", ".join(f"{count} in {stage}" for count, stage in (counted[0], counted[-1]))
    for label, change in (("appears", track.appears), ("disappears", track.disappears)):
        if change is not None:
            names = change.added if label == "appears" else change.removed
            later = track.changes[track.changes.index(change) + 1 :]
            back = next((one for one in later if one.after_count), None)
            again = f"; present again {back.where}" if back and label == "disappears" else ""
            counts = (format_cell(n, track.unit) for n in (change.before_count, change.after_count))
            number = change.stage.partition(".")[0]
            what = f": {listed(names, 4)}" if names else ""
            yield label, f"{change.where} ({' -> '.join(counts)}, {number}){what}{again}"
    if not track.changes:
        yield "changes", "none"
