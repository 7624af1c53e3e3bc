"""Changes that what-if compiles, compared with the programs compiled with the same changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.api import what_if_modules
from hlo_lens.questions.what_if.recompiling import Means
from hlo_lens.text.errors import HloLensError
from tests.what_if.pairs import FIGURES, Pair, Truth

EQUAL, DIFFER, REFUSED = "equal", "differ", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What what-if answered for a pair.

    Attributes:
        pair: The pair.
        state: ``equal``, ``differ`` or ``refused``.
        text: What differs, or why there is nothing to compare.
    """

    pair: Pair
    state: str
    text: str = ""


def verdicts(truths: Sequence[Truth], python: str) -> Iterator[Verdict]:
    """Yield the answer to each pair, compiled by an interpreter."""
    for truth in truths:
        if truth.error:
            yield Verdict(pair=truth.pair, state=REFUSED, text=f"the program: {truth.error}")
            continue
        try:
            modules = modules_of(truth.dump)
            found = what_if_modules(modules, truth.pair.asked, means=Means(python=python))
        except HloLensError as error:
            yield Verdict(pair=truth.pair, state=REFUSED, text=str(error))
            continue
        (row,) = found.modules
        refused = [str(change.why_not) for change in row.changes if not change.applies]
        if row.dump is None or refused:
            yield Verdict(pair=truth.pair, state=REFUSED, text="; ".join((*refused, row.refusal)))
            continue
        outcome = json.loads((Path(row.dump).parent / "outcome.json").read_text("utf-8"))
        made = outcome["memory_analysis"]
        parts = [
            f"{name} {made.get(f'{name}_size_in_bytes')} instead of {truth.after[name]}"
            for name in FIGURES
            if made.get(f"{name}_size_in_bytes") != truth.after[name]
        ]
        state = DIFFER if parts else EQUAL
        yield Verdict(pair=truth.pair, state=state, text=", ".join(parts))
