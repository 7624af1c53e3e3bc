"""Instructions of a dump that the warnings in a compiler's log are about.

Warnings name instructions from the middle of compilation: the partitioner has renamed them, divided
their shapes and sometimes moved the metadata of one to another. The framework's operation path
(``op_name``) remains, so it is the key; name, opcode and shape only choose among several
instructions. Each row states how the instruction was found and the number of candidates.

Texts from before optimizations are searched first: they have global shapes and the names of JAX.
Ids of stack frames differ between texts and are not used. The source line is the instruction's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.logs.oom_message import source_of
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.logs.log import CompilerWarning, PrintedInstruction
    from hlo_lens.shapes.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningJoin:
    """A warning and its instructions; other fields are columns of `WarningJoins`.

    Attributes:
        warning: The first of equal ones.
        instructions: Names of the possible instructions; one if it is certain.
        how: Properties by which they were found; ``not found``, or ``no dump``.
        full_bytes: Bytes of the whole value, which full rematerialization copies to every device;
            None without the text from before optimizations, since warnings print a part.
    """

    warning: CompilerWarning
    times: int
    module: str | None = None
    stage: str | None = None
    instructions: tuple[str, ...] = ()
    how: str = "no dump"
    source: str | None = None
    full_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class WarningJoins(Result):
    """Warnings of a log, in text order, equal ones as one."""

    KIND: ClassVar[str] = "compiler-warnings"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("line", Unit.NONE, "1-based line of the log, of the first"),
        Column("times", Unit.COUNT, "number of equal warnings"),
        Column("warning", Unit.NONE, "kind of warning"),
        Column("about", Unit.NONE, "instruction, types or module that it prints"),
        Column("op_name", Unit.NONE, "operation path that it prints"),
        Column("from_sharding", Unit.NONE, "present sharding of the value"),
        Column("to_sharding", Unit.NONE, "required sharding of the value"),
        Column("seconds", Unit.NONE, "duration; empty while it is not known"),
        Column("limit_seconds", Unit.NONE, "time limit after which XLA warned"),
        Column("size_bytes", Unit.BYTES, "bytes of the donated or of all arguments"),
        Column("limit_bytes", Unit.BYTES, "limit of the arguments"),
        Column("differences", Unit.COUNT, "wrong elements that the log lists"),
        Column("module", Unit.NONE, "module of the dump"),
        Column("stage", Unit.NONE, "before or after optimizations"),
        Column("instruction", Unit.NONE, "instruction of the dump"),
        Column("how", Unit.NONE, "properties by which it was found"),
        Column("source", Unit.NONE, "line of the program"),
        Column("full_bytes", Unit.BYTES, "bytes of the whole value"),
    )
    joins: tuple[WarningJoin, ...]

    @property
    def is_joined(self) -> bool:
        """Whether there is a dump to search."""
        return any(join.how != "no dump" for join in self.joins)

    def rows(self) -> Iterator[Row]:
        """Yield a row for each warning."""
        for join in self.joins:
            warning, printed = join.warning, join.warning.instruction
            metadata = None if printed is None else printed.metadata
            yield (
                warning.line,
                join.times,
                warning.kind.value,
                about(warning),
                None if metadata is None else metadata.op_name,
                None if warning.from_sharding is None else warning.from_sharding.text,
                None if warning.to_sharding is None else warning.to_sharding.text,
                warning.duration_seconds,
                warning.limit_seconds,
                warning.size_bytes,
                warning.limit_bytes,
                warning.differences,
                join.module,
                join.stage,
                ", ".join(join.instructions) or None,
                join.how,
                join.source,
                join.full_bytes,
            )


def about(warning: CompilerWarning) -> str | None:
    """Return a short text on the subject of a warning."""
    printed = warning.instruction
    if printed is not None:
        shape = "" if printed.shape is None else f" {printed.shape.to_text(layout=False)}"
        subject = f", {warning.subject}" if warning.subject else ""
        return f"{printed.name}{shape} {printed.opcode}{subject}"
    return ", ".join(warning.donated) or warning.subject or warning.module


def warning_joins(
    warnings: Sequence[CompilerWarning], modules: Sequence[ModuleDump]
) -> WarningJoins:
    """Return each warning with its instructions.

    Args:
        warnings: Warnings of one log.
        modules: Modules of the dump; empty without a dump.
    """
    counts = Counter(warnings)
    return WarningJoins(
        joins=tuple(_joined(warning, counts[warning], modules) for warning in counts)
    )


def _joined(warning: CompilerWarning, times: int, modules: Sequence[ModuleDump]) -> WarningJoin:
    printed = warning.instruction
    source = None if printed is None else source_of(printed.metadata)
    bare = WarningJoin(warning=warning, times=times, source=source)
    if not modules:
        return bare
    if printed is not None:
        return _instruction_join(bare, printed, modules)
    return _donation_join(bare, modules) if warning.donated else _module_join(bare, modules)


# ---- instructions ------------------------------------------------------------------------------


def _instruction_join(
    join: WarningJoin, printed: PrintedInstruction, modules: Sequence[ModuleDump]
) -> WarningJoin:
    """Return the join with the instructions of the first text that has the operation."""
    for stage in ("before", "after"):
        for dump in modules:
            module = dump.before if stage == "before" else dump.hlo
            if module is None or not _has_devices_of(module, join.warning):
                continue
            found, how = _candidates(module, printed)
            if found:
                return _with(join, dump.title, stage, found, how)
    return replace(join, how="not found")


def _has_devices_of(module: HloModule, warning: CompilerWarning) -> bool:
    """Whether the shardings of a warning may be over the devices of a module."""
    counts = {
        count
        for one in (warning.from_sharding, warning.to_sharding)
        if one is not None and (count := one.num_devices or 1) > 1
    }
    known = module.num_partitions if "num_partitions" in module.header else None
    return known is None or counts <= {known}


def _with(
    join: WarningJoin, module: str, stage: str, found: Sequence[HloInstruction], how: str
) -> WarningJoin:
    sources = {place for one in found if (place := one.source) is not None}
    sizes = {one.shape.size_bytes for one in found if one.shape} if stage == "before" else set()
    return replace(
        join,
        module=module,
        stage=stage,
        instructions=tuple(one.name for one in found),
        how=how if len(found) == 1 else f"{how}, one of {len(found)}",
        source=sources.pop() if len(sources) == 1 else join.source,
        full_bytes=sizes.pop() if len(sizes) == 1 else None,
    )


def _candidates(
    module: HloModule, printed: PrintedInstruction
) -> tuple[Sequence[HloInstruction], str]:
    """Return the instructions that a warning may be about, and the way they were found."""
    op_name = None if printed.metadata is None else printed.metadata.op_name
    if op_name is None:
        return _by_name(module, printed)
    if op_name not in module.columns.source.text:
        return (), ""
    same = [one for one in _instructions(module) if one.op_name == op_name]
    exact = [one for one in same if one.name == printed.name and one.opcode == printed.opcode]
    if exact and _is_same_shape(exact[0], printed.shape):
        return exact, "name and operation"
    opcode = [one for one in same if one.opcode == printed.opcode]
    for chosen, how in ((opcode, "operation, opcode"), (same, "operation")):
        shaped = [one for one in chosen if _fits(one, printed.shape)]
        if shaped:
            return shaped, f"{how} and shape"
    return (), ""


def _by_name(
    module: HloModule, printed: PrintedInstruction
) -> tuple[Sequence[HloInstruction], str]:
    """Return the instruction of that name, opcode and shape, for warnings without an operation."""
    if printed.name not in module.columns.source.text:
        return (), ""
    found = [
        one
        for one in _instructions(module)
        if (one.name, one.opcode) == (printed.name, printed.opcode)
        and _is_same_shape(one, printed.shape)
    ]
    return found, "name and shape"


def _instructions(module: HloModule) -> Iterator[HloInstruction]:
    return (one for computation in module.computations for one in computation.instructions)


def _is_same_shape(instruction: HloInstruction, shape: Shape | None) -> bool:
    whole = instruction.shape
    return whole is not None and shape is not None and _array(whole) == _array(shape)


def _fits(instruction: HloInstruction, shape: Shape | None) -> bool:
    """Whether a shape is that of an instruction or of a part of it (each dimension divides)."""
    whole = instruction.shape
    if shape is None or whole is None or whole.is_tuple or shape.is_tuple:
        return False
    if (whole.rank, whole.element_type) != (shape.rank, shape.element_type):
        return False
    pairs = zip(whole.dimensions, shape.dimensions, strict=True)
    return all(a is not None and b and a % b == 0 for a, b in pairs)


# ---- donations and modules ---------------------------------------------------------------------


def _donation_join(join: WarningJoin, modules: Sequence[ModuleDump]) -> WarningJoin:
    """Return the join with the unaliased parameters of the only module that has all the types."""
    found: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = []
    for dump in modules:
        for stage, module in (("before", dump.before), ("after", dump.hlo)):
            names = None if module is None else _parameters(module, join.warning.donated_shapes)
            if names:
                found.append((dump.title, stage, *names))
                break
    if len(found) != 1:
        return replace(join, how=f"types, in {len(found)} modules" if found else "not found")
    title, stage, parameters, sources = found[0]
    return replace(
        join,
        module=title,
        stage=stage,
        instructions=parameters,
        how="types of parameters that share no buffer with an output",
        source=sources[0] if len(set(sources)) == 1 else None,
    )


def _parameters(
    module: HloModule, shapes: Sequence[Shape | None]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return names and sources of parameters of these shapes; None unless there are enough."""
    entry = module.entry
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes):
        return None
    aliased = {alias.parameter_number for alias in module.input_output_alias}
    free = [one for k, one in enumerate(entry.parameters) if k not in aliased]
    chosen: list[HloInstruction] = []
    for key, count in Counter(_array(shape) for shape in known).items():
        same = [one for one in free if one.shape is not None and _array(one.shape) == key]
        if len(same) < count:
            return None
        chosen += same
    places = (one.source_location for one in chosen)
    return tuple(one.name for one in chosen), tuple(str(p) for p in places if p is not None)


def _array(shape: Shape) -> tuple[object, object]:
    """Return the key that equal array types share."""
    return shape.element_type, shape.dimensions


def _module_join(join: WarningJoin, modules: Sequence[ModuleDump]) -> WarningJoin:
    name = join.warning.module
    count = sum(dump.title == name for dump in modules)
    if name is None or not count:
        return replace(join, how="not found")
    return replace(join, module=name, how="name" if count == 1 else f"name, one of {count}")
