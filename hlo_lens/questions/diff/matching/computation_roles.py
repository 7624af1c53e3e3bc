"""Role of a computation in a program: entry, loop body, branch, fusion."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from hlo_lens.questions.diff.matching.graph import ProgramGraph

_DEEPEST = 64
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Role:
    """Role of a computation.

    Attributes:
        text: In words: ``entry``, ``body of while.3``, ``fusion in body of while.3``.
        general: The same without numbers and names of fusions, for grouping.
        loops: Names of the loops around it, outermost first.
        is_embedded: Whether it runs as part of its caller: a fusion, a reducer, a comparator.
        caller: The first node that calls it; -1 for none.
    """

    text: str
    general: str
    loops: tuple[str, ...] = ()
    is_embedded: bool = False
    caller: int = -1


class Roles:
    """Roles of the computations of one program, found when first asked for."""

    def __init__(self, graph: ProgramGraph) -> None:
        self._graph = graph
        self._found: dict[int, Role] = {}
        self._callers: dict[int, tuple[int, str, int]] = {}
        for node in sorted(graph.callees):
            for place, (role, computation) in enumerate(graph.callees[node]):
                self._callers.setdefault(computation, (node, role, place))

    def of(self, computation: int) -> Role:
        """Return the role of a computation."""
        path: list[int] = []
        while computation not in self._found:
            caller = self._callers.get(computation)
            if caller is None or computation == self._graph.entry or len(path) > _DEEPEST:
                is_entry = computation == self._graph.entry
                name = "entry" if is_entry else "not called"
                self._found[computation] = Role(name, name)
                break
            if computation in path:
                self._found[computation] = Role("calls itself", "calls itself")
                break
            path.append(computation)
            computation = self._graph.owner[caller[0]]
        for inner in reversed(path):
            node, role, place = self._callers[inner]
            if inner not in self._found:
                outer = self._found[self._graph.owner[node]]
                self._found[inner] = self._inside(outer, node, role, place)
            computation = inner
        return self._found[computation]

    def _inside(self, outer: Role, node: int, role: str, place: int) -> Role:
        graph = self._graph
        opcode = graph.opcode(node)
        name = graph.instruction(node).name
        traits, loops = opcode_traits(opcode), outer.loops
        if opcode == "while":
            text = f"{role} of {name}" + (f" in {outer.text}" if loops else "")
            general = _NUMBER.sub("*", text)
            loops = (*loops, name)
        elif opcode == "conditional":
            text = f"branch {place} of {name} in {outer.text}"
            general = f"branch of conditional in {outer.general}"
        else:
            what = opcode if traits.is_runner else f"{role} of {opcode}"
            text = f"{what} {name} in {outer.text}"
            general = f"{what} in {outer.general}"
        return Role(text, general, loops, is_embedded=not traits.is_control_flow, caller=node)
