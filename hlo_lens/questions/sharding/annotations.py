"""Sharding annotations inside a program: constraints, shard_map bodies, attributes.

Custom calls: ``Sharding`` (a constraint, of ``with_sharding_constraint``), ``SPMDFullToShardShape``
and ``SPMDShardToFullShape`` (into and out of shard_map, GSPMD), ``xla.sdy.GlobalToLocalShape`` and
``xla.sdy.LocalToGlobalShape`` (the same of Shardy), ``xla.sdy.FuncResultSharding`` (a result) and
the other targets of Shardy. Attributes: ``xla.sdy.sharding`` and the like, on instructions other
than the entry's parameters. Bodies of shard_map: computations whose shapes are those of one device.

The partitioner consumes them, so that only the text from before optimizations has them.

Sources: xla/service/spmd/shardy/constants.h, xla/service/spmd/custom_call_handler.cc, jax/_src/
shard_map.py, as of August 2026.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import END, OPERANDS_END, STRIDE
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import instruction_table
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.render.result import NOT_SAVED, Records, Unit
from hlo_lens.shapes.named_sharding import partition_spec_text
from hlo_lens.shapes.sharding import (
    IN_SHARDINGS,
    MANUAL_AXES,
    MANUAL_BODIES,
    MESHES,
    OUT_SHARDINGS,
    SHARDING,
    shardy_axes,
    shardy_meshes,
    shardy_shardings,
)
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.sharding import HloSharding


_TARGETS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
_SHARDY = "xla.sdy."
_TARGET_WORDS = ('target="Sharding"', 'target="SPMD', 'target="xla.sdy')
_BODIES = (*MANUAL_BODIES, "shmap_body")
_VALUES = (SHARDING, IN_SHARDINGS, OUT_SHARDINGS)

BODY = "shard_map body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One sharding annotation of a program.

    For a body, `instruction` is its call, if there is one, `computation` the body itself, and
    `shape` that of its result. Snapshots have a row for each value, and no names of instructions.
    """

    annotation: Annotated[str, "custom call target, attribute, or shard_map body"]
    instruction: Annotated[str, "instruction that has it"] = field(
        default="", compare=False, repr=False, metadata=NOT_SAVED
    )
    computation: Annotated[str, "computation that holds it"] = field(
        default="", compare=False, repr=False, metadata=NOT_SAVED
    )
    shape: Annotated[str | None, "shape of the instruction, as printed"]
    sharding: Annotated[str | None, "sharding as printed"]
    spec: Annotated[str | None, "the same as partition specs"]
    manual_axes: Annotated[str | None, "manual axes of a shard_map body"]
    source: Annotated[str | None, "source line, file:line"]
    op_name: Annotated[str | None, "operation path"]

    @property
    def global_shape(self) -> str | None:
        """The shape, which is that of the whole value."""
        return self.shape


@dataclass(frozen=True, kw_only=True)
class ShardingAnnotations(Records[Annotation]):
    """Annotations in text order."""

    KIND: ClassVar[str] = "sharding-annotations"
    annotations: tuple[Annotation, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of annotations of each kind, most frequent first."""
        found = Counter(annotation.annotation for annotation in self.annotations)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def sharding_annotations(table: InstructionTable, given: Mesh | None = None) -> ShardingAnnotations:
    """Return the annotations inside a module.

    Args:
        table: Instructions of the text from before optimizations, or of another that has any.
        given: Mesh named by the user.
    """
    module = table.module
    meshes = shardy_meshes(module.frontend_attributes.get(MESHES, ""))

    def spec_text(sharding: HloSharding | None) -> str | None:
        own = None if sharding is None or sharding.named is None else sharding.named.mesh
        mesh = given or own or next(iter(meshes.values()), None)
        spec = None if mesh is None or sharding is None else sharding.to_partition_spec(mesh)
        return None if spec is None else partition_spec_text(spec)

    @cache
    def specs(text: str, is_shardy: bool) -> str | None:
        """Return the specs of shardings; None where none of them has one."""
        try:
            if is_shardy:
                shardings: Sequence[HloSharding | None] = shardy_shardings(text, meshes)
            else:
                sharding = module.reader.sharding(text)
                shardings = sharding.elements or (sharding,)
        except DumpSyntaxError:
            return None
        texts = list(map(spec_text, shardings))
        return ", ".join(text or "?" for text in texts) if any(texts) else None

    found = [*_bodies(table)]
    for row in _rows(table):
        instruction = table.instruction(row)
        attributes, target = instruction.frontend_attributes, custom_call_target(instruction)
        names = [target]
        if target not in _TARGETS and not target.startswith(_SHARDY):
            is_input = table.opcodes[row] == "parameter" and instruction.computation.is_entry
            names = [] if is_input else [key for key in attributes if key.startswith(_SHARDY)]
        printed = instruction.attribute("sharding")
        text = next((attributes[key] for key in _VALUES if key in attributes), None)
        found += (
            Annotation(
                annotation=name,
                instruction=instruction.name,
                computation=instruction.computation.name,
                shape=_shape_text(instruction),
                sharding=printed or text or attributes.get(name),
                spec=(specs(text, True) if text else None)
                or (specs(printed, False) if printed else None),
                manual_axes=_manual_axes(instruction),
                source=instruction.source,
                op_name=instruction.op_name,
            )
            for name in names
        )
    return ShardingAnnotations(annotations=tuple(found))


def _rows(table: InstructionTable) -> Iterator[int]:
    """Yield the rows whose attributes contain a word of an annotation."""
    columns = table.module.columns
    text, spans = columns.source.text, columns.spans
    found = set(columns.rows_with_attribute_text(_SHARDY))
    for row in table.rows_of({"custom-call"}):
        start, end = spans[row * STRIDE + OPERANDS_END], spans[row * STRIDE + END]
        if any(text.find(word, start, end) >= 0 for word in _TARGET_WORDS):
            found.add(row)
    yield from sorted(found)


def _bodies(table: InstructionTable) -> Iterator[Annotation]:
    """Yield the computations that are bodies of shard_map."""
    module = table.module
    for computation in module.computations:
        if not computation.name.startswith(_BODIES):
            continue
        call, root = next(iter(computation.callers), None), computation.root
        makers: list[HloInstruction] = []  # of its arguments, which a custom call makes local
        operands = () if call is None else map(call.computation.instruction, call.operand_names)
        for maker in filter(None, operands):
            is_element = maker.opcode == "get-tuple-element" and maker.operand_names
            source = maker.operand_names[0] if is_element else maker.name
            found = maker.computation.instruction(source)
            makers += [] if found is None else [found]
        axes = (_manual_axes(maker) for maker in makers)
        yield Annotation(
            annotation=BODY,
            instruction="" if call is None else call.name,
            computation=computation.name,
            shape=None if root is None else _shape_text(root),
            sharding=None,
            spec=None,
            manual_axes=next((text for text in axes if text is not None), None),
            source=None if call is None else call.source,
            op_name=None if call is None else call.op_name,
        )


def _manual_axes(instruction: HloInstruction) -> str | None:
    """Return the axes of Shardy's attribute, else those of a V3 sharding that is manual."""
    text = instruction.frontend_attributes.get(MANUAL_AXES)
    if text is not None:
        return ", ".join(shardy_axes(text))
    try:
        sharding = instruction.sharding
    except DumpSyntaxError:
        return None
    for element in () if sharding is None else sharding.elements or (sharding,):
        if element.named is not None and element.named.manual_axes:
            return ", ".join(axis.axis for axis in element.named.manual_axes)
    return None


def _shape_text(instruction: HloInstruction) -> str | None:
    try:
        shape = instruction.shape
    except DumpSyntaxError:
        return None
    return None if shape is None else shape.to_text(layout=False)


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
        try:
            form = table.module.reader.sharding(text).form
        except DumpSyntaxError:
            form = UNREADABLE
        by_form.setdefault(form, []).append(text)
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
