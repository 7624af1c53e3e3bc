"""Comparison of two modules as texts: equal, equal up to names, and the first different line.

The whole text counts, in its order, except metadata (source lines, stack frames) and fingerprints
by XLA. Two modules are identical, or the same up to names of instructions and computations, or
different. Other channel ids and another order of instructions are differences: processes that run
one program together must run the same text. `hlo_lens.questions.diff.matching` (``hlo-lens diff``)
compares programs instead, and finds no change in modules that differ in these alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME_END
from hlo_lens.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloComputation, HloModule

_STRING = r'"(?:[^"\\]|\\.)*+"'
_METADATA = lazy_pattern(
    rf', metadata=\{{(?:[^{{}}"]|{_STRING}|\{{(?:[^{{}}"]|{_STRING})*+\}})*+\}}'
)
_FINGERPRINT = lazy_pattern(rf"[\w.]*fingerprint\w*={_STRING},?")
_TOKEN = lazy_pattern(rf"{_STRING}|%?[A-Za-z_][\w.-]*")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hashes of the text of a module.

    Attributes:
        exact: Equal for identical modules.
        nameless: Equal for modules that are the same up to names.
    """

    exact: str
    nameless: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a module in the compared form.

    Attributes:
        exact: Text without metadata.
        nameless: The same with numbers in place of names.
        place: ``computation/instruction``; ``header`` for a header.
    """

    exact: str
    nameless: str
    place: str


def fingerprint(module: HloModule) -> Fingerprint:
    """Return the hashes of the text of a module."""
    import hashlib  # which loads OpenSSL

    exact, nameless = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for line in canonical_lines(module):
        exact.update(line.exact.encode("utf-8", "replace") + b"\n")
        nameless.update(line.nameless.encode("utf-8", "replace") + b"\n")
    return Fingerprint(exact.hexdigest(), nameless.hexdigest())


def canonical_lines(module: HloModule) -> Iterator[Line]:
    """Yield the header and all instructions of a module in the compared form."""
    computations = {c.name: f"@{k}" for k, c in enumerate(module.computations)}
    for name, value in module.header.items():
        text = f"{name}={_FINGERPRINT.sub('', value)}"
        yield Line(text, text, "header")
    for computation in module.computations:
        number = computations[computation.name]
        head = "entry computation" if computation.is_entry else "computation"
        yield Line(f"{head} {computation.name}", f"{head} {number}", computation.name)
        yield from _instructions(module, computation, computations)


def _instructions(
    module: HloModule, computation: HloComputation, computations: dict[str, str]
) -> Iterator[Line]:
    columns = module.columns
    own = {columns.name(row): f"%{k}" for k, row in enumerate(computation.rows)}
    names = {**computations, **own}

    def number(match: re.Match[str]) -> str:
        token = match[0]
        return names.get(token.removeprefix("%"), token)

    root = computation.root_row
    for row in computation.rows:
        name = columns.name(row)
        rest = _SPACE.sub(" ", _METADATA.sub("", columns.text(row, NAME_END, END)))
        head = "ROOT " if row == root else ""
        yield Line(
            f"{head}{name}{rest}",
            f"{head}{names[name]}{_TOKEN.sub(number, rest)}",
            f"{computation.name}/{name}",
        )


def first_difference(base: HloModule, other: HloModule) -> tuple[Line | None, Line | None] | None:
    """Return the first different lines of two modules; None if there are none.

    A line is None if its module has ended.
    """
    for one, two in zip_longest(canonical_lines(base), canonical_lines(other)):
        if one is None or two is None or one.exact != two.exact:
            return one, two
    return None
