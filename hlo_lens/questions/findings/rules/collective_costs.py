"""Rules about collectives that cost time: exposed, tiny, idle, or on slow links."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.load.devices import device_assignment, joined_gpus
from hlo_lens.program.summary import backend_of_dump, num_devices
from hlo_lens.questions.collectives.collective import (
    UNCOVERED,
    WIRE,
    collectives,
    known_sum,
    run_sum,
)
from hlo_lens.questions.findings.finding import Saves, Severity
from hlo_lens.questions.findings.findings import LEAST_BYTES
from hlo_lens.questions.findings.rule import module_rule
from hlo_lens.questions.findings.values import bound_text, by_line, finding_of, over, subject
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding


# ---- C001 ----------------------------------------------------------------------------------------


_LEAST_SHARE = 0.05
"""Least share of the bytes of one run that a line leaves uncovered."""


@module_rule("C001")
def exposed_collective(known: ModuleDump) -> Iterator[Finding]:
    """Devices wait for a collective in a loop: no work overlaps the transfer.

    What:
        In a loop, a collective runs while nothing else does, or the work between its start and its
        end is too small to last as long as the transfer.

    Why it costs:
        The transfer adds to the time of each trip. The saving in bytes of memory or on the wire is
        none; the message has the bytes that are not covered.

    Fix:
        Let XLA overlap it: --xla_gpu_enable_latency_hiding_scheduler=true on GPU (TPU's compiler
        does it by default); unroll the scan by two, so that the next layer's weights are gathered
        while this layer computes; or gather less (another axis, a smaller type).

    Fine when:
        The value is needed at once, and nothing else could run. On CPU every collective is
        synchronous, so this rule does not look at CPU dumps. It is an info: what overlaps depends
        on times that the dump does not have.
    """
    found = collectives(known)
    total = found.known_wire_bytes
    if backend_of_dump(known) == "cpu" or not found.is_scheduled or not total.most:
        return
    whole = "all bytes sent"
    if found.wire_bytes_per_device is None:
        whole = "the bytes sent that are known"
    elif total.is_at_most:
        whole = "the most that is sent"
    exposed = (one for one in found.collectives if one.loop_path and one.is_exposed)
    for group in by_line(exposed):
        uncovered = known_sum(group, UNCOVERED)
        if uncovered.most < _LEAST_SHARE * total.most:
            continue
        one = finding_of(
            group,
            f"{subject(group)} in a loop: {bound_text(uncovered)} of one run, "
            f"{uncovered.most / total.most:.0%} of {whole}, are not covered by work",
            "let XLA overlap it (latency hiding scheduler; scan(..., unroll=2)), or move less",
            saves=Saves(),
            severity=Severity.INFO,
        )
        yield replace(one, axes=group[0].axes or ())


# ---- C002 ----------------------------------------------------------------------------------------


TINY_BYTES = 16 * 1024
"""Largest tiny payload: on H100, XLA's tables give it the time of 1 KiB."""

MANY_RUNS = 32
"""Fewest runs in one run of the program that are many."""

_LARGE_SHARE = 0.1
"""Share of all bytes sent that is worth a warning."""

MANY_IN_A_ROW = 16
"""Fewest collectives of one line, outside of loops, that are many."""

_SCALAR = 64
"""Most bytes of a few scalars, of which one collective could carry all."""

WARNING_RUNS = 128
"""Fewest runs that are worth a warning: 4 ms and more between the GPUs of an H100 host."""


@module_rule("C002")
def tiny_collective(known: ModuleDump) -> Iterator[Finding]:
    """A collective with a tiny payload runs many times.

    What:
        A loop, or one line 16 times and more, runs collectives whose payload is so small that
        starting them takes longer than moving their bytes. XLA combines those that do not need each
        other.

    Why it costs:
        Each run costs the latency of the network, whatever its size: 32 to 97 us for 1 KiB between
        the eight GPUs of one H100 host (XLA's default_collective_perf_table.txtpb), and devices
        wait for each other. 200 of them are some 10 ms in each step.

    Fix:
        Compute the value once after the loop (sum the partial results, then reduce once), or
        combine several: lax.psum takes a tuple of arrays.

    Fine when:
        The reduced value is needed before the next, as a norm over a sharded dimension is; or the
        loop is short. Fewer than 128 runs, and dumps of a CPU, are an info, unless they are a chain
        of scalars outside of loops, or send a tenth of all bytes.
    """
    is_quick = backend_of_dump(known) == "cpu"
    tiny = [one for one in collectives(known).collectives if _is_tiny(one)]
    in_loops = [one for one in tiny if one.loop_path]
    others = [one for one in tiny if not one.loop_path]
    for found, least in (
        *((group, MANY_RUNS) for group in by_line(in_loops)),
        *((group, MANY_IN_A_ROW) for group in by_line(others)),
    ):
        runs = sum(one.dynamic_count or 0 for one in found)
        if runs < least:
            continue
        most = max(one.payload_bytes or 0 for one in found)
        wire = known_sum(found, WIRE).most
        is_chain = most <= _SCALAR and not found[0].loop_path
        is_much = wire >= max(LEAST_BYTES, _LARGE_SHARE * collectives(known).known_wire_bytes.most)
        is_long = not is_quick and runs >= WARNING_RUNS
        how = f"{runs:,} runs in a loop" if found[0].loop_path else "one after another"
        yield finding_of(
            found,
            f"{subject(found)} of at most {format_bytes(most)}, {how}",
            "reduce once after the loop, or several arrays with one lax.psum",
            saves=Saves(),
            severity=Severity.WARNING if is_long or is_chain or is_much else Severity.INFO,
        )


def _is_tiny(one: Collective) -> bool:
    return (
        not one.moves_nothing
        and not one.is_host_transfer
        and one.payload_bytes is not None
        and one.payload_bytes <= TINY_BYTES
    )


# ---- C006 ----------------------------------------------------------------------------------------


@module_rule("C006")
def group_of_one(known: ModuleDump) -> Iterator[Finding]:
    """A collective's groups are of one device each: it moves nothing.

    What:
        Each group of a collective has one device, so its result is its operand. The axis that it
        names has size 1, or the mesh is of one device.

    Why it costs:
        XLA removes most of them. Where it is left, the operation is still started, which takes some
        microseconds each time, and fusions end at it.

    Fix:
        Leave the axis of size 1 out of the names that the program gives (lax.psum over axes that
        exist), or build the mesh without it.

    Fine when:
        The same program also runs on larger meshes. It is an info.
    """
    idle = (one for one in collectives(known).collectives if one.moves_nothing)
    for found in by_line(idle):
        yield finding_of(
            found,
            f"{subject(found)}: each group is one device, nothing is moved",
            "leave the axis of size 1 out of the mesh, or of the collective's axis names",
            saves=Saves(),
            severity=Severity.INFO,
        )


# ---- C008 ----------------------------------------------------------------------------------------


_MUCH, _LEAST_BYTES = 2, 1 << 20
"""How many times the bytes of another axis one sends, and least bytes, for a warning."""

_GPU_CONFIG = "gpu_target_config.pbtxt"


@module_rule("C008")
def collective_between_slices(known: ModuleDump) -> Iterator[Finding]:
    """A mesh axis crosses slices or hosts: its collectives use the slower network between them.

    What:
        Transfers of the program go to other slices of a multi-slice TPU job, or to GPUs that no
        NVLink joins. A dump of GPUs does not name the hosts: eight GPUs of consecutive ids are
        taken for one, 72 of GB200 and GB300, and the message says so. The hosts of one TPU slice
        make no difference: ICI joins the chips of all of them. Which devices a mesh axis joins is
        taken from the device assignment of the dump; without one, devices are taken to be numbered
        in order.

    Why it costs:
        The network between slices has a small part of the bandwidth of the links inside one (about
        6 GB/s against 90 GB/s and more for each chip of v5e), the network between GPU hosts about a
        tenth of NVLink's (50 GB/s against 450 GB/s for each H100; see the scaling book). What
        crosses it should be the axis that communicates least: data parallel gradients, once in each
        step.

    Fix:
        Build the mesh with mesh_utils.create_hybrid_device_mesh, so that only the outermost data
        axis crosses slices or hosts, and keep model and fsdp axes inside one.

    Fine when:
        It is the data axis, and its transfers are covered by work; or no axis is small enough for a
        slice or host. Between hosts it is an info, unless the axis fits into a host and another
        one, which stays inside of hosts, sends at most half as much. --prove cannot apply it: the
        order of devices is not part of the program.
    """
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
    axis = over(first)
    return f"{plural(len(found), kinds.pop() if len(kinds) == 1 else 'collective')}{axis}"


def _sent(found: Sequence[Collective]) -> str:
    wire = run_sum(found, WIRE)
    return "bytes not known" if wire is None else bound_text(wire)
