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

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, OPCODES, opcode_traits
from hlo_lens.program.summary import instruction_table
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.estimate import memory_estimate
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.dump_kinds import AFTER, BEFORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump, Stage

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
