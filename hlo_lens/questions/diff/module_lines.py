"""Source lines of the instructions of a module, as another module names them, and their stacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.program.origins import Origins
from hlo_lens.questions.diff.portable_sources import portable_path, portable_source
from hlo_lens.questions.diff.renamed_folders import renamed_source
from hlo_lens.questions.memory.differentiation import RECOMPUTED
from hlo_lens.questions.sharding.sources import custom_call_target
from hlo_lens.text.library_files import is_library_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.call_changes import Stack

SUM = "/add_any"
"""Operation that JAX adds for the gradient of a value with several uses."""

PLUMBING = frozenset({"call", "parameter", "tuple", "get-tuple-element", "constant"})
"""Opcodes that come and go with the computations around operations."""

_SHARDY = "xla.sdy."
_NO_OPERATIONS = PLUMBING | {"broadcast"}
"""Opcodes that do not count calls: JAX makes one broadcast of all equal constants."""

_NOT_CALLED = (RECOMPUTED, SUM, 'target="Sharding"', f'target="{_SHARDY}')
"""Texts of attributes of operations that do not count calls."""

Place: TypeAlias = "str | None"
"""``file:line``, portable; None for instructions without a known line."""


class ModuleLines:
    """Source lines of one module.

    Attributes:
        files: Its files to their names in the head, where these differ.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.origins = Origins(module)
        self.files: Mapping[str, str] = {}
        self._names = cache(self._name)

    def named_files(self) -> set[str]:
        """Return the source files that the module names."""
        frames = self.module.stack_frames
        if frames:
            return {portable_path(file) for file in frames.file_names}
        places = map(self.origins.places.innermost, range(len(self.module.opcodes)))
        return {portable_path(place.file) for place in places if place is not None}

    def _name(self, file: str, line: int) -> str | None:
        """Return a line as the head names it."""
        return renamed_source(portable_source(file, line), self.files)

    def line(self, row: int) -> str | None:
        """Return the line in the metadata of a row."""
        place = self.origins.places.innermost(row)
        return None if place is None else self.name(place)

    def name(self, place: SourceLocation) -> str | None:
        """Return a place as the head names it."""
        return self._names(place.file, place.line)

    def opcodes_by_line(self) -> dict[str, Counter[str]]:
        """Return the opcodes of the instructions of each line."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for (key, opcode), count in self._opcodes_by_key.items():
            place = self.origins.places.innermost_of(key)
            line = None if place is None else self.name(place)
            if line is not None:
                found[line][opcode] += count
        return found

    @cached_property
    def _opcodes_by_key(self) -> Counter[tuple[str | None, str]]:
        rows = range(len(self.module.opcodes))
        return Counter(zip(map(self.origins.places.key, rows), self.module.opcodes, strict=True))

    def stacks(self) -> dict[Stack, Counter[str]]:
        """Return the opcodes of the operations with each call stack.

        Without those that are computed again, sums of gradients, and annotations of shardings.
        """
        if not self.module.stack_frames:
            return {}
        with_text = self.module.columns.rows_with_attribute_text
        key, opcodes = self.origins.places.key, self.module.opcodes
        left_out = Counter(
            (key(row), opcodes[row]) for row in {*chain.from_iterable(map(with_text, _NOT_CALLED))}
        )
        found: dict[Stack, Counter[str]] = defaultdict(Counter)
        for (place, opcode), count in (self._opcodes_by_key - left_out).items():
            stack = self._stack_of(place) if opcode not in _NO_OPERATIONS else ()
            if stack:
                found[stack][opcode] += count
        return found

    def functions(self) -> dict[str, str]:
        """Return the function of each line: that of most of its instructions."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for (key, _), count in self._opcodes_by_key.items():
            place = self.origins.places.innermost_of(key)
            line = None if place is None else self.name(place)
            if line is not None and place is not None and place.function:
                found[line][place.function] += count
        return {line: max(sorted(names), key=names.__getitem__) for line, names in found.items()}

    def stack(self, row: int) -> Stack:
        """Return the lines of the user's program in the call stack of a row, innermost first."""
        return self._stack_of(self.origins.places.key(row))

    def _stack_of(self, key: str | None) -> Stack:
        places = self.origins.places.stack_of(key)
        names = (self.name(place) for place in places if not is_library_file(place.file))
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def place(self, instruction: HloInstruction, edited: Mapping[Place, int]) -> Place:
        """Return the line of an instruction, inferred if it has none of its own."""
        row = instruction.row
        if is_constraint(instruction):
            line = self.line(row)
            if self.constraints[line] > edited.get(line, 0):
                return self._caller(row) or line
        place = self.origins.place(row)
        return None if place is None else self.name(place)

    @cached_property
    def constraints(self) -> Counter[Place]:
        """Number of sharding constraints by line."""
        rows = self.module.opcodes.places_of({"custom-call"})
        return Counter(
            self.line(row) for row in rows if is_constraint(self.module.instruction(row))
        )

    def _caller(self, row: int) -> Place:
        """Return the line of the user's program that calls the innermost function of a row."""
        stack = [p for p in self.origins.places.stack(row) if not is_library_file(p.file)]
        return self._names(stack[1].file, stack[1].line) if len(stack) > 1 else None


def is_constraint(instruction: HloInstruction) -> bool:
    """Return whether an instruction is a sharding constraint."""
    return instruction.opcode == "custom-call" and custom_call_target(instruction) == "Sharding"


def is_of_shardy(instruction: HloInstruction) -> bool:
    """Return whether an instruction is an annotation of Shardy."""
    is_call = instruction.opcode == "custom-call"
    return is_call and custom_call_target(instruction).startswith(_SHARDY)
