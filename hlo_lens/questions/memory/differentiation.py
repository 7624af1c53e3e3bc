"""Whether instructions belong to the forward or to the backward pass of a differentiated program.

JAX names the backward pass in operation paths: ``jit(step)/transpose(jvp())/...``. In a text from
before optimizations the paths of a called computation, such as the body of a scan, are relative
(``checkpoint/dot_general``): they belong below the path of the instruction that calls it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.memory.argument_roles import BACKWARD

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.origins import InstructionPlaces

RECOMPUTED = "rematted_computation"
"""Part of the paths of what ``jax.checkpoint`` computes again, for the backward pass."""


class _Callers(NamedTuple):
    """What the callers of a computation show about it.

    Attributes:
        path: Path of the first caller, from the program on; None if not known.
        is_forward: Whether a caller is of the forward pass; None if not known.
    """

    path: str | None
    is_forward: bool | None


_UNKNOWN = _Callers(None, None)


class Differentiation:
    """Passes and whole operation paths of the instructions of a module.

    Args:
        module: The module.
        places: Metadata of its instructions.
    """

    def __init__(self, module: HloModule, places: InstructionPlaces) -> None:
        self._module = module
        self._places = places
        text = module.columns.source.text
        self._has_backward = BACKWARD in text or RECOMPUTED in text

    def path(self, row: int) -> str | None:
        """Return the operation path from the program on; the text's own if no caller has one."""
        own = self._places.op_name(row)
        return None if own is None else self._whole_path(row, self._callers)

    def is_forward(self, row: int) -> bool | None:
        """Return whether an instruction is of the forward pass; None if no path decides it.

        Of a computation with several callers the forward pass counts.
        """
        if not self._has_backward:
            return True
        return self._pass(row, self._callers)

    def _pass(self, row: int, callers: dict[int, _Callers]) -> bool | None:
        own, owner = self._places.op_name(row), self._module.links.owners[row]
        if own is not None and (BACKWARD in own or RECOMPUTED in own):
            return False
        if owner == self._module.entry.place:
            return None if own is None else True
        if own is not None and self._is_whole(own):
            return True
        return callers.get(owner, _UNKNOWN).is_forward

    def _is_whole(self, path: str) -> bool:
        return path.partition("/")[0] in self._programs

    @cached_property
    def _programs(self) -> frozenset[str]:
        """Beginnings of whole paths, those of the entry: ``jit(step)``."""
        names = map(self._places.op_name, self._module.entry.rows)
        paths = (name.partition("/") for name in names if name is not None)
        return frozenset(first for first, slash, _ in paths if slash and first.endswith(")"))

    @cached_property
    def _callers(self) -> dict[int, _Callers]:
        """What the callers of each computation show; a text has callers after what they call."""
        found: dict[int, _Callers] = {}
        calls, entry = self._module.links.calls, self._module.entry.place
        for place in reversed(range(len(self._module.computations))):
            if place == entry:
                continue
            rows = [call.row for call in calls.of_computation(place)]
            passes = {self._pass(row, found) for row in rows}
            is_forward = None
            if True in passes or passes == {False}:
                is_forward = True in passes
            path = self._whole_path(rows[0], found) if rows else None
            found[place] = _Callers(path, is_forward)
        return found

    def _whole_path(self, row: int, callers: dict[int, _Callers]) -> str | None:
        """Return the path of a row from the program on; that of its callers if it has none."""
        own, owner = self._places.op_name(row), self._module.links.owners[row]
        above = callers.get(owner, _UNKNOWN).path
        if own is None or self._is_whole(own) or above is None:
            return own or above
        return f"{above}/{own}"
