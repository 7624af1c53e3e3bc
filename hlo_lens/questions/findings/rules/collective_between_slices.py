"""A mesh axis crosses slices or hosts: its collectives use the slower network between them.

What:
    Transfers of the program go to other slices of a multi-slice TPU job, or to GPUs that no NVLink
    joins. A dump of GPUs does not name the hosts: eight GPUs of consecutive ids are taken for one,
    72 of GB200 and GB300, and the message says so. The hosts of one TPU slice make no difference:
    ICI joins the chips of all of them. Which devices a mesh axis joins is taken from the device
    assignment of the dump; without one, devices are taken to be numbered in order.

Why it costs:
    The network between slices has a small part of the bandwidth of the links inside one (about
    6 GB/s against 90 GB/s and more for each chip of v5e), the network between GPU hosts about a
    tenth of NVLink's (50 GB/s against 450 GB/s for each H100; see the scaling book). What crosses
    it should be the axis that communicates least: data parallel gradients, once in each step.

Fix:
    Build the mesh with mesh_utils.create_hybrid_device_mesh, so that only the outermost data axis
    crosses slices or hosts, and keep model and fsdp axes inside one.

Fine when:
    It is the data axis, and its transfers are covered by work; or no axis is small enough for a
    slice or host. Between hosts it is an info, unless the axis fits into a host and another one,
    which stays inside of hosts, sends at most half as much. --prove cannot apply it: the order of
    devices is not part of the program.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.load.devices import device_assignment, joined_gpus
from hlo_lens.program.summary import backend_of_dump, num_devices
from hlo_lens.questions.collectives.collective import WIRE, collectives, run_sum
from hlo_lens.questions.findings.finding import Saves, Severity
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import bound_text, by_line, finding_of
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding

_MUCH, _LEAST_BYTES = 2, 1 << 20
"""How many times the bytes of another axis one sends, and least bytes, for a warning."""

_GPU_CONFIG = "gpu_target_config.pbtxt"


def collective_between_slices(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line with transfers between slices, or between GPU hosts."""
    crossing = (one for one in collectives(known).collectives if one.crosses_slices)
    for found in by_line(crossing):
        in_loop = any(one.loop_path for one in found)
        yield finding_of(
            found,
            f"{_subject(found)} between slices{_condition(known, found)}: {_sent(found)} of one "
            "run on the data center network",
            "let only the data axis cross slices (mesh_utils.create_hybrid_device_mesh)",
            saves=Saves(),
            severity=Severity.WARNING if in_loop else Severity.INFO,
        )
    if backend_of_dump(known) == "gpu":
        yield from _between_hosts(known)


def _condition(known: ModuleDump, found: Sequence[Collective]) -> str:
    """Return what the axis of transfers between slices depends on; empty for nothing."""
    slices = (mesh.slices for mesh in collectives(known).meshes)
    is_assumed = any(one is not None and one.is_assumed for one in slices)
    return ", if devices are numbered in order" if is_assumed and found[0].axes else ""


def _between_hosts(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line with transfers between hosts, as far as these are known."""
    joined = joined_gpus(known.setting(_GPU_CONFIG))
    if num_devices(known) <= joined:
        return
    assignment = device_assignment(known)
    listed = assignment or (range(num_devices(known)),)
    hosts = [number // joined for replica in listed for number in replica]
    order = ", numbered in order" if assignment is None else ""
    crossing: dict[str, list[Collective]] = {}
    inside: dict[str, list[Collective]] = {}
    for one in collectives(known).collectives:
        if one.groups and not one.moves_nothing:
            by_axis = crossing if _crosses(one, hosts) else inside
            by_axis.setdefault(one.axis, []).append(one)
    others = {axis: _wire(found) for axis, found in inside.items() if axis not in crossing}
    for found in crossing.values():
        largest = max(found, key=lambda one: one.wire_bytes_per_run or 0)
        rest = [one for one in found if one is not largest]
        better = _better(found, others, joined)
        made = finding_of(
            [largest, *rest],
            f"{_subject([largest, *rest])} between hosts (taken to have {joined} GPUs each"
            f"{order}): {_sent(found)} of one run on the network",
            "let only the data axis cross hosts (mesh_utils.create_hybrid_device_mesh)",
            saves=Saves(),
            severity=Severity.INFO if better is None else Severity.WARNING,
        )
        if better is not None:
            sent = format_bytes(others[better] or 0)
            note = f"{better}, which stays inside of hosts, sends {sent}"
            made = replace(made, evidence=(*made.evidence, note))
        yield made


def _better(
    found: Sequence[Collective], others: Mapping[str, int | None], joined: int
) -> str | None:
    """Return the axis that should cross hosts instead: it sends much less; None without one."""
    sent, size = _wire(found), found[0].group_size
    if sent is None or sent < _LEAST_BYTES or size is None or size > joined:
        return None
    less = {axis: wire for axis, wire in others.items() if wire and wire * _MUCH <= sent}
    single = (axis for axis in less if axis.isidentifier())
    return min(single, key=lambda axis: less[axis], default=None)


def _crosses(collective: Collective, hosts: Sequence[int]) -> bool:
    """Return whether devices of a group are on several hosts; False if not known."""
    groups = collective.source_target_pairs or collective.groups or ()
    return any(
        len({hosts[device] for device in group if device < len(hosts)}) > 1 for group in groups
    )


def _wire(collectives: Iterable[Collective]) -> int | None:
    """Return the bytes that each device sends in one run; None if not known."""
    wire = run_sum(collectives, WIRE)
    return None if wire is None else wire.most


def _subject(found: Sequence[Collective]) -> str:
    """Return number, kind and axis of collectives."""
    first = found[0]
    kinds = {one.performed_as or one.kind for one in found}
    axis = "" if first.axis in ("?", "-") else f" over {first.axis}"
    return f"{plural(len(found), kinds.pop() if len(kinds) == 1 else 'collective')}{axis}"


def _sent(found: Sequence[Collective]) -> str:
    wire = run_sum(found, WIRE)
    return "bytes not known" if wire is None else bound_text(wire)


RULE = ModuleRule("C008", collective_between_slices)
