"""The origin of a collective in the user's program: operation path, source line, call stack.

Taken from the metadata of the collective; without a source line there, from its start or its
fusion; else inferred (`origins`) for it, or for its end. A combined collective, which has several
operands, has an origin for each: XLA's combiner keeps the metadata of what it combines on the
elements of the result; an element without metadata has the collective's own if that is of one
operation, else that of the operand. Texts since July 2026 do not print the elements. The
partitioner gives a collective the metadata of the operation that makes its operand, so a member has
that; one that the program asks for (``psum``) has that of the call in the text from before
optimizations with its path, shape and operand, else the collective's own, as inferred. GPU
compilers pack the operands into one array instead: each part of the concatenation has its own
origin.

Source of the elements' metadata: HloComputation::ReplaceInstructionWithDifferentShape.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.origins import Basis, Origin, stack_texts
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.asked import AskedCollectives, is_asked_path
from hlo_lens.questions.collectives.results import Member, shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.origins import Origins
    from hlo_lens.program.runs import CallCounts
    from hlo_lens.questions.collectives.operations import CollectiveOp
    from hlo_lens.questions.collectives.printed_attributes import PrintedAttributes

_COMBINED = re.compile(r"\((?<![^/]\()(?:[^():]++|\((?:[^()]++|\([^()]*+\))*+\))*+:")
"""Part of the operation path of instructions that XLA combined: ``a/(b/add:jvp(c)/mul)``."""


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
    """Finds the origins of a module's collectives, once for equal metadata.

    Args:
        module: The module.
        calls: Callers of its computations.
        origins: Origins of the module's values.
        before: Returns the text from before optimizations; called only for combined collectives
            that the program asks for and whose elements the text does not print.
    """

    def __init__(
        self,
        module: HloModule,
        calls: CallCounts,
        origins: Origins,
        before: Callable[[], HloModule | None] | None = None,
    ) -> None:
        self._module = module
        self._calls = calls
        self._origins = origins
        self._asked = AskedCollectives(before)
        self._stacks_before: dict[Origin, tuple[str, ...]] = {}
        self._stacks: dict[int, tuple[str, ...]] = {}
        self._own: dict[str, CollectiveOrigin | None] = {}

    def of(
        self, op: CollectiveOp, printed: PrintedAttributes, payload_bytes: int | None
    ) -> CollectiveOrigin:
        """Return the origin of a collective of a payload; one object for equal metadata."""
        is_array = op.instruction.shape_text[:1].isalpha()
        is_combined = not is_array or _COMBINED.search(printed.text) is not None
        if opcode_traits(op.kind).is_combinable and is_combined:
            whole = self._find(op)
            listed = self._members(op, whole, payload_bytes)
            members, stacks = tuple(zip(*listed, strict=True)) or ((), ())
            found = self._origin(whole, members, stacks)
            return _at_largest(found) if _COMBINED.search(whole.op_name or "") else found
        if printed.text not in self._own:
            own = self._enough(op.instruction.row)
            self._own[printed.text] = None if own is None else self._origin(own)
        return self._own[printed.text] or self._origin(self._find(op))

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
        return found if found.place is not None else self._of_end(op, found)

    def _of_end(self, op: CollectiveOp, found: Origin) -> Origin:
        """Return the origin of the end: a send between slices has its users behind the recv."""
        end = None if op.done is None else self._origins.of_row(op.done.row)
        if end is None or end.place is None:
            return found
        end = end.inferred(Basis.USER)._replace(argument=found.argument)
        return end._replace(op_name=found.op_name, has_own_path=True) if found.has_own_path else end

    def _enough(self, row: int) -> Origin | None:
        """Return the origin of an instruction's own metadata; None if that is not enough."""
        own = self._origins.own(row)
        return own if own is not None and self._origins.is_enough(own) else None

    def _stack(self, origin: Origin) -> tuple[str, ...]:
        """Return a call stack as text, innermost first: ``file:line (function)``."""
        if origin.basis is Basis.BEFORE:
            return self._stacks_before[origin]
        places = self._origins.stack(origin)
        key = id(places)  # which the origins keep: one for all equal rows
        if key not in self._stacks:
            self._stacks[key] = stack_texts(places)
        return self._stacks[key]

    # ---- combined collectives ------------------------------------------------------------------

    def _members(
        self, op: CollectiveOp, whole: Origin, payload_bytes: int | None
    ) -> tuple[tuple[Member, tuple[str, ...]], ...]:
        """Return the operations of a combined collective, with their call stacks."""
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
        origin = self._origins.of_value(operand)
        if whole.basis is Basis.OWN and is_asked_path(whole.op_name):
            return self._asked_for(operand, whole, self._maker(operand, origin))
        if is_one and origin.place in (None, whole.place):
            return whole
        return origin.inferred(Basis.OPERAND) if origin.basis is Basis.OWN else origin

    def _maker(self, operand: Value, origin: Origin) -> str | None:
        """Return the operation path of what makes an operand; None if not known."""
        steps = self._origins.steps
        made = steps.definition(operand)
        root = steps.root(made.row) if self._origins.opcode(made.row) == "fusion" else None
        if made.element and root is not None:  # the fusion has the path of one of its results
            local = steps.definition(Value(root, made.element), is_local=True)
            own = self._origins.own(local.row)
            return None if own is None or local.element else own.op_name
        return origin.op_name if origin.basis in (Basis.OWN, Basis.FUSION_BODY) else None

    def _asked_for(self, operand: Value, whole: Origin, maker: str | None) -> Origin:
        """Return the origin of a member that the program asks for, made from an operand."""
        shape = self._module.instruction(operand.row).shape_of(operand.element)
        asked = self._asked.of(whole.op_name or "", shape, maker)
        if asked is None:
            return whole.inferred(Basis.COMBINED)
        if (asked.place, asked.path) == (whole.place, whole.op_name):
            return whole
        origin = Origin(asked.place, asked.path, Basis.BEFORE)
        stack = asked.stack_within(self._origins.stack(whole))
        self._stacks_before[origin] = stack_texts(stack)
        return origin

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
