"""Shardings of arguments and results, edited in both spellings of the text.

With Shardy an argument has ``xla.sdy.sharding`` in its frontend attributes, and a result of stated
sharding is a custom call ``xla.sdy.FuncResultSharding``; with GSPMD an argument has ``sharding=``,
and so has the ROOT. Texts for Shardy have both. What the program leaves to XLA is named by
``allow_spmd_sharding_propagation_to_output`` in the header.

JAX divides arguments and results evenly or refuses to (pjit_check_aval_sharding in
jax/_src/pjit.py of jax 0.10.2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.arguments import (
    FUNC_RESULT,
    EntryArrays,
    element_text,
    index_of,
    is_result_call,
    result_name,
)
from hlo_lens.questions.what_if.donation import donated_results
from hlo_lens.questions.what_if.edit import Change, ProgramEdit
from hlo_lens.questions.what_if.mesh_sharding import MeshSharding, ProgramMeshes, why_uneven
from hlo_lens.questions.what_if.text_edits import TextEdits
from hlo_lens.shapes import shardy
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.partition_spec import PartitionSpec, partition_spec_text, read_partition_spec
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.sharding.table import ShardedValue
    from hlo_lens.shapes.mesh import Mesh

_TO = "allow_spmd_sharding_propagation_to_"
_ATTRIBUTE = re.compile(r'(xla\.sdy\.sharding=)"(?:[^"\\]|\\.)*"')
_MESH_NAME = re.compile(r"<@([\w.$-]+)")


def edit_sharding(
    module: HloModule, requests: Iterable[str], *, meshes: Sequence[Mesh] = ()
) -> ProgramEdit:
    """Return the text's change for shardings of arguments and results.

    A result that an argument is donated to gets the argument's sharding, unless a request names it.

    Args:
        module: The program before optimizations.
        requests: ``PATTERN=P(..)``: arguments by pattern, a result as ``result{3}``.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a request is malformed.
    """
    sharder = _Sharder(EntryArrays.of(module), meshes)
    return sharder.edit([(text, *_request(text)) for text in requests])


@dataclass(frozen=True, slots=True, kw_only=True)
class Resharded:
    """An argument or result with another sharding.

    Attributes:
        place: Its position among arguments, or among results.
        sharding: The sharding over a mesh of the program.
        is_result: Whether it is a result.
    """

    place: int
    sharding: MeshSharding
    is_result: bool = False


def _request(text: str) -> tuple[str, PartitionSpec]:
    pattern, sign, spec = text.rpartition("=")
    if not sign or not pattern:
        raise UsageError(f"not a sharding: {text!r}; write it like \"params['w']=P(None, 'x')\"")
    return pattern, read_partition_spec(spec)


class _Sharder:
    """Edits of the shardings of one module."""

    def __init__(self, arrays: EntryArrays, given: Sequence[Mesh]) -> None:
        module = arrays.module
        self.arrays = arrays
        self.edits = TextEdits(module)
        self.module = module
        self.meshes = ProgramMeshes(module, given)
        self.is_shardy = self.meshes.is_shardy
        self.parameters = {one.parameter_number: one for one in module.entry.parameters}

    def edit(self, requests: Sequence[tuple[str, str, PartitionSpec]]) -> ProgramEdit:
        changes: list[Change] = []
        values: list[Resharded] = []
        followers = donated_results(self.arrays)
        named = {place for _, pattern, _ in requests for place in self.arrays.results_of(pattern)}
        for text, pattern, spec in requests:
            made: list[Change] = []
            for place in self.arrays.arguments_of(pattern):
                follower = followers.get(place)
                if follower in named or follower in self.arrays.open_results:
                    follower = None
                made.append(self._argument(place, spec, follower, values))
            made += [self._output(one, spec, values) for one in self.arrays.results_of(pattern)]
            if not made:
                reason = self.arrays.nothing_matches(pattern)
                made.append(Change.refused("shard", pattern, reason))
            changes += [change.for_request(text) for change in made]
        for one in values:
            self._apply(one)
        return ProgramEdit(changes=tuple(changes), replacements=self.edits.replacements())

    def _apply(self, one: Resharded) -> None:
        """Edit the sharding of one argument or result."""
        arrays = self.arrays
        value = (arrays.results if one.is_result else arrays.arguments)[one.place]
        rank = len(value.global_shape.dimensions) if value.global_shape else 0
        if one.is_result:
            self._set_result(one.place, one.sharding, rank)
        else:
            self._set(self.parameters[value.value.number], one.sharding, rank)
            self._close("parameters", one.place, len(arrays.arguments))

    # ---- applicability -------------------------------------------------------------------------

    def _chosen(self, value: ShardedValue, spec: PartitionSpec) -> MeshSharding | str:
        """Return the sharding over a mesh of the program, or why there is none."""
        shape = value.global_shape
        if shape is None or shape.is_token:
            return "its shape is not known"
        if index_of(value) and value.value.kind == "parameter":
            return "the arguments are passed as one tuple"
        if value.sharding is not None and value.sharding.kind is ShardingKind.MANUAL:
            return "it is manual: its shape is that of one device"
        chosen = self.meshes.chosen(spec, self._mesh_name(value))
        if isinstance(chosen, str):
            return chosen
        if reason := why_uneven(shape.dimensions, chosen):
            return reason
        new = HloSharding.from_partition_spec(chosen.mesh, spec, rank=shape.rank)
        if value.sharding is not None and value.sharding.equivalent(new):
            return f"it is sharded so: {partition_spec_text(spec)}"
        return chosen

    def _mesh_name(self, value: ShardedValue) -> str | None:
        source = self.parameters.get(value.value.number)
        text = "" if source is None else source.frontend_attributes.get(shardy.SHARDING, "")
        match = _MESH_NAME.search(text)
        return match[1] if match else None

    # ---- arguments -----------------------------------------------------------------------------

    def _argument(
        self, place: int, spec: PartitionSpec, follower: int | None, values: list[Resharded]
    ) -> Change:
        value = self.arrays.arguments[place]
        name = str(value.value.name)
        chosen = self._chosen(value, spec)
        if isinstance(chosen, str):
            return Change.refused("shard", name, chosen)
        values.append(Resharded(place=place, sharding=chosen))
        effect = str(chosen)
        if follower is not None:
            values.append(Resharded(place=follower, sharding=chosen, is_result=True))
            name_of_it = result_name(self.arrays.results[follower])
            effect += f"; {name_of_it}, which has its memory, follows"
        return Change(kind="shard", target=name, effect=effect)

    def _set(self, instruction: HloInstruction, chosen: MeshSharding, rank: int) -> None:
        self.edits.set_attribute(instruction, "sharding", chosen.hlo(rank))
        if self.is_shardy:
            self._set_shardy(instruction, f"#sdy.sharding{chosen.shardy(rank)}")

    def _set_shardy(self, instruction: HloInstruction, text: str) -> None:
        known = self.edits.attribute(instruction, "frontend_attributes")
        entry = f'{shardy.SHARDING}="{text}"'
        if known is None or known == "{}":
            new = f"{{{entry}}}"
        elif _ATTRIBUTE.search(known):
            new = _ATTRIBUTE.sub(lambda _: entry, known)
        else:
            new = f"{{{entry},{known[1:]}"
        self.edits.set_attribute(instruction, "frontend_attributes", new)

    def _close(self, which: str, place: int, count: int) -> None:
        """Say that XLA does not choose the sharding of one argument or result."""
        flags = _flags(self.edits.header(_TO + which))
        flags = flags * count if len(flags) == 1 else flags
        if place < len(flags) and flags[place]:
            flags[place] = False
            shown = len(flags) > 1 or any(flags)  # XLA does not print {false}
            words = ",".join("true" if flag else "false" for flag in flags)
            self.edits.set_header(_TO + which, f"{{{words}}}" if shown else "")

    # ---- results -------------------------------------------------------------------------------

    def _output(self, place: int, spec: PartitionSpec, values: list[Resharded]) -> Change:
        value = self.arrays.results[place]
        chosen = self._chosen(value, spec)
        if isinstance(chosen, str):
            return Change.refused("shard", result_name(value), chosen)
        values.append(Resharded(place=place, sharding=chosen, is_result=True))
        return Change(kind="shard", target=result_name(value), effect=str(chosen))

    def _set_result(self, place: int, chosen: MeshSharding, rank: int) -> None:
        root = self.module.entry.root
        if root is None:
            return
        if root.opcode == "tuple" and index_of(self.arrays.results[place]):
            self._set_element(root, place, chosen, rank)
        else:
            self._set_single(root, chosen, rank)
        self._close("output", place, len(self.arrays.results))

    def _set_element(
        self, root: HloInstruction, place: int, chosen: MeshSharding, rank: int
    ) -> None:
        """Edit the sharding of one element of the result."""
        if self.is_shardy:
            made = self._result_call(root, place, chosen, rank)
            if made is not None:
                self.edits.set_operand(root, place, made)
        known = self.edits.attribute(root, "sharding")
        if known is None and self.is_shardy:
            return
        shapes = root.shape.tuple_shapes if root.shape is not None else ()
        words = ["{replicated}"] * len(shapes)
        if known is not None:
            read = self.module.reader.sharding(known)
            if read.elements:
                words = [element.text for element in read.elements]
        words[place] = chosen.hlo(rank)
        self.edits.set_attribute(root, "sharding", f"{{{', '.join(words)}}}")

    def _set_single(self, root: HloInstruction, chosen: MeshSharding, rank: int) -> None:
        """Edit the sharding of a result that is no tuple, as JAX writes it: taken from a tuple."""
        edits = self.edits
        if root.opcode == "get-tuple-element" and root.attribute("sharding") is not None:
            made = root.producer(0)
            edits.set_attribute(root, "sharding", chosen.hlo(rank))
            if self.is_shardy and made is not None and made[0].opcode == "tuple":
                name = self._result_call(made[0], 0, chosen, rank)
                if name is not None:
                    edits.set_operand(made[0], 0, name)
            return
        shape, name = root.shape_text, root.name
        edits.remove_root(root)
        last = self.module.instruction(self.module.entry.rows[-1])
        if self.is_shardy:
            name = self._new_call(root, name, shape, chosen.shardy(rank))
        pair, result = edits.new_name(root), edits.new_name(root)
        write = edits.reference
        edits.insert_after(last, f"{write(pair)} = ({shape}) tuple({write(name)})")
        edits.insert_after(
            last,
            f"ROOT {write(result)} = {shape} get-tuple-element({write(pair)}), index=0, "
            f"sharding={chosen.hlo(rank)}",
        )

    def _result_call(
        self, root: HloInstruction, place: int, chosen: MeshSharding, rank: int
    ) -> str | None:
        """Edit the custom call behind a result; return the name of a new one, else None."""
        found = root.producer(place)
        if found is not None and not found[1] and is_result_call(found[0]):
            call = found[0]
            self._set_shardy(call, f"#sdy.sharding_per_value<[{chosen.shardy(rank)}]>")
            for user in self.module.entry.instructions:
                is_copy = user.opcode == "reshape" and user.operand_names == (call.name,)
                if is_copy and user.attribute("sharding") is not None:
                    self.edits.set_attribute(user, "sharding", chosen.hlo(rank))
            return None
        shape = element_text(root, place)
        return self._new_call(root, self.edits.operand(root, place), shape, chosen.shardy(rank))

    def _new_call(self, user: HloInstruction, operand: str, shape: str, sharding: str) -> str:
        """Add a custom call before its user that states the sharding of a result; return its name.

        A user that was the ROOT before, and the last instruction, gets it after itself.
        """
        edits = self.edits
        name = edits.new_name(user)
        line = (
            f"{edits.reference(name)} = {shape} custom-call({edits.reference(operand)}), "
            f'custom_call_target="{FUNC_RESULT}", custom_call_has_side_effect=true, '
            f'frontend_attributes={{{shardy.SHARDING}="#sdy.sharding_per_value<[{sharding}]>"}}'
        )
        if user.name == operand:
            edits.insert_after(self.module.instruction(user.computation.rows[-1]), line)
        else:
            edits.insert_before(user, line)
        return name


def _flags(text: str) -> list[bool]:
    return [word.strip() == "true" for word in text.strip("{}").split(",") if word.strip()]
