"""The origin of a collective in the user's program: operation path, source line, call stack.

Taken from the metadata of the collective; without a source line there, from its start or its
fusion; else inferred (`origins`) for it, or for its end. A combined collective, which has several
operands, has an origin for each: XLA's combiner keeps the metadata of what it combines on the
elements of the result; an element without metadata has the collective's own if that is of one
operation, else that of the operand. Texts since July 2026 do not print the elements. The
partitioner gives a collective the metadata of the operation that makes its operand, so a member has
that; one that the program asks for (``psum``) has the collective's own, as inferred. GPU compilers
pack the operands into one array instead: each part of the concatenation has its own origin.

In the text from before optimizations calls are not inlined: the path of an instruction in a called
function is that of the call and its own.

Source of the elements' metadata: HloComputation::ReplaceInstructionWithDifferentShape.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.origins import Basis, Origin, stack_texts
from hlo_lens.program.value_flow import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.program.origins import Origins
    from hlo_lens.program.runs import CallCounts
    from hlo_lens.questions.collectives.operations import CollectiveOp


_REORDERING = ("convert", "copy", "transpose", "bitcast-convert")

_FORMATTED = 8
"""Limit on the conversions and transposes of a result that are followed back."""

_CALLS = 16
"""Deepest nesting of calls in an operation path."""

_MOST_PATHS = 1000
"""Most operation paths of one instruction; computations that call each other have any number."""


def operations_of(
    before: HloModule, paths: Mapping[str, SourceLocation | None]
) -> Iterator[tuple[int, HloInstruction]]:
    """Yield the instructions of some paths; those at their places and products first.

    Each comes with the frame of its call stack that is at one of the places: 0 for the innermost.
    `paths` are operation paths as in the optimized text, with places in the user's program.
    """
    if not paths:
        return
    places = {(place.file, place.line) for place in paths.values() if place is not None}
    listed: list[tuple[int, HloInstruction]] = []
    for instruction in before.instructions:
        metadata = instruction.metadata
        if metadata is None or not metadata.op_name:
            continue
        is_path = any(path.endswith(metadata.op_name) for path in paths)
        if not is_path or opcode_traits(instruction.opcode).is_view:
            continue
        if paths.keys().isdisjoint(inlined_paths(instruction)):
            continue
        listed.append((_distance(instruction, places), instruction))
    yield from sorted(
        listed,
        key=lambda one: (one[0], not opcode_traits(computing_one(one[1]).opcode).is_heavy),
    )


def computing_one(instruction: HloInstruction) -> HloInstruction:
    """Return an instruction, or the one whose result it converts, reorders or copies."""
    for _ in range(_FORMATTED):
        found = instruction.producer(0)
        if found is None or instruction.opcode not in _REORDERING:
            break
        if found[0].opcode in ("parameter", "get-tuple-element"):
            break
        instruction = found[0]
    return instruction


def _distance(instruction: HloInstruction, places: Set[tuple[str, int | None]]) -> int:
    """Return at which frame of its call stack an instruction is at one of some places.

    0 is the innermost frame in the user's program; also where either is not known.
    """
    place = instruction.source_location
    if not places or place is None:
        return 0
    stack = instruction.user_stack or [place]
    found = (n for n, frame in enumerate(stack) if (frame.file, frame.line) in places)
    return next(found, len(stack))


_PART = re.compile(r"[():]")


def member_paths(path: str) -> list[str]:
    """Return the operation paths of a collective's members; XLA joins those of combined ones.

    >>> member_paths("a/(b:jvp(c)/d)"), member_paths("jit(f)/b")
    (['a/b', 'a/jvp(c)/d'], ['jit(f)/b'])
    """
    start, cuts, depth = -1, [], 0
    for match in _PART.finditer(path):
        place, sign = match.start(), match[0]
        if sign == "(" and start < 0 and (not place or path[place - 1] == "/"):
            start, cuts, depth = place, [place], 0
        elif start >= 0 and sign == ":" and not depth:
            cuts.append(place)
        elif sign == ")" and not depth and start >= 0:
            cuts.append(place)
            break
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    if len(cuts) < _LEAST_CUTS or cuts[-1] != len(path) - 1:
        return [path] if path else []
    members = (path[one + 1 : two] for one, two in itertools.pairwise(cuts))
    return list(dict.fromkeys(f"{path[:start]}{one}" for one in members))


_LEAST_CUTS = 3
"""Parentheses and colons of a path with two members."""


def inlined_paths(instruction: HloInstruction) -> set[str]:
    """Return the operation paths that an instruction gets when calls are inlined.

    The path of an instruction in a loop or a conditional has that of the loop in it already.
    """
    own = instruction.op_name or ""
    paths = {own}
    waiting = [(instruction.computation, own, 0)]
    seen: set[tuple[int, str]] = set()
    while waiting and len(paths) < _MOST_PATHS:
        computation, path, depth = waiting.pop()
        if (computation.place, path) in seen:
            continue
        seen.add((computation.place, path))
        for caller in computation.callers if depth < _CALLS else ():
            if caller.opcode == "call":
                outer = f"{caller.op_name}/{path}" if caller.op_name else path
                paths.add(outer)
                waiting.append((caller.computation, outer, depth + 1))
            elif caller.opcode in ("while", "conditional"):
                waiting.append((caller.computation, path, depth + 1))
    return paths


_NAMES = """
    psum psum_invariant psum2 pmax pmin pmean all_gather all_gather_invariant reduce_scatter
    psum_scatter all_to_all ragged_all_to_all ppermute pshuffle pswapaxes pbroadcast psend precv
    pgather
"""
_ASKED = frozenset(_NAMES.split())
"""Last part of the operation path of collectives that a program calls itself (jax/_src/lax/
parallel.py)."""


def last_part(path: str) -> str:
    """Return the operation of a path; of several that were combined, ``(a/x:b/y)``, the last."""
    whole = path.rstrip("/)")
    return whole[max(whole.rfind("/"), whole.rfind(":")) + 1 :]


def is_asked_path(path: str | None) -> bool:
    """Return whether an operation path is of collectives that the program calls itself."""
    if path is None or last_part(path) not in _ASKED:
        return False
    return all(last_part(one) in _ASKED for one in member_paths(path))


_COMBINED = re.compile(r"\((?<![^/]\()(?:[^():]++|\((?:[^()]++|\([^()]*+\))*+\))*+:")
"""Part of the operation path of instructions that XLA combined: ``a/(b/add:jvp(c)/mul)``."""


class Member(NamedTuple):
    """One of the operations that a combined collective performs; fields as in `Collective`."""

    source_file: str | None
    source_line: int | None
    op_name: str | None
    origin_basis: str | None
    payload_bytes: int | None


def shares(whole: int, sizes: Sequence[int]) -> list[int]:
    """Return an amount in proportion to some sizes; the first of the largest has the rest.

    >>> shares(10, [1, 1, 1])
    [4, 3, 3]
    """
    total = sum(sizes)
    found = [whole * size // total if total else 0 for size in sizes]
    found[sizes.index(max(sizes))] += whole - sum(found)
    return found


class CollectiveOrigin(NamedTuple):
    """Origin of a collective; fields as in `Collective`."""

    op_name: str | None
    source_file: str | None
    source_line: int | None
    stack: tuple[str, ...]
    origin_basis: str | None
    argument: str | None
    members: tuple[Member, ...]
    has_own_path: bool
    member_stacks: tuple[tuple[str, ...], ...]


class CollectiveOrigins:
    """Finds the origins of a module's collectives, once for equal metadata."""

    def __init__(self, module: HloModule, calls: CallCounts, origins: Origins) -> None:
        self._module = module
        self._calls = calls
        self._origins = origins
        self._stacks: dict[int, tuple[str, ...]] = {}
        self._own: dict[str, CollectiveOrigin | None] = {}

    def of(self, op: CollectiveOp, printed: str, payload_bytes: int | None) -> CollectiveOrigin:
        """Return the origin of a collective of a payload; one object for equal metadata."""
        row = op.instruction.row
        is_tuple = op.instruction.shape_text[:1] == "("
        has_several = is_tuple and len(self._module.links.operands_of(row)) > 1
        is_combined = has_several or _COMBINED.search(printed) is not None
        if opcode_traits(op.kind).is_combinable and is_combined:
            whole = self._find(op)
            listed = self._members(op, whole, payload_bytes)
            members, stacks = tuple(zip(*listed, strict=True)) or ((), ())
            found = self._origin(whole, members, stacks)
            return _at_largest(found) if _COMBINED.search(whole.op_name or "") else found
        if printed not in self._own:
            own = self._enough(row)
            self._own[printed] = None if own is None else self._origin(own)
        return self._own[printed] or self._origin(self._find(op))

    def _origin(
        self,
        found: Origin,
        members: tuple[Member, ...] = (),
        stacks: tuple[tuple[str, ...], ...] = (),
    ) -> CollectiveOrigin:
        place = found.place
        return CollectiveOrigin(
            op_name=found.op_name,
            source_file=None if place is None else place.file,
            source_line=None if place is None else place.line,
            stack=self._stack(found),
            origin_basis=found.basis,
            argument=None if members else found.argument,
            members=members,
            has_own_path=found.has_own_path,
            member_stacks=stacks,
        )

    def _find(self, op: CollectiveOp) -> Origin:
        row = op.instruction.row
        own = self._enough(row) or self._enough(op.start.row)
        if own is not None:
            return own
        for site in self._calls.sites_at(op.instruction.computation.place):
            if site.caller.opcode in ("fusion", "async-start"):
                own = self._enough(site.caller.row)
                if own is not None:
                    return own
        found = self._origins.of_row(row)
        end = None if op.done is None else self._origins.of_row(op.done.row)
        if found.place is not None or end is None or end.place is None:
            return found
        # a send between slices has its users behind the recv
        end = end.inferred(Basis.USER)._replace(argument=found.argument)
        return end._replace(op_name=found.op_name, has_own_path=True) if found.has_own_path else end

    def _enough(self, row: int) -> Origin | None:
        own = self._origins.own(row)
        return own if own is not None and self._origins.is_enough(own) else None

    def _stack(self, origin: Origin) -> tuple[str, ...]:
        places = self._origins.stack(origin)
        key = id(places)  # which the origins keep: one for all equal rows
        if key not in self._stacks:
            self._stacks[key] = stack_texts(places)
        return self._stacks[key]

    # ---- combined collectives ------------------------------------------------------------------

    def _members(
        self, op: CollectiveOp, whole: Origin, payload_bytes: int | None
    ) -> tuple[tuple[Member, tuple[str, ...]], ...]:
        shape = op.instruction.shape
        if shape is None:
            return ()
        steps = self._origins.steps
        operands = steps.operands(op.instruction.row) if shape.is_tuple else self._packed(op)
        if len(operands) < 2:
            return ()
        sizes = [steps.size(operand) for operand in operands]
        payloads = [None] * len(sizes) if payload_bytes is None else shares(payload_bytes, sizes)
        elements = self._elements(op)
        found = []
        for position, (operand, share) in enumerate(zip(operands, payloads, strict=True)):
            is_printed = position in elements
            origin = elements.get(position) or self._member(operand, whole, is_printed=is_printed)
            placed = origin if origin.place is not None else whole
            file = None if placed.place is None else placed.place.file
            line = None if placed.place is None else placed.place.line
            member = Member(file, line, origin.op_name, origin.basis, share)
            found.append((member, self._stack(placed)))
        return tuple(found)

    def _member(self, operand: Value, whole: Origin, *, is_printed: bool) -> Origin:
        """Return the origin of a member whose element is not printed, or has no origin."""
        is_one = whole.basis is Basis.OWN and not _COMBINED.search(whole.op_name or "")
        if is_one and is_printed:
            return whole
        if whole.basis is Basis.OWN and is_asked_path(whole.op_name):
            return whole.inferred(Basis.COMBINED)
        origin = self._origins.of_value(operand)
        if is_one and origin.place in (None, whole.place):
            return whole
        return origin.inferred(Basis.OPERAND) if origin.basis is Basis.OWN else origin

    def _packed(self, op: CollectiveOp) -> list[Value]:
        """Return the values that XLA packed into the operand of a collective."""
        steps = self._origins.steps
        operand = steps.operand(op.instruction.row, 0)
        if operand is None:
            return []
        packed = steps.definition(operand)
        root = steps.root(packed.row) if self._origins.opcode(packed.row) == "fusion" else None
        row = packed.row if root is None else root
        if self._origins.opcode(row) != "concatenate":
            return []
        return [steps.definition(value) for value in steps.operands(row)]

    def _elements(self, op: CollectiveOp) -> dict[int, Origin | None]:
        """Return the origins that elements of the result of a combined collective have.

        None for an element that is printed without one.
        """
        found: dict[int, Origin | None] = {}
        end = op.instruction if op.done is None else op.done
        for user in self._origins.steps.users(Value(end.row)):
            element = self._module.instruction(user.row)
            number = element.tuple_index if element.opcode == "get-tuple-element" else None
            if number is None or found.get(number) is not None:
                continue
            own = self._origins.own(user.row)
            is_of_all = own is None or own.place is None or _COMBINED.search(own.op_name or "")
            found[number] = None if is_of_all else own
        return found


def _at_largest(found: CollectiveOrigin) -> CollectiveOrigin:
    """Return an origin at the line of the largest member; XLA keeps the line of any of them."""
    if not found.members:
        return found
    sizes = [member.payload_bytes or 0 for member in found.members]
    position = sizes.index(max(sizes))
    member = found.members[position]
    if (member.source_file, member.source_line) == (found.source_file, found.source_line):
        return found
    return found._replace(
        source_file=member.source_file,
        source_line=member.source_line,
        stack=found.member_stacks[position],
        origin_basis=member.origin_basis,
    )
