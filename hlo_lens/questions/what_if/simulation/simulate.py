"""Answers to changes of a compiled program by simulation: figures, bounds, and how sure they are.

* ``exact``: donations on CPU that need no copy, where our assignment of the program is XLA's.
  Schedule and fusions stay as they are there; on GPU and TPU XLA may schedule anew.
* ``bounds``: other donations, and shardings. The truth is between; the prediction is the program
  without XLA's further choices.
* ``estimate``: element types, removed activations, and every program whose assignment ours does not
  reproduce exactly; with a range.

On TPU the temporaries include a table of 16 KiB for each copy between HBM and VMEM; how many there
are is XLA's choice. The table of the handbook compares answers with recompiled programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.backend_rules import TPU_PAGE
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.what_if.simulation.donation import simulated_donation
from hlo_lens.questions.what_if.simulation.rematerialization import simulated_remat
from hlo_lens.questions.what_if.simulation.simulator import MEMORY_FIGURES
from hlo_lens.questions.what_if.simulation.stored_arrays import STEPS, stored_arrays
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.questions.what_if.edit import Change
    from hlo_lens.questions.what_if.simulation.donation import DonationEdit
    from hlo_lens.questions.what_if.simulation.rematerialization import RematEdit
    from hlo_lens.questions.what_if.simulation.simulator import Assigned, Simulator
    from hlo_lens.questions.what_if.simulation.stored_arrays import StoredEdit

KINDS = ("donate", "undonate", "shard", "dtype", "remat")
"""Kinds of changes that can be simulated."""

EXACT, BOUNDS, ESTIMATE = "exact", "bounds", "estimate"
"""How sure an answer is, the surest first."""

_SHOWN = 3

WIRE = "wire_bytes_per_device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Figures of a program with changes.

    Attributes:
        basis: ``exact``, ``bounds`` or ``estimate``.
        base: Figures of the program as it is.
        predicted: Figures with the changes; None if none applies.
        low: Least that they may be.
        high: Most that they may be.
        changes: One for each value of the requests.
        is_reproduced: Whether our assignment has the figures of the dump; None if it has none.
        flops_added: Arithmetic that is done again; None if not known.
        peak_row: Row of the instruction at the new peak; None if no instruction runs then.
        notes: What XLA may do differently.
    """

    basis: str
    base: Mapping[str, int | None]
    predicted: Mapping[str, int | None] | None
    low: Mapping[str, int | None] | None
    high: Mapping[str, int | None] | None
    changes: tuple[Change, ...]
    is_reproduced: bool | None
    flops_added: int | None = 0
    peak_row: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Bytes by which figures may be less, and more, than predicted.

    Attributes:
        less: Temporaries saved besides.
        more: Temporaries needed besides.
        tables: Tables of copies between memory spaces, which do not count at the peak.
        outputs: Results that may be smaller.
        padding: Arguments and results that may be smaller, and larger.
        wire: Bytes that may be sent less, and more.
    """

    less: int = 0
    more: int = 0
    tables: int = 0
    outputs: int = 0
    padding: tuple[int, int] = (0, 0)
    wire: tuple[int, int] = (0, 0)


def simulate(simulator: Simulator, changes: Sequence[tuple[str, str]]) -> Simulated:
    """Return the figures of a program with changes, all made together.

    Args:
        simulator: The program; one for all answers about it.
        changes: Kind, of `KINDS`, and value as the option has it: ``("donate", "state.*")``.

    Raises:
        UsageError: If a value is malformed.
    """
    asked = {kind: [value for one, value in changes if one == kind] for kind in KINDS}
    donation = simulated_donation(simulator, asked["donate"], asked["undonate"])
    stored = stored_arrays(simulator, asked["shard"], asked["dtype"])
    remat = simulated_remat(simulator, asked["remat"])
    made = (*donation.changes, *stored.changes, *remat.changes)
    wire = collectives(simulator.known).wire_bytes_per_device
    base = {**simulator.base, WIRE: wire}
    answer = Simulated(
        basis=_basis(simulator, donation, asked),
        base=base,
        predicted=None,
        low=None,
        high=None,
        changes=made,
        is_reproduced=simulator.is_reproduced,
    )
    if not any(one.applies for one in made):
        return answer
    edit = replace(
        donation.values,
        parts={**stored.parts, **remat.parts},
        ends=remat.ends,
        added=remat.added,
    )
    head = simulator.changed(donation.aliases, edit)
    room = _room(simulator, donation, stored, remat, answer.basis)
    if remat.added:  # at worst, it saves nothing
        gained = simulator.own.figures["temp_bytes"] - head.figures["temp_bytes"]
        room = replace(room, more=room.more + max(0, gained) + STEPS)
    predicted = _predicted(simulator, head, donation, base)
    predicted[WIRE] = None if wire is None else wire + stored.wire_bytes
    low, high = _limits(predicted, room)
    if asked["shard"]:  # other collectives may be chosen throughout the program
        low[WIRE] = high[WIRE] = None
    return replace(
        answer,
        predicted=predicted,
        low=low,
        high=high,
        flops_added=remat.flops,
        peak_row=head.peak_row,
        notes=(*_copy_notes(donation), *stored.notes, *_assignment_notes(simulator)),
    )


def _basis(simulator: Simulator, donation: DonationEdit, asked: Mapping[str, Sequence[str]]) -> str:
    """Return how sure an answer is."""
    if not simulator.is_exact or asked["remat"] or asked["dtype"]:
        return ESTIMATE
    is_sure = simulator.rules.backend == "cpu" and not donation.copied_bytes
    if asked["shard"] or (donation.pairs and not is_sure):
        return BOUNDS
    return EXACT


def _predicted(
    simulator: Simulator,
    head: Assigned,
    donation: DonationEdit,
    base: Mapping[str, int | None],
) -> dict[str, int | None]:
    """Return the figures of the dump with the difference of our assignments."""
    found: dict[str, int | None] = {}
    tables = 0
    if simulator.rules.backend == "tpu":
        tables = TPU_PAGE * donation.table_delta
        tables = max(tables, -head.figures["temp_bytes"])
    for name in MEMORY_FIGURES:
        known = base[name]
        delta = head.figures[name] - simulator.own.figures[name]
        delta += tables if name in ("temp_bytes", "total_bytes") else 0
        found[name] = None if known is None else max(0, known + delta)
    return found


def _room(
    simulator: Simulator,
    donation: DonationEdit,
    stored: StoredEdit,
    remat: RematEdit,
    basis: str,
) -> _Room:
    """Return the bytes by which figures may be less and more."""
    if basis == EXACT:
        return _Room()
    less, more = simulator.slack
    less += stored.saved_bytes
    more += stored.added_bytes
    if donation.pairs:
        less += donation.copied_bytes
        more += donation.late_bytes
        if simulator.rules.backend != "cpu":
            less += donation.moved_bytes + STEPS
            more += donation.moved_bytes + STEPS
    less += sum(one.part.size_bytes for one in remat.added)
    tables = 0
    if simulator.rules.backend == "tpu":
        flow = simulator.flow
        arrays = sum(map(len, flow.parameter_values.values())) + len(flow.output_values)
        tables = 2 * TPU_PAGE * arrays
    return _Room(
        less=less,
        more=more,
        tables=tables,
        outputs=stored.saved_output_bytes,
        padding=stored.padding_bytes,
        wire=(stored.wire_bytes + stored.wire_room[0], stored.wire_room[1] - stored.wire_bytes),
    )


def _limits(
    predicted: Mapping[str, int | None], room: _Room
) -> tuple[dict[str, int | None], dict[str, int | None]]:
    """Return the least and the most that figures may be."""
    temp = predicted["temp_bytes"] or 0
    page = TPU_PAGE if room.tables else 0
    least = max(temp, 8 * page)  # tables are allocated where temporaries count as none
    less = {"temp_bytes": room.less + room.tables, "total_bytes": room.less + room.tables}
    less = {name: min(least, size) for name, size in less.items()}
    more = dict.fromkeys(less, room.more + room.tables)
    less["peak_bytes"], more["peak_bytes"] = min(temp, room.less + page), room.more + page
    for name in ("output_bytes", "total_bytes", "peak_bytes"):
        less[name] = less.get(name, 0) + room.outputs
    for name in ("argument_bytes", "output_bytes", "alias_bytes", "total_bytes", "peak_bytes"):
        less[name] = less.get(name, 0) + room.padding[0]
        more[name] = more.get(name, 0) + room.padding[1]
    less[WIRE], more[WIRE] = room.wire
    low: dict[str, int | None] = {}
    high: dict[str, int | None] = {}
    for name, value in predicted.items():
        low[name] = None if value is None else max(0, value - less.get(name, 0))
        high[name] = None if value is None else value + more.get(name, 0)
    return low, high


def _copy_notes(donation: DonationEdit) -> tuple[str, ...]:
    """Return the note on arguments that XLA copies although they are donated."""
    if not donation.copies:
        return ()
    shown = [f"{name} ({reader} reads it)" for name, reader in donation.copies]
    return (
        "XLA copies donated arguments that are read after their memory is written: "
        f"{listed(shown, _SHOWN)}",
    )


def _assignment_notes(simulator: Simulator) -> tuple[str, ...]:
    """Return the notes on a program that our assignment does not reproduce."""
    if simulator.is_exact:
        return ()
    if simulator.is_reproduced is False:
        return ("our assignment differs from that of the dump: the answer is its difference",)
    return ("there is no buffer assignment: figures now are estimated too",)
