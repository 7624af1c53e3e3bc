"""Rules about collectives that cost time: exposed, tiny, idle, or on slow links."""

from __future__ import annotations

from collections import defaultdict
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
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding


# ---- C001 ----------------------------------------------------------------------------------------
@module_rule("C001")
def exposed_collective(known: ModuleDump) -> Iterator[Finding]:
    """Devices wait for a collective in a loop: no work overlaps the transfer.

    What: In a loop, a collective runs while nothing else does, or the work between its start and
    its end is too small to last as long as the transfer.
    Why it costs: The transfer adds to the time of each trip.
    Fix: Let XLA overlap it: --xla_gpu_enable_latency_hiding_scheduler=true on GPU (TPU's compiler
    does it by default); unroll the scan by two, so that the next layer's weights are gathered while
    this layer computes; or gather less (another axis, a smaller type).
    Fine when: The value is needed at once, and nothing else could run. On CPU every collective is
    synchronous, so this rule does not look at CPU dumps. It is an info: what overlaps depends on
    times that the dump does not have.
    """
    found = collectives(known)
    total = found.known_wire_bytes
    if backend_of_dump(known) == "cpu" or not found.is_scheduled or not total.most:
        return
    whole = "the most that is sent" if total.is_at_most else "all bytes sent"
    if found.wire_bytes_per_device is None:
        whole = "the bytes sent that are known"
    exposed = (one for one in found.collectives if one.loop_path and one.is_exposed)
    for group in by_line(exposed):
        uncovered = known_sum(group, UNCOVERED)
        if uncovered.most < 0.05 * total.most:
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

MANY_RUNS, MANY_IN_A_ROW = 32, 16
"""Fewest runs in a loop, and fewest collectives of one line outside of loops, that are many."""

_SCALAR = 64
"""Most bytes of a few scalars, of which one collective could carry all."""

WARNING_RUNS = 128
"""Fewest runs that are worth a warning: 4 ms and more between the GPUs of an H100 host."""


@module_rule("C002")
def tiny_collective(known: ModuleDump) -> Iterator[Finding]:
    """A collective with a tiny payload runs many times.

    What: A loop, or one line 16 times and more, runs collectives whose payload is so small that
    starting them takes longer than moving their bytes. XLA combines those that do not need each
    other.
    Why it costs: Each run costs the latency of the network, whatever its size: 32 to 97 us for 1
    KiB between the eight GPUs of one H100 host (XLA's default_collective_perf_table.txtpb), and
    devices wait for each other.
    Fix: Compute the value once after the loop (sum the partial results, then reduce once), or
    combine several: lax.psum takes a tuple of arrays.
    Fine when: The reduced value is needed before the next, as a norm over a sharded dimension is;
    or the loop is short. Fewer than 128 runs, and dumps of a CPU, are an info, unless they are a
    chain of scalars outside of loops, or send a tenth of all bytes.
    """
    is_quick, known_bytes = backend_of_dump(known) == "cpu", collectives(known).known_wire_bytes
    tiny = [
        one
        for one in collectives(known).collectives
        if not one.moves_nothing
        and not one.is_host_transfer
        and one.payload_bytes is not None
        and one.payload_bytes <= TINY_BYTES
    ]
    groups = [*by_line(one for one in tiny if one.loop_path)]
    groups += by_line(one for one in tiny if not one.loop_path)
    for found in groups:
        in_loop = bool(found[0].loop_path)
        runs = sum(one.dynamic_count or 0 for one in found)
        if runs < (MANY_RUNS if in_loop else MANY_IN_A_ROW):
            continue
        most = max(one.payload_bytes or 0 for one in found)
        is_chain = most <= _SCALAR and not in_loop
        is_much = known_sum(found, WIRE).most >= max(LEAST_BYTES, 0.1 * known_bytes.most)
        is_grave = is_chain or is_much or (not is_quick and runs >= WARNING_RUNS)
        how = f"{runs:,} runs in a loop" if in_loop else "one after another"
        yield finding_of(
            found,
            f"{subject(found)} of at most {format_bytes(most)}, {how}",
            "reduce once after the loop, or several arrays with one lax.psum",
            saves=Saves(),
            severity=Severity.WARNING if is_grave else Severity.INFO,
        )


# ---- C006 ----------------------------------------------------------------------------------------
@module_rule("C006")
def group_of_one(known: ModuleDump) -> Iterator[Finding]:
    """A collective's groups are of one device each: it moves nothing.

    What: Each group of a collective has one device, so its result is its operand. The axis that it
    names has size 1, or the mesh is of one device.
    Why it costs: XLA removes most of them. Where it is left, the operation is still started, which
    takes some microseconds each time, and fusions end at it.
    Fix: Leave the axis of size 1 out of the names that the program gives (lax.psum over axes that
    exist), or build the mesh without it.
    Fine when: The same program also runs on larger meshes. It is an info.
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
_LEAST_BYTES = 1 << 20
"""Least bytes that an axis sends between hosts for a warning."""


@module_rule("C008")
def collective_between_slices(known: ModuleDump) -> Iterator[Finding]:
    """A mesh axis crosses slices or hosts: its collectives use the slower network between them.

    What: Transfers of the program go to other slices of a multi-slice TPU job, or to GPUs that no
    NVLink joins. A dump of GPUs does not name the hosts: eight GPUs of consecutive ids are taken
    for one, 72 of GB200 and GB300. Which devices a mesh axis joins is taken from the device
    assignment of the dump; without one, devices are taken to be numbered in order.
    Why it costs: The network between slices has a small part of the bandwidth of the links inside
    one (about 6 GB/s against 90 GB/s and more for each chip of v5e), that between GPU hosts about a
    tenth of NVLink's (see the scaling book). What crosses it should be the axis that communicates
    least: data parallel gradients, once in each step.
    Fix: Build the mesh with mesh_utils.create_hybrid_device_mesh, so that only the outermost data
    axis crosses slices or hosts, and keep model and fsdp axes inside one.
    Fine when: It is the data axis, and its transfers are covered by work; or no axis is small
    enough for a slice or host. Between hosts it is an info, unless the axis fits into a host and
    another one, which stays inside of hosts, sends at most half as much.
    """
    slices = [mesh.slices for mesh in collectives(known).meshes]
    is_assumed = any(one is not None and one.is_assumed for one in slices)
    crossing = (one for one in collectives(known).collectives if one.crosses_slices)
    for found in by_line(crossing):
        in_loop = any(one.loop_path for one in found)
        order = ", if devices are numbered in order" * (is_assumed and bool(found[0].axes))
        yield finding_of(
            found,
            f"{_subject(found)} between slices{order}: {_sent(found)} of one run on the data "
            "center network",
            "let only the data axis cross slices (mesh_utils.create_hybrid_device_mesh)",
            saves=Saves(),
            severity=Severity.WARNING if in_loop else Severity.INFO,
        )
    if backend_of_dump(known) == "gpu":
        yield from _between_hosts(known)


def _between_hosts(known: ModuleDump) -> Iterator[Finding]:
    joined = joined_gpus(known.setting("gpu_target_config.pbtxt"))
    if num_devices(known) <= joined:
        return
    assignment = device_assignment(known)
    replicas = assignment or (range(num_devices(known)),)
    hosts = [number // joined for replica in replicas for number in replica]
    order = ", numbered in order" if assignment is None else ""
    crossing: dict[str, list[Collective]] = defaultdict(list)
    inside: dict[str, list[Collective]] = defaultdict(list)
    for one in collectives(known).collectives:
        if one.groups and not one.moves_nothing:
            groups = one.source_target_pairs or one.groups
            used = ({hosts[device] for device in group if device < len(hosts)} for group in groups)
            (crossing if any(len(one) > 1 for one in used) else inside)[one.axis].append(one)
    sent = {axis: run_sum(found, WIRE) for axis, found in (inside | crossing).items()}
    for axis, found in crossing.items():
        largest = max(found, key=lambda one: one.wire_bytes_per_run or 0)
        group = [largest, *(one for one in found if one is not largest)]
        wire, size = sent[axis], found[0].group_size
        is_much = wire is not None and wire.most >= _LEAST_BYTES and (size or joined + 1) <= joined
        # axes that could cross hosts instead: they send much less
        better = {
            other: less.most
            for other, less in sent.items()
            if is_much and other not in crossing and other.isidentifier() and less and wire
            if 0 < 2 * less.most <= wire.most
        }
        made = finding_of(
            group,
            f"{_subject(group)} between hosts (taken to have {joined} GPUs each{order}): "
            f"{_sent(group)} of one run on the network",
            "let only the data axis cross hosts (mesh_utils.create_hybrid_device_mesh)",
            saves=Saves(),
            severity=Severity.WARNING if better else Severity.INFO,
        )
        for other in sorted(better, key=lambda name: better[name])[:1]:
            note = f"{other}, which stays inside of hosts, sends {format_bytes(better[other])}"
            made = replace(made, evidence=(*made.evidence, note))
        yield made


def _subject(found: Sequence[Collective]) -> str:
    kinds = {one.performed_as or one.kind for one in found}
    kind = kinds.pop() if len(kinds) == 1 else "collective"
    return f"{plural(len(found), kind)}{over(found[0])}"


def _sent(found: Sequence[Collective]) -> str:
    wire = run_sum(found, WIRE)
    return "bytes not known" if wire is None else bound_text(wire)
