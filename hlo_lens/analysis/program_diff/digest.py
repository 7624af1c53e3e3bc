"""A digest of a program without names and spellings, equal on every machine for equal programs.

Of each instruction: its label (`labels`), those of what it computes from, and what it calls; of a
computation: its root, how often it has each instruction, in whatever order, and which must run
before which; of sends and recvs also who shares their channel, of equal impure instructions who
takes which. Two programs of one digest are the same as `program_diff` understands it, header
included, but for attributes of get-tuple-elements, which not all texts print; two texts of one
program that print different things (layouts, async wrappers) may have two digests.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.analysis.program_diff.entry_layouts import entry_shapes
from hlo_lens.analysis.program_diff.graph_building import program_graph
from hlo_lens.analysis.program_diff.labels import Labels
from hlo_lens.analysis.program_diff.match_keys import operands_of
from hlo_lens.analysis.program_diff.module_header import has_gap, header_values
from hlo_lens.analysis.program_diff.side_effects import impure_nodes
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hlo_lens.analysis.program_diff.graph import ProgramGraph
    from hlo_lens.model.hlo.module import HloModule

_SIZE = 16
_UNKNOWN = bytes(_SIZE)


def program_fingerprint(module: HloModule) -> str | None:
    """Return the digest of a program, as hexadecimal digits; None for one without computations."""
    graph = program_graph(module, Labels(), {})
    if graph.entry < 0:
        return None
    contents, up = _contents(graph, {})
    extra = {**_uses(graph, up), **_channels(graph, up)}
    if extra:
        contents, _ = _contents(graph, extra)
    return _digest(b"".join([contents[graph.entry], *sorted({*contents}), _header(graph)])).hex()


def _header(graph: ProgramGraph) -> bytes:
    """Return what the header says: aliases, donors, layouts, and all that is told by its name."""
    module = graph.module
    aliases = sorted(
        f"{a.output_index}:{a.parameter_number}{a.parameter_index}:{a.kind}"
        for a in module.input_output_alias
    )
    donors = sorted(f"{number}{index}" for number, index in module.buffer_donor)
    values = header_values(module, as_written=has_gap(module))
    others = [f"{name}={value}" for name, value in sorted(values.items())]
    layouts = [
        f"{number}:{shape.demanded}"
        for number, shape in sorted(entry_shapes(graph).items())
        if shape.demanded != shape.printed
    ]
    text = "\n".join([*aliases, "-", *donors, *layouts, *others])
    return _digest(text.encode("utf-8", "surrogatepass"))


def _channels(graph: ProgramGraph, up: Sequence[bytes]) -> dict[int, bytes]:
    """Return for each send and recv who shares its channel, whatever its number."""
    members: dict[str, list[int]] = {}
    for node, channel in graph.channels.items():
        if opcode_traits(graph.opcode(node)).is_paired:
            members.setdefault(channel, []).append(node)
    found: dict[int, bytes] = {}
    for nodes in members.values():
        found.update(dict.fromkeys(nodes, _digest(b"".join(sorted(up[n] for n in nodes)))))
    return found


def _uses(graph: ProgramGraph, up: Sequence[bytes]) -> dict[int, bytes]:
    """Return what takes each of several impure nodes that do the same: they are not one another."""
    impure = impure_nodes(graph)
    same = Counter(up[node] for node in impure)
    uses: dict[int, list[bytes]] = {node: [] for node in impure if same[up[node]] > 1}
    if not uses:
        return {}
    for user in range(len(graph)):
        if not uses.keys().isdisjoint(graph.operands[user]):
            for place, (node, index) in enumerate(operands_of(graph, user)):
                if node in uses:
                    uses[node].append(up[user] + repr((place, index)).encode())
    return {node: _digest(b"".join(sorted(found))) for node, found in uses.items()}


def _contents(
    graph: ProgramGraph, extra: Mapping[int, bytes]
) -> tuple[list[bytes], Sequence[bytes]]:
    """Return a digest of each computation, and of what each node computes.

    Args:
        graph: The graph.
        extra: What more is to count of some nodes.
    """
    controls: dict[int, list[tuple[int, int]]] = {}
    for node, before in graph.controls.items():
        controls.setdefault(graph.owner[node], []).extend((node, one) for one in before)
    labels = [_digest(text.encode("utf-8", "surrogatepass")) for text in _label_texts(graph.labels)]
    contents = [_UNKNOWN] * len(graph.nodes)
    up = [_UNKNOWN] * (len(graph) + 1)  # the last stands for an operand that is not defined
    blake = hashlib.blake2b
    for computation in graph.callees_first():
        found: list[bytes] = []
        for node in graph.order(computation):
            parts = [labels[graph.label[node]]]
            operands = graph.operands[node]
            if node in graph.indices:
                pairs = zip(operands, graph.indices[node], strict=True)
                parts += [up[operand] + repr(index).encode() for operand, index in pairs]
            else:
                parts += [up[operand] for operand in operands]
            if node in graph.callees:
                parts += [role.encode() + contents[c] for role, c in graph.callees[node]]
            if node in extra:
                parts.append(extra[node])
            up[node] = blake(b"".join(parts), digest_size=_SIZE).digest()
            found.append(up[node])
        found += [_digest(up[node] + up[one]) for node, one in controls.get(computation, ())]
        root, index = graph.roots[computation]
        parts = [up[root], repr(index).encode(), *sorted(found)]
        contents[computation] = _digest(b"".join(parts))
    return contents, up


def _label_texts(labels: Labels) -> list[str]:
    """Return each label as a text that does not depend on this run."""
    shapes = [str(shape) for shape in labels.shapes]
    attributes = [
        _plain(frozenset((name, value) for name, (value, _) in found.items()))
        for found in labels.attributes
    ]
    configs = [repr(text) for _, text in labels.configs]
    return [
        "\n".join(
            (
                part.opcode,
                shapes[part.shape],
                attributes[part.attributes],
                configs[part.config] if part.config >= 0 else "",
                _plain(part.detail),
            )
        )
        for part in labels.parts
    ]


def _plain(value: Hashable) -> str:
    """Return a value as text; sets in order, since theirs changes from run to run."""
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, tuple):
        return f"({','.join(map(_plain, value))})"
    return repr(value)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SIZE).digest()
