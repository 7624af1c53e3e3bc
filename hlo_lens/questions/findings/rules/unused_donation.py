"""The result that replaces an argument does not have its memory, although it was to.

What:
    The function was jitted with the argument in donate_argnums or donate_argnames, and the compiled
    program does not reuse its memory: no result has its shape, element type, layout or sharding, or
    XLA dropped the alias. Or the result is the argument, updated, and divided in another way: JAX
    then drops the donation before the program is text. The evidence has the reason.

Why it costs:
    The argument and the result that should replace it are in memory together, as if it were not
    donated. JAX prints a warning once ("Some donated buffers were not usable").

Fix:
    Make the result like the argument: cast it to the argument's element type. Where both are
    divided in different ways, give the argument the sharding of the result in in_shardings, since
    the result is the next argument; or the result that of the argument, where the result is the
    larger. Where no result belongs to the argument, donating it saves nothing.

Fine when:
    The caller only wants the argument's memory to be freed after the call, which donation does on
    its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, Severity, at
from hlo_lens.questions.findings.findings import LEAST_BYTES, whole
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import argument_of, call_place, is_part
from hlo_lens.questions.sharding.savings import (
    DonationStatus,
    resharded_arguments,
    sharding_results,
)
from hlo_lens.questions.what_if.arguments import covering_patterns
from hlo_lens.shapes.named_sharding import written_spec
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.savings import Donation, Resharded

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
    pairs = resharded_arguments(known)
    yield from _resharded(known, pairs)
    paired = {one.argument.value.number for one in pairs}
    groups: dict[tuple[str, str], list[Donation]] = {}
    for status in (DonationStatus.UNUSED, DonationStatus.LOST):
        for one in shardings.donations.of(status):
            argument = argument_of(one.value.value.name or "")
            kind = _kind(one)
            is_new = one.value.value.number not in paired
            if is_new and (is_final or kind not in (_NOT_USED, _DROPPED)):
                groups.setdefault((argument, kind), []).append(one)
    for (argument, kind), leaves in groups.items():
        yield _finding(known, argument, kind, leaves)


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
        severity=Severity.WARNING if _is_large(known, size) else None,
    )


def _fix(kind: str, argument: str) -> str:
    fixes = {
        "element type differs": "cast the new value to the element type of the argument: "
        "new.astype(old.dtype)",
        "sharding differs": "give the argument and the result the same sharding",
        _NO_SHAPE: f"return the new value of {argument}, with its shape; without one, donating it "
        "saves nothing",
        "memory space differs": "keep the result in the memory space of the argument",
        "layout differs": "let JAX choose the layout of the argument, or give the result the same",
    }
    if kind.startswith("all outputs of its shape are taken"):
        return f"other arguments have all results like {argument}: donating it saves nothing"
    return fixes.get(kind, "return a result with the shape, element type and sharding of it")


RULE = ModuleRule("M002", unused_donation)
