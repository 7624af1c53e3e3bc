"""In which pass of the compiler something appears, changes or disappears.

XLA writes the text after each pass that changed the module (``--xla_dump_hlo_pass_re=.*``). A
change between two texts is the work of the pass that the later one is named after. Passes may run
pipelines of their own: where such a pipeline begins (``after_pipeline-start``) with something that
was not there in the text before, the pass around it did it, and that is the one that the next text
of the outer pipeline is named after.

Looked at are the text from before optimizations, those of the passes by number, and the final one;
the texts that XLA writes at fixed places (after the partitioner, around buffer assignment) stand
between passes that their names do not tell, and are left out.

What is tracked:

- a kind of collective: logical operations, however they are wrapped, as
  ``hlo-lens collectives`` counts them;
- an opcode, such as copy: instructions in all computations, a start counts and its end does not;
- temp: bytes of temporaries, estimated; where a text is not scheduled yet, as if it ran in the
  order of the text, which tells of changes and not of the final amount;
- alias: entries of ``input_output_alias``, outputs that are the memory of a parameter;
- a name: whether an instruction (or computation) is called so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.collectives.collectives import collectives
from hlo_lens.analysis.memory.estimate import memory_estimate
from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS, OPCODES, opcode_traits
from hlo_lens.model.hlo.query import tabulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.dump import ModuleDump, Stage
    from hlo_lens.model.hlo.module import HloModule

TEMP = "temp"
ALIAS = "alias"
COLLECTIVE = "collective"
OPCODE = "opcode"
NAME = "name"

_START = "pipeline-start"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tracked.

    Attributes:
        text: As the user wrote it, without ``%``.
        kind: ``collective``, ``opcode``, ``temp``, ``alias`` or ``name``.
    """

    text: str
    kind: str

    @property
    def unit(self) -> Unit:
        """What is counted."""
        return Unit.BYTES if self.kind == TEMP else Unit.COUNT


def subject_of(text: str) -> Subject:
    """Return what a word of a user asks for."""
    text = text.removeprefix("%")
    if text in (TEMP, ALIAS):
        return Subject(text, text)
    if text in COLLECTIVE_KINDS:
        return Subject(text, COLLECTIVE)
    return Subject(text, OPCODE if text in OPCODES else NAME)


@dataclass(frozen=True, slots=True)
class Measure:
    """What one text has of a subject.

    Attributes:
        count: How many, or how many bytes; None where it is not known.
        items: The names of what is counted, where it has names.
        op_name: Of a tracked name: the scope path of the framework that it has.
    """

    count: int | None
    items: tuple[str, ...] = ()
    op_name: str | None = None


def measure(
    dump: ModuleDump, subjects: Sequence[Subject], backend: str | None
) -> tuple[Measure, ...] | None:
    """Return what the text of one stage has of each subject; None where it cannot be read."""
    module = dump.hlo
    if module is None or not module.computations:
        return None
    return tuple(_measured(module, subject, backend) for subject in subjects)


def _measured(module: HloModule, subject: Subject, backend: str | None) -> Measure:
    if subject.kind == COLLECTIVE:
        found = collectives(tabulate(module)).collectives
        names = [one.name for one in found if one.kind == subject.text]
        return Measure(len(names), tuple(names))
    if subject.kind == OPCODE:
        names = [
            instruction.name
            for instruction in module.instructions
            if _performs(instruction.opcode, subject.text)
        ]
        return Measure(len(names), tuple(names))
    if subject.kind == ALIAS:
        pairs = tuple(
            f"{{{','.join(map(str, alias.output_index))}}}=parameter {alias.parameter_number}"
            for alias in module.input_output_alias
        )
        return Measure(len(pairs), pairs)
    if subject.kind == TEMP:
        estimate = memory_estimate(tabulate(module), backend=backend, in_text_order=True)
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
    metadata = there[0].metadata if there else None
    return Measure(len(items), tuple(items), op_name=None if metadata is None else metadata.op_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassChange:
    """A change between two texts that follow each other.

    Attributes:
        stage: Name of the later text.
        pipeline: Pipeline of the pass; None for a text of no pass.
        after: The pass that did it; ``pipeline-start`` where no pass around the pipeline is known,
            None for a text of no pass.
        nested: The pipeline inside the pass before which it was done; None for none.
        before_count: What the earlier text has.
        after_count: What the later one has.
        added: Names that only the later one has.
        removed: Names that only the earlier one has.
    """

    stage: str
    pipeline: str | None
    after: str | None
    before_count: int | None
    after_count: int | None
    nested: str | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The pass in words."""
        if self.pipeline is None:
            return f"between the last pass and {self.stage}"
        if self.after == _START:
            return f"before pipeline {self.pipeline} began"
        nested = f", before its pipeline {self.nested}" if self.nested else ""
        return f"by {self.after} in pipeline {self.pipeline}{nested}"


@dataclass(frozen=True, kw_only=True)
class PassTrack(Result):
    """How something changed on its way through the compiler.

    Attributes:
        subject: What was tracked.
        stages: Names of the texts that were looked at, in order.
        measures: What each has of it; None for one that could not be read.
        changes: Where it changed, in order.
    """

    KIND: ClassVar[str] = "passes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("text", Unit.NONE, "number of the text"),
        Column("pipeline", Unit.NONE, "pipeline of passes"),
        Column("after", Unit.NONE, "the pass that did it"),
        Column("before_count", Unit.COUNT, "what there was before"),
        Column("after_count", Unit.COUNT, "what there is after it"),
        Column("change", Unit.COUNT, "the difference"),
        Column("added", Unit.NONE, "names that are new"),
        Column("removed", Unit.NONE, "names that are gone"),
        Column("stage", Unit.NONE, "name of the text"),
    )
    subject: Subject
    stages: tuple[str, ...]
    measures: tuple[Measure | None, ...]
    changes: tuple[PassChange, ...]

    @property
    def counts(self) -> list[int | None]:
        """What each text has."""
        return [None if one is None else one.count for one in self.measures]

    @property
    def appears(self) -> PassChange | None:
        """The first change from none to some; None where there is none."""
        return next((c for c in self.changes if c.before_count == 0 and c.after_count), None)

    @property
    def disappears(self) -> PassChange | None:
        """The first change from some to none; None where there is none."""
        return next((c for c in self.changes if c.before_count and c.after_count == 0), None)

    def rows(self) -> Iterator[Row]:
        """Yield the changes."""
        for c in self.changes:
            known = c.before_count is not None and c.after_count is not None
            change = (c.after_count or 0) - (c.before_count or 0) if known else None
            number = c.stage.partition(".")[0] if c.pipeline is not None else "final"
            yield (
                number,
                c.pipeline,
                c.after,
                c.before_count,
                c.after_count,
                change,
                c.added,
                c.removed,
                c.stage,
            )


def tracked_stages(dump: ModuleDump) -> list[Stage]:
    """Return the texts of a module that are looked at: first, those of passes, and final."""
    stages = [stage for stage in dump.stages if stage.is_hlo]
    first = [stage for stage in stages if stage.name == "before_optimizations"]
    passes = [stage for stage in stages if stage.pass_number is not None]
    last = [stage for stage in stages if stage.name.endswith("after_optimizations")]
    return [*first, *passes, *last[-1:]]


def pass_track(
    subject: Subject, stages: Sequence[Stage], measures: Sequence[Measure | None]
) -> PassTrack:
    """Return how a subject changed over the texts of a module.

    Args:
        subject: What was measured.
        stages: The texts, in order.
        measures: What each has; one that could not be read is passed over.
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
                stage=stage,
                pipeline=pipeline if around is None else around[0],
                after=after if around is None else around[1],
                nested=None if around is None else pipeline,
                before_count=old.count,
                after_count=new.count,
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
    """Return pipeline and pass in which a pipeline begins; None where no text tells.

    That is the pass that the next text of the pipeline of the text before is named after, unless
    that pipeline begins anew first.
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
