"""Messages of XLA about memory that is not enough: of the TPU compiler, and of running programs.

Source: see ``grammars/out_of_memory.lark``. Printed sizes are rounded; each stands for a range of
bytes (`HumanSize`). A size printed in bytes is a range of one number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.hlo.metadata import OpMetadata
from hlo_lens.logs.messages import Fields, Found, Lines, MessageRule, read_first, read_metadata
from hlo_lens.shapes.shape import element_type, parse_shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.text.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A line of a memory statement.

    Attributes:
        name: As printed: ``reserved``, ``program``, ``arguments``; ``global``, ``HLO temp``, ...
        size: Bytes; None if the message says that they are unknown.
        utilization_percent: Unpadded bytes in percent of `size`.
        unpadded: Bytes of the values without padding, at the peak.
        padded: The same with padding.
        fragmentation_percent: `fragmentation` in percent of `size`.
        fragmentation: Bytes between values that no value occupies.
    """

    name: str
    size: HumanSize | None
    utilization_percent: float | None = None
    unpadded: HumanSize | None = None
    padded: HumanSize | None = None
    fragmentation_percent: float | None = None
    fragmentation: HumanSize | None = None


_LABEL = re.compile(r"%?([\w.-]+) = (?:.*?[\])}] |\(.*?\) )?([a-z][a-z0-9-]*)\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAllocation:
    """One of the largest allocations of a program.

    Attributes:
        number: 1 for the largest; None if the list has no numbers.
        size: Bytes with padding; None if the list has no sizes.
        operator: Its metadata; None if XLA has none.
        shape_text: Shape with layout, as printed.
        unpadded: Bytes without padding.
        padding: Extra bytes due to padding; None if there are none.
        expansion: `size` divided by `unpadded`, as printed.
        label: The instruction as HLO text, cut by its printer.
        allocation_type: ``HLO temp``, ``scoped``, ``global``, ...
    """

    number: int | None = None
    size: HumanSize | None = None
    operator: OpMetadata | None = None
    shape_text: str | None = None
    unpadded: HumanSize | None = None
    padding: HumanSize | None = None
    expansion: float | None = None
    label: str | None = None
    allocation_type: str = ""

    @property
    def instruction(self) -> str | None:
        """Name of the instruction in the label; None if it has none."""
        match = None if self.label is None else _LABEL.match(self.label)
        return None if match is None else match[1]

    @property
    def opcode(self) -> str | None:
        """Opcode of the instruction in the label; None if it has none."""
        match = None if self.label is None else _LABEL.match(self.label)
        return None if match is None else match[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutOfMemory:
    """A program that the TPU compiler refused for lack of memory.

    Attributes:
        memory_space: ``hbm``, ``vmem``, ``smem``, ``sflag``, ...
        used: Bytes that the program needs; for both kinds of cores if printed for each.
        capacity: Bytes that the device has.
        exceeded: Missing bytes, as printed; None if not printed.
        used_for: Meaning of `used`, in the words of the message.
        module: Name of the HLO module; None if it is not printed.
        instruction: The instruction, as HLO text, whose stack did not fit.
        total: Lower bound of the whole usage, with memory reserved by the system.
        usage: Parts of the total.
        output: Bytes of the outputs.
        output_shared: Bytes of the outputs that are donated arguments.
        requirement: Bytes of the program without arguments and outputs.
        parts: Parts of the requirement.
        allocations: Largest allocations, largest first.
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
        repeats: Lines at which it is printed again.
        is_complete: Whether it is complete, as far as is known.
    """

    memory_space: str
    used: tuple[HumanSize, ...] = ()
    capacity: HumanSize | None = None
    exceeded: HumanSize | None = None
    used_for: str = ""
    module: str | None = None
    instruction: str | None = None
    total: HumanSize | None = None
    usage: tuple[MemoryPart, ...] = ()
    output: HumanSize | None = None
    output_shared: HumanSize | None = None
    requirement: HumanSize | None = None
    parts: tuple[MemoryPart, ...] = ()
    allocations: tuple[ProgramAllocation, ...] = ()
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)
    is_complete: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAllocation:
    """An allocation that failed in a running program.

    Attributes:
        requested: Requested bytes; None for a tensor whose element type is not printed.
        free: Free bytes; None if not printed.
        largest_free: Bytes of the largest free region.
        device: ``0x0x0_HBM0``, an ordinal, or empty.
        allocator: Name of the allocator, such as ``GPU_0_bfc``; empty if not printed.
        program: Executable that was loaded or run; None if not printed.
        purpose: Purpose of the memory: ``device buffer``, ``program``, ``tensor[2,3]``, or empty.
        is_fatal: Whether the program failed; False for attempts that are allowed to fail.
        printed_by: ``driver``, ``allocator``, ``runtime`` or ``exception``.
        line: 1-based line of the file.
        lines: Number of its lines.
        repeats: Lines of further messages about the same failure.
    """

    requested: HumanSize | None
    free: HumanSize | None = None
    largest_free: HumanSize | None = None
    device: str = ""
    allocator: str = ""
    program: str | None = None
    purpose: str = ""
    is_fatal: bool = True
    printed_by: str = field(default="runtime", compare=False)
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationLimit:
    """A program that rematerialization did not make as small as XLA wanted.

    Attributes:
        wanted: Bytes that XLA aimed at.
        reached: Bytes after rematerialization.
        original: Bytes before it; None if not printed.
        line: 1-based line of the file.
        lines: Number of its lines.
    """

    wanted: HumanSize
    reached: HumanSize
    original: HumanSize | None = None
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)


# ---- programs that the TPU compiler refuses ----------------------------------------------------

_REFUSALS = {
    rule: MessageRule(rule)
    for rule in (
        *("stack_overflow", "stack_without_room", "ran_out"),
        *("too_many_temporaries", "would_exceed", "cores_exceed"),
    )
}
_REFUSAL_LINE = MessageRule("refusal_line")
_NEXT = re.compile(
    r"Ran out of memory |would exceed memory \(|RESOURCE_EXHAUSTED|Resource exhausted"
)
_TAG = re.compile(r"shape = '([^']*)'|space=(\w+)|tag = '([^\n]*)'\]$")
_SECTIONS = ("TOTAL", "OUTPUT", "REQUIREMENT", "LARGEST")
_LISTED = len(_SECTIONS) - 1
_USAGE = ("reserved", "program", "arguments")
_ALLOCATION_FIELDS = frozenset(
    ("NUMBERED", "OPERATOR", "SHAPE", "UNPADDED", "PADDING", "LABEL", "ALLOCATION_TYPE", "RULE")
)


def read_refusal(source: Source, place: int) -> Found[CompileOutOfMemory] | None:
    """Return the refusal of a program whose first words are at an offset; None if it is none."""
    sentence = read_first(_REFUSALS, source.text, place)
    if sentence is None:
        return None
    name, fields, end = sentence
    values = _sentence_values(name, fields)
    lines = Lines(source, _REFUSAL_LINE, end, _NEXT)
    if name != "would_exceed":
        values |= _table_values(lines)
    message = CompileOutOfMemory(**values, is_complete=not lines.gaps)  # type: ignore[arg-type] # by name
    return Found(message, place, lines.end, lines.gaps)


def _table_values(lines: Lines) -> dict[str, object]:
    """Return the values of the lines below the first sentence of a refusal."""
    values: dict[str, object] = {}
    usage: list[MemoryPart] = []
    parts: list[MemoryPart] = []
    allocations: list[tuple[int, Fields]] = []
    rank, is_closed = -1, True
    for fields, start in lines:
        section = next((k for k, name in enumerate(_SECTIONS) if name in fields), -1)
        if 0 <= section <= rank:
            break  # another message
        rank = max(rank, section)
        if "PART" in fields:
            (usage if fields["PART"] in _USAGE else parts).append(_part(fields))
        elif _ALLOCATION_FIELDS.isdisjoint(fields):
            values |= _line_values(fields)
        elif "RULE" not in fields or not is_closed:
            begins = "NUMBERED" in fields or (rank == _LISTED and is_closed)
            if begins or not allocations:
                allocations.append((start, Fields()))
            allocations[-1][1].update(fields)
            is_closed = "RULE" in fields or "ALLOCATION_TYPE" in fields
    if rank == _LISTED:
        allocations = _whole_allocations(lines, allocations)
    listed = tuple(_allocation(fields) for _, fields in allocations)
    return values | {"usage": tuple(usage), "parts": tuple(parts), "allocations": listed}


def _whole_allocations(
    lines: Lines, allocations: Sequence[tuple[int, Fields]]
) -> list[tuple[int, Fields]]:
    """Return the allocations of a list; those that are cut off are gaps."""
    text = lines.source.text
    whole: list[tuple[int, Fields]] = []
    ends = [*(start for start, _ in allocations), lines.end][1:]
    for (start, fields), end in zip(allocations, ends, strict=True):
        count = text.count("\n", start, max(start, end - 1)) + 1
        is_open = lines.end >= len(text) and not text.endswith("\n") and end == lines.end
        if is_open and "RULE" not in fields:
            lines.gap(start, "the last allocation is cut off", count)
        elif "ALLOCATION_TYPE" not in fields:
            lines.gap(start, "an allocation without 'Allocation type:'", count)
        else:
            whole.append((start, fields))
    return whole


def _sentence_values(name: str, fields: Fields) -> dict[str, object]:
    """Return the values of the first sentence of a refusal."""
    used = tuple(size for key in ("USED", "SPARSE_USED") if (size := fields.size(key)) is not None)
    values: dict[str, object] = {
        "memory_space": fields.get("SPACE", "").lower(),
        "used": used,
        "capacity": fields.size("CAPACITY"),
        "exceeded": fields.size("EXCEEDED"),
    }
    match name:
        case "too_many_temporaries":
            values |= {"used_for": fields["USED_FOR"], "module": fields.get("MODULE")}
        case "stack_overflow" | "stack_without_room":
            owner = fields.get("STACK_OWNER") or fields["REST"]
            values |= {"used_for": "the stack of one instruction", "instruction": owner}
        case "cores_exceed":
            values |= {"memory_space": "hbm", "used_for": "TensorCore and SparseCore"}
        case "would_exceed":
            shape = space = purpose = ""
            for match in _TAG.finditer(fields.get("ALLOCATION_TAG", "")):
                shape, space, purpose = match[1] or shape, match[2] or space, match[3] or purpose
            owner = fields.get("REST", "")
            values |= {
                "memory_space": space,
                "used_for": purpose or "one allocation",
                "instruction": None if owner in ("", "<no-hlo-instruction>") else owner,
                "parts": (MemoryPart(name=shape or "one allocation", size=used[0]),),
            }
    return values


def _line_values(fields: Fields) -> dict[str, object]:
    """Return the values of a line with sums."""
    names = ("CAPACITY", "EXCEEDED", "TOTAL", "OUTPUT", "OUTPUT_SHARED", "REQUIREMENT")
    values: dict[str, object] = {
        name.lower(): fields.size(name) for name in names if name in fields
    }
    return values | {"used": (fields.size("USED"),)} if "USED" in fields else values


def _part(fields: Fields) -> MemoryPart:
    return MemoryPart(
        name=fields["PART"],
        size=fields.size("PART_SIZE"),
        utilization_percent=fields.percent("UTILIZATION"),
        unpadded=fields.size("PART_UNPADDED"),
        padded=fields.size("PART_PADDED"),
        fragmentation_percent=fields.percent("FRAGMENTED"),
        fragmentation=fields.size("FRAGMENTATION"),
    )


def _allocation(fields: Fields) -> ProgramAllocation:
    operator = fields.text("OPERATOR")
    if operator is None:
        metadata = None
    elif "=" not in operator.partition('"')[0]:  # messages of 2026 may print a path alone
        metadata = OpMetadata(op_name=operator) if operator else read_metadata("{}")
    else:
        metadata = read_metadata(f"{{{operator}}}")
    return ProgramAllocation(
        number=int(fields["NUMBERED"].partition(".")[0]) if "NUMBERED" in fields else None,
        size=fields.size("SIZE"),
        operator=metadata,
        shape_text=fields.text("SHAPE"),
        unpadded=fields.size("UNPADDED"),
        padding=fields.size("PADDING"),
        expansion=float(fields["EXPANSION"]) if "EXPANSION" in fields else None,
        label=fields.text("LABEL"),
        allocation_type=fields.text("ALLOCATION_TYPE") or "",
    )


# ---- running programs --------------------------------------------------------------------------

_FAILURES = {  # rule to the part of the system that prints it, exceptions apart
    "out_of_memory": "runtime",
    "failed_request": "driver",
    "failed_bytes": "driver",
    "tensor_failed": "runtime",
    "not_possible": "runtime",
    "allocator_failed": "allocator",
    "nameless_failed": "allocator",
}
_FAILURE_RULES = {name: MessageRule(name) for name in _FAILURES}
_PURPOSE = re.compile(
    r"Error (?:allocating (device buffer)|loading (program)(?: '([^'\n]*)')?): *\Z"
)
_EXCEPTION = re.compile(r"[\w.]{0,100}(?:Error|Exception|exception)\b[^\n]*\Z")
_BEFORE = 200
"""Characters before a failure in which the purpose of the memory is looked for."""


def read_failure(source: Source, place: int) -> Found[FailedAllocation] | None:
    """Return the failed allocation whose first words are at an offset; None if it is none."""
    sentence = read_first(_FAILURE_RULES, source.text, place)
    if sentence is None:
        return None
    name, fields, end = sentence
    before = source.text[max(place - _BEFORE, 0) : place]
    purpose = _PURPOSE.search(before)
    program, use = fields.get("EXECUTABLE"), ""
    if purpose is not None:
        program, use = purpose[3] or program, purpose[1] or purpose[2]
    requested = fields.size("REQUESTED")
    device = fields.get("DEVICE_ORDINAL") or fields.get("DEVICE", "").strip("; ()")
    if name == "tensor_failed":
        requested = _tensor_size(fields)
        use = use if requested is not None else f"tensor{fields['TENSOR_DIMENSIONS']}"
        device = fields.get("TENSOR_DEVICE", "").rpartition("/")[2]
    failure = FailedAllocation(
        requested=requested,
        free=fields.size("FREE"),
        largest_free=fields.size("LARGEST_FREE"),
        device=device,
        allocator=fields.get("ALLOCATOR_NAME", ""),
        program=program or None,
        purpose=use,
        is_fatal="is not a failure" not in fields.get("REQUESTED_BY", ""),
        printed_by="exception" if _EXCEPTION.search(before) else _FAILURES[name],
    )
    return Found(failure, place, end)


def _tensor_size(fields: Fields) -> HumanSize | None:
    """Return the bytes of a tensor; None if its type is not printed (before 2018), or unknown."""
    dtype = element_type({"float": "float32"}.get(name := fields.get("TENSOR_TYPE", ""), name))
    try:
        shape = None if dtype is None else parse_shape(f"{dtype}{fields['TENSOR_DIMENSIONS']}")
    except DumpSyntaxError:
        return None
    return None if shape is None or shape.size_bytes is None else HumanSize(f"{shape.size_bytes}B")


_LIMIT = MessageRule("rematerialization_limit")


def read_limit(source: Source, place: int) -> Found[RematerializationLimit] | None:
    """Return the limit of rematerialization at an offset; None if it is none."""
    sentence = _LIMIT.read(source.text, place)
    if sentence is None:
        return None
    fields, end = sentence
    wanted, reached = fields.size("WANTED"), fields.size("REACHED")
    if wanted is None or reached is None:
        return None
    limit = RematerializationLimit(wanted=wanted, reached=reached, original=fields.size("ORIGINAL"))
    return Found(limit, place, end)
