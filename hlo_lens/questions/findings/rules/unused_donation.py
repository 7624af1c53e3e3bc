"""An argument is donated, but no result has its memory.

What:
    The function was jitted with the argument in donate_argnums or donate_argnames, and the compiled
    program does not reuse its memory: no result has its shape, element type, layout or sharding, or
    XLA dropped the alias. The evidence has the reason, as XLA and JAX decide it.

Why it costs:
    The argument and the result that should replace it are in memory together, as if it were not
    donated. JAX prints a warning once ("Some donated buffers were not usable").

Fix:
    Make the result like the argument: cast it to the argument's element type, or give out_shardings
    equal to in_shardings. Where no result belongs to the argument, donating it saves nothing.

Fine when:
    The caller only wants the argument's memory to be freed after the call, which donation does on
    its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.findings import LEAST_BYTES, whole
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import argument_of, call_place, is_part
from hlo_lens.questions.sharding.savings import DonationStatus, sharding_results
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.savings import Donation

_NO_SHAPE = "no output has its shape"
_NOT_USED = "XLA did not use it"
_DROPPED = "XLA dropped the alias"
_MOST_SHOWN = 5
_LARGE = 0.1
"""Share of what must fit from which a donation that is not used is a warning."""


def unused_donation(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each argument and reason of donations that are not used."""
    shardings = sharding_results(known)
    if shardings is None or not shardings.is_complete or is_part(known):
        return
    is_final = _is_final(known)
    groups: dict[tuple[str, str], list[Donation]] = {}
    for status in (DonationStatus.UNUSED, DonationStatus.LOST):
        for one in shardings.donations.of(status):
            argument = argument_of(one.value.value.name or "")
            kind = _kind(one)
            if is_final or kind not in (_NOT_USED, _DROPPED):
                groups.setdefault((argument, kind), []).append(one)
    for (argument, kind), leaves in groups.items():
        yield _finding(known, argument, kind, leaves)


def _is_final(known: ModuleDump) -> bool:
    """Return whether a text shows what XLA made of donations: no stage before the last one."""
    stage = known.stage
    return hlo_text(known).is_scheduled or stage is None or "after_optimizations" in stage


def _kind(one: Donation) -> str:
    """Return the reason without the names of results."""
    if one.status is DonationStatus.LOST:
        return _DROPPED
    reason = one.reason.partition(":")[0]
    return _NOT_USED if reason.endswith(_NOT_USED) else reason


def _finding(known: ModuleDump, argument: str, kind: str, leaves: Sequence[Donation]) -> Finding:
    size = sum(one.value.value.padded_size_bytes or one.value.device_bytes or 0 for one in leaves)
    is_whole = [one.value.value.name for one in leaves] == [argument]
    is_large = size >= LEAST_BYTES and whole(known).memory_share(size) >= _LARGE
    what = "" if is_whole else f"{plural(len(leaves), 'array')}, "
    return Finding(
        message=(
            f"argument {argument} ({what}{format_bytes(size)}) is donated, but its memory is not "
            f"reused: {leaves[0].reason if len(leaves) == 1 else kind}"
        ),
        fix=_fix(kind, argument),
        **at(call_place(known)),
        values=tuple(str(one.value.value.name) for one in leaves),
        evidence=tuple(f"{one.value.value.name}: {one.reason}" for one in leaves[:_MOST_SHOWN]),
        saves=Saves() if kind == _NO_SHAPE else Saves.up_to(size),
        severity=Severity.WARNING if is_large else None,
    )


def _fix(kind: str, argument: str) -> str:
    fixes = {
        "element type differs": "cast the new value to the element type of the argument: "
        "new.astype(old.dtype)",
        "sharding differs": "give the result the sharding of the argument: out_shardings= equal to "
        "in_shardings=",
        _NO_SHAPE: f"return the new value of {argument}, with its shape; without one, donating it "
        "saves nothing",
        "memory space differs": "keep the result in the memory space of the argument",
        "layout differs": "let JAX choose the layout of the argument, or give the result the same",
    }
    if kind.startswith("all outputs of its shape are taken"):
        return f"other arguments have all results like {argument}: donating it saves nothing"
    return fixes.get(kind, "return a result with the shape, element type and sharding of it")


RULE = ModuleRule("M002", unused_donation)
