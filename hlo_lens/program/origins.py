"""Origins of values in the user's program: source line, operation path, name of the argument.

A value has the origin of its instruction's metadata. XLA leaves metadata out of many instructions
that it makes itself; their origin is inferred, in this order:

1. from the instructions that a fusion or another called computation runs, nearest to the result
   first;
2. of an element that a loop carries, from the instruction in the loop's body that writes it; where
   the body only stores a slice of it, as ``lax.scan`` does with outputs and saved activations,
   from the slice;
3. from what it is computed from, nearest first, of one instruction the largest operand first;
4. from what uses it, nearest first;
5. of what is computed from arguments only, from the name of the argument.

The source line is the innermost one outside libraries (`is_library_file`). Operation paths that XLA
made of an opcode and a number are none. In texts without any source line, operation paths decide.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from hlo_lens.hlo.columns import END, OPERANDS_END, STRIDE
from hlo_lens.hlo.metadata import SourceLocation, parse_metadata_string
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import SOURCELESS, STORING, Value, value_flow
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source_files import makes_every_operation
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

INFERRED = "~"
"""Mark of an inferred source line in text."""


class Basis(StrEnum):
    """The way an origin was found."""

    OWN = "own"  # metadata of the instruction itself
    FUSION_BODY = "fusion body"  # of an instruction in the fusion or computation that it calls
    LOOP_BODY = "loop body"  # of the instruction in the loop's body that writes the value
    OPERAND = "operand"  # of the value that it is computed from
    USER = "user"
    ARGUMENT = "argument"  # of the program, that it is or is computed from
    COMBINED = "combined"  # of the collective that it was combined into, of one of its members


def is_inferred(basis: str | None) -> bool:
    """Return whether an origin of a basis is not of the instruction's own metadata."""
    return basis not in (None, Basis.OWN, Basis.ARGUMENT)


def marked(source: str | None, basis: str | None) -> str | None:
    """Return a source line as text, with `INFERRED` after it if it is inferred."""
    return f"{source} {INFERRED}" if source is not None and is_inferred(basis) else source


class Origin(NamedTuple):
    """Origin of a value in the user's program; without basis none."""

    place: SourceLocation | None = None
    """Innermost place outside libraries; the innermost of all if there is none."""
    op_name: str | None = None
    """Operation path; of an argument its name."""
    basis: Basis | None = None
    row: int | None = None
    """Row of the instruction whose metadata it is."""
    argument: str | None = None
    """Name of the argument that the value is, or is computed from, where nothing else on the way to
    it has an origin."""
    has_own_path: bool = False
    """Whether the operation path is of the instruction itself; the place may be inferred."""

    @property
    def is_inferred(self) -> bool:
        """Whether the source line is not of the instruction's own metadata."""
        return is_inferred(self.basis)

    @property
    def source(self) -> str | None:
        """The place as ``file:line``; None if not known."""
        return None if self.place is None else str(self.place)

    @property
    def marked_source(self) -> str | None:
        """The place as text, with `INFERRED` after it if it is inferred; None if not known."""
        return marked(self.source, self.basis)

    def inferred(self, basis: Basis) -> Origin:
        """Return the origin as that of another value, found in another way."""
        return Origin(self.place, self.op_name, basis, self.row, self.argument)


NO_ORIGIN = Origin()


_FRAME = "stack_frame_id="
_FILE = 'source_file="'
_METADATA = "metadata={"
_NAME_VALUE = re.compile(r'\bop_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_NUMBERED = re.compile(r"([\w-]+?)(?:\.(?:\d+|clone|remat\d*))+")
_FRAME_VALUE = re.compile(_FRAME + r"(\d+)[ }\w]*")
_FILE_VALUE = re.compile(
    _FILE + r'([^"\\]*+(?:\\.[^"\\]*+)*+)"(?:,? source_line=(\d{1,18})\b)?[^"]*'
)

Stack = tuple[SourceLocation, ...]
"""A Python call stack, innermost first; one place if only that is known, empty for none."""


def stack_texts(stack: Stack) -> tuple[str, ...]:
    """Return a call stack as text, innermost first: ``file:line (function)``.

    Empty for a place alone, without functions.
    """
    if not any(place.function for place in stack):
        return ()
    return tuple(f"{one} ({one.function})" if one.function else str(one) for one in stack)


class InstructionPlaces:
    """Source places of rows; each distinct text of metadata is parsed once.

    The last ``stack_frame_id=`` or ``source_file="`` of a row is in its metadata: backend_config,
    which follows, quotes its strings, and its JSON has no such key.
    """

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._text = module.columns.source.text
        self._spans = module.columns.spans
        self.innermost_of, self._stack_of = cache(self._read), cache(self._read_stack)
        self._name_of = cache(self._read_name)

    @property
    def has_any(self) -> bool:
        """Whether the text has any place outside of stack frames."""
        found = _FILE_VALUE.finditer(self._text)
        return any(not makes_every_operation(self._string(match[1])) for match in found)

    def innermost(self, row: int) -> SourceLocation | None:
        """Return the innermost place in the user's program, or None if the row has none.

        If all places are in libraries, the innermost one of all.
        """
        return self.innermost_of(self.key(row))

    def stack(self, row: int) -> Stack:
        """Return the call stack of a row."""
        return self._stack_of(self.key(row))

    def op_name(self, row: int) -> str | None:
        """Return the operation path; None if the row has none, or one that XLA numbered itself."""
        base = row * STRIDE
        start, end = self._spans[base + OPERANDS_END], self._spans[base + END]
        place = self._text.find(_METADATA, start, end)
        match = None if place < 0 else _NAME_VALUE.search(self._text, place, end)
        return None if match is None else self._name_of(match[1])

    def _read_name(self, text: str) -> str | None:
        name = self._string(text)
        match = _NUMBERED.fullmatch(name)  # such as broadcast.13, which XLA made of an opcode
        is_made = match and opcode_traits(match[1].replace("_", "-")).is_known
        return None if not name or is_made else name

    def _string(self, text: str) -> str:
        if "\\" not in text:
            return text
        try:
            return self._module.reader.string(f'"{text}"')
        except DumpSyntaxError:
            return text

    def key(self, row: int) -> str | None:
        """Return the end of a row's metadata, from its place on; None if the row has no place."""
        base, text = row * STRIDE, self._text
        start, end = self._spans[base + OPERANDS_END], self._spans[base + END]
        place = text.rfind(_FRAME, start, end)
        if place < 0:
            place = text.rfind(_FILE, start, end)
            if place < 0:
                return None
        stop = text.find("}", place, end)
        return text[place : stop if stop >= 0 else end]

    def _read(self, key: str | None) -> SourceLocation | None:
        key = key or ""
        match = _FRAME_VALUE.match(key)
        if match is not None:
            return self._module.stack_frames.user_location(bounded_int(match[1]))
        match = _FILE_VALUE.match(key)
        file = "" if match is None else self._string(match[1])
        if match is None or not file or makes_every_operation(file):
            return None
        return SourceLocation(file=file, line=bounded_int(match[2]) if match[2] else None)

    def _read_stack(self, key: str | None) -> Stack:
        match = _FRAME_VALUE.match(key or "")
        if match is not None:
            return self._module.stack_frames.stack(bounded_int(match[1]))
        place = self._read(key)
        return () if place is None else (place,)


def argument_names(module: HloModule) -> Mapping[int, str]:
    """Return the names of the entry's parameters that have one, by row.

    A name that several parameters have is none: TensorFlow calls all of them ``XLA_Args``.
    """
    walks = module.links.walks
    if "argument_names" not in walks:
        names: dict[int, str] = {}
        is_there = module.has_entry and module.entry.rows
        for row in module.links.parameter_rows(module.entry.place) if is_there else ():
            metadata = module.columns.attribute(row, "metadata")
            name = metadata and parse_metadata_string(metadata, "op_name")
            if name:
                names[row] = name
        counts = Counter(names.values())
        walks["argument_names"] = {r: name for r, name in names.items() if counts[name] == 1}
    return cast("Mapping[int, str]", walks["argument_names"])


_STEPS = 64
"""Values that are visited in one direction in search of an origin, at most, and the deepest nesting
of computations that is looked into."""

_BUDGET, _FEW = 100_000, 4
"""Values visited without result after which `_FEW` are visited: few instructions have lines."""

_SLICES = ("/dynamic_slice", "/dynamic_update_slice")
"""Ends of the operation paths of slices that ``lax.scan`` takes and stores."""

SCALAR = 16
"""Bytes of the largest value that may be the counter of a loop, or is as insignificant."""

_Look: TypeAlias = "Callable[[Value], Origin]"


@fact
def origins(module: ModuleDump) -> Origins:
    """Return the origins of a module's values: source line, operation path, how they were found."""
    return origins_of(hlo_text(module))


def origins_of(module: HloModule) -> Origins:
    """Return the origins of a text's values, one object for all who ask."""
    walks = module.links.walks
    if "origins" not in walks:
        walks["origins"] = Origins(module)
    return cast("Origins", walks["origins"])


class Origins:
    """Origins of the values of a module, each found when first asked for."""

    def __init__(self, module: HloModule) -> None:
        self.places = InstructionPlaces(module)
        self.steps = value_flow(module)
        self._module = module
        self._owners = module.links.owners
        self._opcodes = self.steps.opcodes
        self._wasted = 0
        self._found: dict[Value, Origin] = {}
        self._owned: dict[int, Origin | None] = {}
        self._bodies: dict[Value, Origin] = {}
        self._open: set[int] = set()
        self._depth = 0
        # without what a value is computed from and used by; the second for what a loop writes
        self._nearest = cache(lambda value: self._with_loops(value, self._inner))
        self._inner = cache(lambda value: self._with_loops(value, self.direct))

    def of_row(self, row: int) -> Origin:
        """Return the origin of an instruction."""
        own = self.own(row)
        if own is not None and own.place is not None:
            return own
        return self.of_value(Value(row))

    def place(self, row: int) -> SourceLocation | None:
        """Return the place of the origin of an instruction."""
        return self.of_row(row).place if self._has_places else None

    def of_value(self, value: Value) -> Origin:
        """Return the origin of the instruction that defines a value."""
        value = self.steps.definition(value)
        if value not in self._found:
            self._found[value] = self._search(value)
        return self._found[value]

    def maker(self, value: Value) -> int:
        """Return the row of the instruction that computes a value, in loops that of the body."""
        value = self.steps.definition(value)
        for _ in range(_STEPS):
            written = self.steps.written(value) if self._opcodes[value.row] == "while" else None
            if written is None:
                break
            value = self.steps.definition(written)
        return value.row

    def opcode(self, row: int) -> str:
        """Return the opcode of a row."""
        return self._opcodes[row]

    def stack(self, origin: Origin) -> Stack:
        """Return the call stack of an origin, innermost first."""
        return () if origin.row is None else self.places.stack(origin.row)

    # ---- search --------------------------------------------------------------------------------

    def _search(self, value: Value) -> Origin:
        near = self._nearest(value)
        if self.is_enough(near) or not self._has_metadata:
            return near
        around, argument = self._around(value, self._nearest)
        if near.basis is None and around.basis is None:
            return argument._replace(place=None)
        if near.basis is not None and around.place is None:
            return near._replace(argument=argument.argument)
        around = _with_path(around, near)
        name = argument.argument
        return around if around.argument == name else around._replace(argument=name)

    def _around(self, value: Value, look: _Look) -> tuple[Origin, Origin]:
        """Return the origin of what a value is computed from or used by, and its argument.

        ``look`` returns the origin of a value that is met.
        """
        made = weak = argument = NO_ORIGIN
        if self._opcodes[value.row] not in SOURCELESS:
            made, weak, argument = self._near(value, Basis.OPERAND, look)
        if self.is_enough(made):
            return made, argument
        used, weak_user, _ = self._near(value, Basis.USER, look)
        if self.is_enough(used):
            return used, argument
        best = next((origin for origin in (weak, weak_user) if self.is_enough(origin)), made)
        return (used if best.basis is None else best), argument

    def _near(self, value: Value, basis: Basis, look: _Look) -> tuple[Origin, Origin, Origin]:
        """Return the origin of the nearest operand or user, a weak one, and the first argument.

        Loops and the slices that they take have weak origins: the line of the loop.
        """
        is_large = self.steps.size(value) > SCALAR
        is_back = basis is Basis.OPERAND
        waiting, seen = deque([value]), {value}
        second = weak = argument = NO_ORIGIN
        visited = 0
        while waiting and visited < self._steps:
            one = waiting.popleft()
            for other in self.steps.sources(one) if is_back else self.steps.users(one):
                visited += 1
                if visited > 2 * self._steps:
                    break
                if other in seen:
                    continue
                seen.add(other)
                near = look(other)
                if near.basis is Basis.ARGUMENT:
                    argument = near if argument is NO_ORIGIN else argument
                    continue
                if self.is_enough(near):
                    if not (is_large and self._is_of_loop(other, near)):
                        return near.inferred(basis), weak, argument
                    weak = near.inferred(basis) if weak is NO_ORIGIN else weak
                elif second is NO_ORIGIN and near.basis is not None:
                    second = near.inferred(basis)
                waiting.append(other)
        self._wasted += visited
        return second, weak, argument

    @property
    def _steps(self) -> int:
        return _STEPS if self._wasted < _BUDGET else _FEW

    @cached_property
    def _has_places(self) -> bool:
        return bool(self._module.stack_frames) or self.places.has_any

    @cached_property
    def _has_metadata(self) -> bool:
        return self._has_places or 'op_name="' in self._module.columns.source.text

    def is_enough(self, origin: Origin) -> bool:
        """Return whether an origin has what the module's metadata have at most."""
        if origin.basis is Basis.ARGUMENT:
            return True
        return origin.place is not None or (not self._has_places and origin.op_name is not None)

    # ---- one instruction -----------------------------------------------------------------------

    def own(self, row: int) -> Origin | None:
        """Return the origin of a row's metadata, or None."""
        if row not in self._owned:
            place, op_name = self.places.innermost(row), self.places.op_name(row)
            argument = op_name if op_name in self._argument_names else None
            has_path = op_name is not None and argument is None
            is_none = place is None and op_name is None
            origin = Origin(place, op_name, Basis.OWN, row, argument, has_path)
            self._owned[row] = None if is_none else origin
        return self._owned[row]

    @cached_property
    def _argument_names(self) -> frozenset[str]:
        """Names of the arguments; XLA gives them to gathers of weights as operation paths too."""
        return frozenset(argument_names(self._module).values())

    def _with_loops(self, value: Value, look: _Look) -> Origin:
        if self._opcodes[value.row] == "while" and value.element:
            written = self._in_loop(value, look)
            if self.is_enough(written):
                return written
        update = self._stored_slice(value)
        if update is not None:
            near = look(update)
            if not self.is_enough(near) or self._is_of_loop(update, near):
                near, _ = self._around(update, look)
            own = self.places.innermost(value.row)
            near = near.inferred(Basis.LOOP_BODY) if near.basis is not Basis.ARGUMENT else NO_ORIGIN
            if self.is_enough(near) and not _is_same_line(near.place, own):
                return near
        return self.direct(value)

    def direct(self, value: Value) -> Origin:
        """Return the origin of a value by its own metadata, or by what it calls."""
        row = value.row
        own, opcode = self.own(row), self._opcodes[row]
        if opcode == "parameter" and self._is_argument(row):
            number = self._module.instruction(row).parameter_number
            name = argument_names(self._module).get(row)
            name = name or (None if number is None else f"argument {number}")
            place = None if own is None else own.place
            return Origin(place=place, op_name=name, basis=Basis.ARGUMENT, row=row, argument=name)
        if opcode == "parameter" or (own is not None and self.is_enough(own)):
            return own or NO_ORIGIN
        inside = NO_ORIGIN
        if opcode == "while":  # the comparison that ends it
            root = self.steps.root(row, "condition")
            end = None if root is None else self.own(root)
            inside = NO_ORIGIN if end is None else end.inferred(Basis.LOOP_BODY)
        elif opcode_traits(opcode).is_runner:
            inside = self._in_body(value)
        if own is None:
            return inside
        return _with_path(inside, own) if self.is_enough(inside) else own

    def _is_argument(self, row: int) -> bool:
        """Return whether a row is an argument of the program, which has no origin but its own."""
        return self._opcodes[row] == "parameter" and self.steps.caller(row) is None

    def _in_body(self, value: Value) -> Origin:
        """Return the origin of the result of a called computation, from inside it."""
        result = self.steps.result(value, "calls", "to_apply", "branch_computations")
        if result is None or result.row in self._open or len(self._open) >= _STEPS:
            return NO_ORIGIN  # a damaged text may call what it is in
        if result not in self._bodies:  # else each of thousands of nested calls searches twice
            self._open.add(result.row)
            self._bodies[result] = self._of_result(result)
            self._open.remove(result.row)
        return self._bodies[result]

    def _of_result(self, result: Value) -> Origin:
        """Return the origin of the result of a computation: of the nearest value that has one."""
        place = self._owners[result.row]
        waiting = deque([self.steps.definition(result, is_local=True)])
        seen = set(waiting)
        second = NO_ORIGIN
        visited = 0
        while waiting and visited < _STEPS:
            visited += 1
            value = waiting.popleft()
            if self._opcodes[value.row] == "parameter":
                continue
            near = self.direct(value)
            if self.is_enough(near):
                return near.inferred(Basis.FUSION_BODY)
            if second is NO_ORIGIN and near.basis is not None:
                second = near.inferred(Basis.FUSION_BODY)
            for operand in self.steps.operands(value.row):
                local = self.steps.definition(operand, is_local=True)
                if local not in seen and self._owners[local.row] == place:
                    seen.add(local)
                    waiting.append(local)
        return second

    # ---- loops ---------------------------------------------------------------------------------

    def _in_loop(self, value: Value, look: _Look) -> Origin:
        """Return the origin of what the body of a loop writes into an element that it carries."""
        written = self.steps.written(value)
        if written is None or self._owners[written.row] == self._owners[value.row]:
            return NO_ORIGIN
        if self._depth >= _STEPS:
            return NO_ORIGIN
        self._depth += 1
        near = self._with_loops(written, look)
        if not self.is_enough(near):
            near, _ = self._around(written, look)
        self._depth -= 1
        is_of_loop = _is_same_line(near.place, self.places.innermost(value.row))
        if near.basis in (None, Basis.ARGUMENT) or (is_of_loop and near.place is not None):
            return NO_ORIGIN
        return near.inferred(Basis.LOOP_BODY)

    def _is_of_loop(self, value: Value, near: Origin) -> bool:
        """Return whether the origin of a value is only the line of a loop.

        This is so for loops, for what their bodies do on that line, and for the slices that they
        take and store, also where XLA moved them out of the body.
        """
        if self._opcodes[value.row] == "while":
            return _is_same_line(near.place, self._loop_place(value.row))
        if near.place is not None and (near.op_name or "").endswith(_SLICES):
            return (near.place.file, near.place.line) in self._loop_lines
        loop = self._loop_around(value.row)
        return loop is not None and _is_same_line(near.place, self._loop_place(loop))

    @cached_property
    def _loop_lines(self) -> frozenset[tuple[str, int | None]]:
        rows = self._module.opcodes.places_of({"while"})
        places = map(self._loop_place, rows)
        return frozenset((place.file, place.line) for place in places if place is not None)

    def _stored_slice(self, value: Value) -> Value | None:
        """Return the slice that an instruction of a loop body only stores; None for all others."""
        row = value.row
        if self._opcodes[row] not in STORING:
            return None
        loop = self._loop_around(row)
        update = None if loop is None else self.steps.update(value)
        if loop is None or update is None:
            return None
        place = self.places.innermost(row)
        is_stored = place is None or _is_same_line(place, self._loop_place(loop))
        return update if is_stored else None

    def _loop_around(self, row: int) -> int | None:
        """Return the loop that runs an instruction, also in a fusion or call of its body."""
        for _ in range(_STEPS):
            call = self.steps.caller(row)
            if call is None:
                return None
            row = call.row
            if self._opcodes[row] == "while":
                return row
        return None

    def _loop_place(self, row: int) -> SourceLocation | None:
        """Return the place of a loop: its own, or that of the comparison that ends it."""
        place = self.places.innermost(row)
        root = self.steps.root(row, "condition") if place is None else None
        return self.places.innermost(root) if root is not None else place


def _is_same_line(one: SourceLocation | None, other: SourceLocation | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.file, one.line) == (other.file, other.line)


def _with_path(inferred: Origin, own: Origin) -> Origin:
    """Return an inferred origin, with the own operation path of the instruction if it has one."""
    if own.op_name is None:
        return inferred
    return inferred._replace(op_name=own.op_name, has_own_path=own.has_own_path)
