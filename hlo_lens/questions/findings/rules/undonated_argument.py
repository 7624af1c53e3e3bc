"""An argument is not donated, although a result could have its memory.

What:
    The program has a result of the same shape, element type, layout and sharding as an argument,
    and the argument is not donated. The old and the new value are in memory together: the
    parameters and the optimizer state of a training step twice, the cache of a decoding step twice.

Why it costs:
    The bytes of the argument, on every device, during the whole step. The saving is "up to": XLA
    copies a donated argument that is still read after its result is written. --prove compiles the
    program again with the donation.

Fix:
    Donate the argument where the function is jitted: jax.jit(step, donate_argnames=("state",)), and
    use only the returned value afterwards. Donation needs equal shardings: give out_shardings
    where the result's is left to XLA.

Fine when:
    The caller needs the old value after the call, for example to compare or to retry. It is an info
    where no result is computed from the argument element by element: gradients have the shapes of
    the weights, which the caller still needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.updates import updated_arguments
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, Severity, at
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import argument_of, call_place, is_on_host, is_part
from hlo_lens.questions.sharding.savings import Donation, DonationStatus, sharding_results
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.signature import EntryValue


def undonated_argument(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each argument of the function with arrays that could be donated."""
    shardings = sharding_results(known)
    if shardings is None or not shardings.is_complete or is_part(known):
        return
    groups: dict[str, list[Donation]] = {}
    for one in shardings.donations.of(DonationStatus.DONATABLE):
        if one.value.value.name and not is_on_host(known, one.value):
            groups.setdefault(argument_of(one.value.value.name), []).append(one)
    counts = _leaf_counts(known) if groups else {}
    for argument, leaves in groups.items():
        yield _finding(known, argument, leaves, counts.get(argument, len(leaves)))


def _leaf_counts(known: ModuleDump) -> dict[str, int]:
    """Return the number of arrays of each argument."""
    counts: dict[str, int] = {}
    for value in entry_signature(known).parameters:
        argument = argument_of(value.name)
        counts[argument] = counts.get(argument, 0) + 1
    return counts


def _finding(known: ModuleDump, argument: str, leaves: Sequence[Donation], count: int) -> Finding:
    size = sum(one.value.value.padded_size_bytes or one.value.device_bytes or 0 for one in leaves)
    names = tuple(str(one.value.value.name) for one in leaves)
    what = f"{len(leaves)} of {plural(count, 'array')}, " if names != (argument,) else ""
    numbers = frozenset[int]().union(*updated_arguments(known).values())
    is_updated = any(one.value.value.number in numbers for one in leaves)
    return Finding(
        message=f"argument {argument} ({what}{format_bytes(size)}) is not donated",
        fix=_fix(known, argument, leaves[0].value.value),
        **at(call_place(known)),
        values=names,
        evidence=(
            *(() if is_updated else (_NO_UPDATE,)),
            *(
                f"{one.value.value.name} ({format_bytes(one.value.device_bytes or 0)}) could have "
                f"the memory of {f'result {one.output}' if one.output else 'the result'}: "
                f"{one.reason}"
                for one in leaves[:_MOST_SHOWN]
            ),
        ),
        saves=Saves.up_to(size),
        severity=None if is_updated else Severity.INFO,
        changes=tuple(
            Remedy(kind="donate", target=one) for one in ([argument] if len(names) > 1 else names)
        ),
    )


_NO_UPDATE = (
    "no result is an update of it: the caller may still need it, as gradients of weights do"
)
_MOST_SHOWN = 5


def _fix(known: ModuleDump, argument: str, value: EntryValue) -> str:
    """Return how to donate an argument; its position is not known if it has a name."""
    wrapper, _, function = hlo_text(known).name.partition("_")
    where = f"parameter {value.number} of the program ({argument})"
    if wrapper not in ("jit", "pmap"):
        return f"alias {where} with its result when the program is compiled"
    call = f"jax.{wrapper}({function or '...'}"
    if argument.startswith("args["):
        return f"{call}, donate_argnums=({argument[5:-1]},))"
    if not value.is_named:
        return f"{call}, donate_argnums=...) with the argument that is {where}"
    if argument.isidentifier() and wrapper == "jit":  # pmap takes positions only
        return f'{call}, donate_argnames=("{argument}",))'
    return f"{call}, donate_argnums=...) with the position of {argument}"


RULE = ModuleRule("M001", undonated_argument)
