"""One function was compiled several times, for arguments of different shapes.

What:
    The dump of one process has three compiles or more of a function of the same name, whose
    arguments differ in shape or element type.

Why it costs:
    Each new shape costs a whole compile, seconds to minutes, and memory for another executable. In
    serving or evaluation this happens at each new length of a batch or sequence.

Fix:
    Pad inputs to a few sizes (buckets), or to the largest one; keep the last, smaller batch out
    (drop_remainder); pass Python numbers as arrays. jax.config.update("jax_explain_cache_misses",
    True) prints the reason of each compile.

Fine when:
    The shapes are the buckets that are wanted, compiled once at the start. Below eight compiles it
    is an info. Functions of less than 100 instructions, such as jnp.ones, are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.rule import DumpRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.dumps.listing import ListingFacts

_LEAST, _MANY = 3, 8
"""Fewest shapes of a finding, and of a warning."""

_LEAST_INSTRUCTIONS = 100
_MOST_SHOWN = 4


def recompiled_function(modules: Sequence[ListingFacts]) -> Iterator[tuple[int, Finding]]:
    """Yield a finding for each function, at its last compile."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(modules):
        is_large = (one.instructions or 0) >= _LEAST_INSTRUCTIONS
        if is_large and one.number is not None and one.signature is not None:
            groups.setdefault((_process(one), one.name), []).append(place)
    for (_, name), places in groups.items():
        different = dict.fromkeys(modules[place].signature or () for place in places)
        if len(different) >= _LEAST:
            yield places[-1], _finding(name, len(places), list(different))


def _process(module: ListingFacts) -> str:
    """Return the folder of the dump; newer dumps have a folder of its own for each module."""
    folder, _, last = module.folder.rpartition("/")
    return folder if last == module.key else module.folder


def _finding(name: str, count: int, shapes: Sequence[tuple[str, ...]]) -> Finding:
    width = min(map(len, shapes))
    changing = [n for n in range(width) if len({one[n] for one in shapes}) > 1]
    evidence = tuple(
        f"parameter {number}: {', '.join(dict.fromkeys(one[number] for one in shapes))}"
        for number in changing[:_MOST_SHOWN]
    )
    return Finding(
        message=f"{name} was compiled {count} times, for {len(shapes)} different shapes",
        fix="pad the inputs to a few sizes, or to the largest one",
        values=(name,),
        evidence=evidence or ("the number of parameters differs",),
        severity=Severity.WARNING if len(shapes) >= _MANY else Severity.INFO,
    )


RULE = DumpRule("X001", recompiled_function)
