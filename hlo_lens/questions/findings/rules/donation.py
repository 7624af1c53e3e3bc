"""Rules about donation: memory that an argument and the result replacing it could share."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.program.origins import origins
from hlo_lens.program.signature import entry_signature, updated_arguments
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, Severity, at
from hlo_lens.questions.findings.findings import LEAST_BYTES, whole
from hlo_lens.questions.findings.rule import PEAK, module_rule
from hlo_lens.questions.findings.values import (
    argument_of,
    call_note,
    call_place,
    is_on_host,
    is_own_slice,
    is_part,
    operands_of,
    uses_of,
)
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.savings import (
    Donation,
    DonationStatus,
    resharded_arguments,
    sharding_results,
)
from hlo_lens.questions.what_if.arguments import covering_patterns
from hlo_lens.shapes.named_sharding import written_spec
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.signature import EntryValue
    from hlo_lens.questions.sharding.savings import Donation, Resharded


# ---- M001 ----------------------------------------------------------------------------------------
@module_rule("M001")
def undonated_argument(known: ModuleDump) -> Iterator[Finding]:
    """An argument is not donated, although a result could have its memory.

    What: The program has a result of the same shape, element type, layout and sharding as an
    argument, and the argument is not donated. The old and the new value are in memory together: the
    parameters and the optimizer state of a training step twice, the cache of a decoding step twice.
    Why it costs: The bytes of the argument, on every device, during the whole step. The saving is
    "up to": XLA copies a donated argument that is still read after its result is written.
    Fix: Donate the argument where the function is jitted: jax.jit(step,
    donate_argnames=("state",)), and use only the returned value afterwards. Donation needs equal
    shardings: give out_shardings where the result's is left to XLA.
    Fine when: The caller needs the old value after the call, for example to compare or to retry. It
    is an info where no result is computed from the argument element by element: gradients have the
    shapes of the weights, which the caller still needs.
    """
    shardings = sharding_results(known)
    if shardings is None or not shardings.is_complete or is_part(known):
        return
    groups: dict[str, list[Donation]] = {}
    for one in shardings.donations.of(DonationStatus.DONATABLE):
        if one.value.value.name and not is_on_host(known, one.value):
            groups.setdefault(argument_of(one.value.value.name), []).append(one)
    counts = Counter(argument_of(one.name) for one in entry_signature(known).parameters)
    updated = frozenset[int]().union(*updated_arguments(known).values()) if groups else ()
    for argument, leaves in groups.items():
        names = tuple(str(one.value.value.name) for one in leaves)
        is_part_of_it = names != (argument,)
        what = f"{len(leaves)} of {plural(counts[argument], 'array')}, " * is_part_of_it
        is_updated = any(one.value.value.number in updated for one in leaves)
        size = _size(leaves)
        targets = [argument] if len(names) > 1 else names
        yield Finding(
            message=f"argument {argument} ({what}{format_bytes(size)}) is not donated",
            fix=_undonated_fix(known, argument, leaves[0].value.value),
            **at(call_place(known)),
            values=names,
            evidence=(
                *call_note(known),
                *(() if is_updated else (_NO_UPDATE,)),
                *(
                    f"{one.value.value.name} ({format_bytes(one.value.device_bytes or 0)}) could "
                    f"have the memory of {f'result {one.output}' if one.output else 'the result'}: "
                    f"{one.reason}"
                    for one in leaves[:_MOST_SHOWN]
                ),
            ),
            saves=Saves.up_to(size),
            severity=None if is_updated else Severity.INFO,
            changes=tuple(Remedy(kind="donate", target=one) for one in targets),
        )


def _size(leaves: Sequence[Donation]) -> int:
    return sum(one.value.value.padded_size_bytes or one.value.device_bytes or 0 for one in leaves)


_NO_UPDATE = (
    "no result is an update of it: the caller may still need it, as gradients of weights do"
)
_MOST_SHOWN = 5


def _undonated_fix(known: ModuleDump, argument: str, value: EntryValue) -> str:
    wrapper, _, function = hlo_text(known).name.partition("_")
    call, place = f"jax.{wrapper}({function or '...'}", f"parameter {value.number} of the program"
    if wrapper not in ("jit", "pmap"):
        return f"alias {place} ({argument}) with its result when the program is compiled"
    if argument.startswith("args["):
        return f"{call}, donate_argnums=({argument[5:-1]},))"
    if value.is_named and argument.isidentifier() and wrapper == "jit":  # pmap takes positions only
        return f'{call}, donate_argnames=("{argument}",))'
    return f"{call}, donate_argnums=...) with the argument that is {place} ({argument})"


# ---- M002 ----------------------------------------------------------------------------------------
_NO_SHAPE = "no output has its shape"
_NOT_USED = "XLA did not use it"
_DROPPED = "XLA dropped the alias"
_LARGE = 0.1
"""Share of what must fit from which a donation that is not used is a warning."""


@module_rule("M002")
def unused_donation(known: ModuleDump) -> Iterator[Finding]:
    """The result that replaces an argument does not have its memory, although it was to.

    What: The function was jitted with the argument in donate_argnums or donate_argnames, and the
    compiled program does not reuse its memory: no result has its shape, element type, layout or
    sharding, or XLA dropped the alias. Or the result is the argument, updated, and divided in
    another way: JAX then drops the donation before the program is text.
    Why it costs: The argument and the result that should replace it are in memory together, as if
    it were not donated.
    Fix: Make the result like the argument: cast it to the argument's element type. Where both are
    divided in different ways, give the argument the sharding of the result in in_shardings; or the
    result that of the argument, where the result is the larger. Where no result belongs to the
    argument, donating it saves nothing.
    Fine when: The caller only wants the argument's memory to be freed after the call, which
    donation does on its own.
    """
    shardings = sharding_results(known)
    if shardings is None or not shardings.is_complete or is_part(known):
        return
    pairs = resharded_arguments(known)
    yield from _resharded(known, pairs)
    paired = {one.argument.value.number for one in pairs}
    # no text of an earlier stage shows what XLA makes of donations
    stage = known.stage or "after_optimizations"
    is_final = hlo_text(known).is_scheduled or "after_optimizations" in stage
    groups: dict[tuple[str, str], list[Donation]] = {}
    for status in (DonationStatus.UNUSED, DonationStatus.LOST):
        for one in shardings.donations.of(status):
            kind = one.reason.partition(":")[0]  # without the names of results
            kind = _NOT_USED if kind.endswith(_NOT_USED) else kind
            kind = _DROPPED if one.status is DonationStatus.LOST else kind
            is_new = one.value.value.number not in paired
            if is_new and (is_final or kind not in (_NOT_USED, _DROPPED)):
                groups.setdefault((argument_of(one.value.value.name or ""), kind), []).append(one)
    for (argument, kind), leaves in groups.items():
        names = tuple(str(one.value.value.name) for one in leaves)
        what = f"{plural(len(leaves), 'array')}, " * (names != (argument,))
        size = _size(leaves)
        fix = _UNUSED_FIXES.get(
            kind, "return a result with the shape, element type and sharding of it"
        )
        if kind.startswith("all outputs of its shape are taken"):
            fix = "other arguments have all results like {}: donating it saves nothing"
        yield Finding(
            message=(
                f"argument {argument} ({what}{format_bytes(size)}) is donated, but its memory is "
                f"not reused: {leaves[0].reason if len(leaves) == 1 else kind}"
            ),
            fix=fix.format(argument),
            **at(call_place(known)),
            values=names,
            evidence=(
                *(f"{one.value.value.name}: {one.reason}" for one in leaves[:_MOST_SHOWN]),
                *call_note(known),
            ),
            saves=Saves() if kind == _NO_SHAPE else Saves.up_to(size),
            severity=Severity.WARNING if _is_large(known, size) else None,
            weight=whole(known).memory_share(size),
        )


_UNUSED_FIXES = {
    "element type differs": "cast the new value to the element type of the argument: "
    "new.astype(old.dtype)",
    "sharding differs": "give the argument and the result the same sharding",
    _NO_SHAPE: "return the new value of {}, with its shape; without one, donating it saves nothing",
    "memory space differs": "keep the result in the memory space of the argument",
    "layout differs": "let JAX choose the layout of the argument, or give the result the same",
}


def _resharded(known: ModuleDump, pairs: Sequence[Resharded]) -> Iterator[Finding]:
    """Yield a finding for the arrays of each argument that enter and leave in the same two ways."""
    groups: dict[tuple[str, bool, str, str], list[Resharded]] = {}
    for one in pairs:
        enters, leaves = (written_spec(value.spec or ()) for value in (one.argument, one.result))
        key = argument_of(one.argument.value.name), one.is_result_whole, enters, leaves
        groups.setdefault(key, []).append(one)
    arguments = [one.name for one in entry_signature(known).parameters]
    for (argument, is_result_whole, enters, leaves), found in groups.items():
        names = [one.argument.value.name for one in found]
        results = [f"result{one.result.value.index}" for one in found]
        pairs_of_bytes = [(one.argument.device_bytes, one.result.device_bytes) for one in found]
        size = sum(max(mine or 0, yours or 0) for mine, yours in pairs_of_bytes)
        is_donated = all(one.argument.value.donation == "donor" for one in found)
        what = names[0] if len(names) == 1 else f"{argument} ({len(names)} arrays)"
        if is_result_whole:
            changed, spec = results, enters
            fix = f"out_shardings of {listed(results, _MOST_SHOWN)}: {leaves} -> {enters}, as the "
            fix += "argument has it"
        else:
            changed, spec = names, leaves
            fix = f"in_shardings of {what}: {enters} -> {leaves}, as the result has it"
        lost = "its donation is lost" if is_donated else "its memory cannot be reused"
        kept = [n for n, one in zip(names, found, strict=True) if not one.argument.value.donation]
        donated = covering_patterns(kept, arguments)
        sharded = [f"{one}={spec}" for one in covering_patterns(changed, arguments)]
        yield Finding(
            message=f"{what} enters {enters} and leaves {leaves}: {lost} ({format_bytes(size)})",
            fix=fix if is_donated else f"{fix}, and donate it",
            **at(call_place(known)),
            values=(*names, *results),
            evidence=tuple(
                f"{name}: {format_bytes(mine or 0)} on each device, {result} "
                f"{format_bytes(yours or 0)}"
                for name, result, (mine, yours) in zip(names, results, pairs_of_bytes, strict=True)
            )[:_MOST_SHOWN],
            saves=Saves.up_to(size),
            severity=Severity.WARNING if _is_large(known, size) else None,
            changes=(
                *(Remedy(kind="donate", target=one) for one in donated),
                *(Remedy(kind="shard", target=one) for one in sharded),
            ),
        )


def _is_large(known: ModuleDump, size: int) -> bool:
    return size >= LEAST_BYTES and whole(known).memory_share(size) >= _LARGE


# ---- M005 ----------------------------------------------------------------------------------------
_MOST_STEPS = 1000

_MOST = 10
"""Most lines that are findings, those of the largest copies."""


class _Copy(NamedTuple):
    """A copy of a donated or carried value; `is_alive` at the peak."""

    name: str
    what: str
    size: int
    is_alive: bool


@module_rule("M005", needs=PEAK)
def lost_alias(known: ModuleDump) -> Iterator[Finding]:
    """A donated argument, or what a loop carries, is copied whole.

    What: The compiled program copies a donated argument into memory of its own before it writes the
    result, or the body of a loop copies a whole value that it carries, in each iteration, to
    overwrite a part of it.
    Why it costs: XLA copies where the old value is still read after the new one is written. The
    copy takes the bytes that the donation was to save, if it is alive at the peak, and the time to
    move them, in a loop once for each iteration.
    Fix: Read the old value before the update is made, and return the updated value only: in a loop
    carry one version, update it with .at[i].set(...), and use what was read before.
    Fine when: Old and new value are both needed. Copies that are not alive at the peak are an info.
    Those that only the order of XLA's schedule asks for are no findings, since no change of the
    program is known to avoid them.
    """
    memory = memory_results(known)
    if memory is None or memory.peak is None:
        return
    module, table = hlo_text(known), instruction_table(known)
    least = max(1 << 20, int(0.01 * memory.statement.total_bytes))
    sizes = [(table.result_bytes(row) or 0, row) for row in table.rows_of({"copy"})]
    alive = {one.value for one in memory.peak.live}
    groups: dict[tuple[SourceLocation | None, int, str], list[_Copy]] = {}
    for size, row in sorted((one for one in sizes if one[0] >= least), key=lambda o: (-o[0], o[1])):
        what = _copied(known, row)
        if what is not None and _is_needed(known, row):
            name, place = module.columns.name(row), origins(known).place(row)
            key = place, module.links.owners[row], name if place is None else ""
            copy = _Copy(name, what, size, f"{name}{{}}" in alive)
            groups.setdefault(key, []).append(copy)
    for (place, *_), copies in itertools.islice(groups.items(), _MOST):
        size = sum(one.size for one in copies)
        held = sum(one.size for one in copies if one.is_alive)
        what = f"{copies[0].what} is"
        if len(copies) > 1:
            what = f"{copies[0].what} and {plural(len(copies) - 1, 'other value')} are"
        yield Finding(
            message=f"{what} copied whole ({format_bytes(size)})",
            fix="read the old value before the update, and use only the new one afterwards",
            **at(place),
            values=tuple(one.name for one in copies),
            evidence=(f"{format_bytes(held)} of copies are alive at the peak",) if held else (),
            saves=Saves.up_to(held) if held else Saves(),
            severity=None if held else Severity.INFO,
        )


def _is_needed(known: ModuleDump, row: int) -> bool:
    """Return whether what is computed from the new value reads the old one too.

    True for copies in loops, and where the text does not show the new value.
    """
    module, steps = hlo_text(known), origins(known).steps
    operand = steps.operand(row, 0)
    root = module.entry.root
    if (
        operand is None
        or root is None
        or not module.computations[module.links.owners[row]].is_entry
    ):
        return True
    source = steps.definition(Value(*operand), is_local=True)
    number = module.instruction(source.row).parameter_number
    readers = {user for one in (source.row, row) for user, _ in module.links.users_of(one)} - {row}
    is_tuple = root.opcode == "tuple"
    results = operands_of(module, root.row) if is_tuple else [Value(root.row)]
    for alias in module.input_output_alias:
        place = alias.output_index[0] if alias.output_index else 0
        is_shown = place < len(results) and results[place].row != NOTHING
        if alias.parameter_number == number and is_shown:
            new = steps.definition(results[place], is_local=True).row
            seen, waiting = set[int](), [new]
            while waiting and len(seen) < _MOST_STEPS:
                users = {user for user, _ in module.links.users_of(waiting.pop())} - seen
                seen |= users
                waiting += users
            return not readers.isdisjoint(seen)
    return True


def _copied(known: ModuleDump, row: int) -> str | None:
    module, steps = hlo_text(known), origins(known).steps
    copy = module.instruction(row)
    operand = steps.operand(row, 0)
    before = copy.operand_shape(0)
    if operand is None or before is None or str(before) != str(copy.shape):
        return None
    source = steps.definition(Value(*operand), is_local=True)
    if steps.opcodes[source.row] != "parameter":
        return None
    number = module.instruction(source.row).parameter_number
    if module.computations[module.links.owners[row]].is_entry:
        aliases = module.input_output_alias
        donated = {(one.parameter_number, one.parameter_index) for one in aliases}
        shardings = sharding_results(known)  # a device may use its part of a replicated one (M003)
        savings = () if shardings is None else shardings.replicated.savings
        is_replicated = any(one.value.value.number == number for one in savings)
        uses = uses_of(module, Value(row)) or () if is_replicated else ()
        is_divided = any(is_own_slice(module, use) for use in uses)
        if (number, source.element) not in donated or is_divided:
            return None
        path = origins(known).places.op_name(source.row)
        return f"donated argument {path or module.instruction(source.row).name}"
    call = steps.caller(source.row)
    if call is None or call.role != "body" or not source.element:
        return None
    users = {user for user, _ in module.links.users_of(row)}
    same = [user for user in users if module.instruction(user).shape == copy.shape]
    if not any(steps.update(Value(user)) for user in same):
        return None
    return f"element {source.element[0]} that {module.instruction(call.row).name} carries"
