"""Digest of a program without names and spellings, equal on every machine for equal programs.

Digested are, for each instruction, its label (`labels`), those of its operands, and what it calls;
for a computation, its root, the number of each instruction in any order, and control dependencies;
for sends and recvs also the counterparts on their channel, and for equal impure instructions their
users. Two programs with one digest have no change in `program_diff`, header included, except for
attributes of get-tuple-elements, which not all texts print. Two texts of one program that print
different things (layouts) may have two digests. Those that print async operations as ``X-start``
and as async-starts of computations have one if digested as the former; what only the latter can
print, such as another backend config of the wrapped operation, is digested with them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.graphs import (
    ProgramGraph,
    impure_nodes,
    operands_of,
    program_graph,
)
from hlo_lens.questions.diff.matching.headers import entry_shapes, has_gap, header_values
from hlo_lens.questions.diff.matching.meanings import Labels

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence, Set

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump


_SIZE = 16
_UNKNOWN = bytes(_SIZE)


def program_fingerprint(
    module: HloModule, left_out: Set[str] = frozenset(), *, with_sugar: bool = False
) -> str | None:
    """Return the digest of a program in hexadecimal digits; None without computations.

    Args:
        module: The program.
        left_out: Fields of backend configs that do not count.
        with_sugar: Whether async-starts are digested as ``X-start``, without their computations.
    """
    graph = program_graph(module, Labels(left_out=left_out), {}, with_sugar=with_sugar)
    if graph.entry < 0:
        return None
    contents, up = _contents(graph, {})
    extra = {**_uses(graph, up), **_channels(graph, up)}
    if extra:
        contents, _ = _contents(graph, extra)
    wrapped = _wrappers(graph)
    different = {one for place, one in enumerate(contents) if place not in wrapped}
    unwritten = [one.encode("utf-8", "surrogatepass") for one in _unwritten(graph, wrapped)]
    parts = [contents[graph.entry], *sorted(different), _header(graph), *unwritten]
    return _digest(b"".join(parts)).hex()


def _wrappers(graph: ProgramGraph) -> dict[int, HloInstruction]:
    """Return the computations that are part of async operations, each with its operation."""
    module = graph.module
    instructions = map(module.instruction, graph.wrapped)
    return {one.computation.place: one for one in instructions if one.is_root}


def _unwritten(graph: ProgramGraph, wrapped: Mapping[int, HloInstruction]) -> list[str]:
    """Return backend configs and attributes of wrapped operations that sugar cannot print.

    Sugar prints the backend config of the async-start alone, and one value of each attribute.
    """
    module, labels = graph.module, graph.labels
    found: set[str] = set()
    calls = module.links.calls
    for row, place in zip(calls.rows, calls.places, strict=True):
        if place not in wrapped or module.opcodes[row] != "async-start":
            continue
        (inner, config), (outer, own) = (
            labels.attribute_list(one.attribute_list, module.reader)
            for one in (wrapped[place], module.instruction(row))
        )
        if config >= 0 and config != own and _has_content(labels.configs[config][0]):
            found.add(labels.configs[config][1])
        printed = labels.attributes[outer.key]
        for name, (value, text) in labels.attributes[inner.key].items():
            if name in printed and printed[name][0] != value:
                found.add(f"{name}={text}")
    return sorted(found)


def _has_content(config: object) -> bool:
    """Return whether a backend config has any value: not only empty lists and objects."""
    if isinstance(config, dict):
        return any(map(_has_content, config.values()))
    return any(map(_has_content, config)) if isinstance(config, list) else True


def _header(graph: ProgramGraph) -> bytes:
    """Return the digest of the header: aliases, donors, layouts, and all other fields."""
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
    """Return a digest of the counterparts of each send and recv, without channel numbers."""
    members: dict[str, list[int]] = {}
    for node, channel in graph.channels.items():
        if opcode_traits(graph.opcode(node)).is_paired:
            members.setdefault(channel, []).append(node)
    found: dict[int, bytes] = {}
    for nodes in members.values():
        found.update(dict.fromkeys(nodes, _digest(b"".join(sorted(up[n] for n in nodes)))))
    return found


def _uses(graph: ProgramGraph, up: Sequence[bytes]) -> dict[int, bytes]:
    """Return a digest of the users of each equal impure node, which distinguishes them."""
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
    """Return the digests of each computation, and of the value of each node."""
    controls: dict[int, list[tuple[int, int]]] = {}
    for node, before in graph.controls.items():
        controls.setdefault(graph.owner[node], []).extend((node, one) for one in before)
    labels = [_digest(text.encode("utf-8", "surrogatepass")) for text in _label_texts(graph.labels)]
    contents = [_UNKNOWN] * len(graph.nodes)
    up = [_UNKNOWN] * (len(graph) + 1)  # the last one is for undefined operands
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
    """Return each label as a text that is the same in every run."""
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
    """Return a value as text, with sets sorted: their order changes from run to run."""
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, tuple):
        return f"({','.join(map(_plain, value))})"
    return repr(value)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SIZE).digest()


_OF_CODE = frozenset(
    {
        "bf16_mapped_op_count",
        "collective_algorithm_config",
        "convolution_algorithm_config",
        "indices_config",
        "integer_config",
        "megacore_config",
        "retry_config",
        "used_scoped_memory_configs",
        "window_config",
    }
)
"""Fields of a TPU's backend configs about generated code: algorithms, tiles, retries.

What is computed is in other fields and in attributes, which count: kernels, the window and
dimension numbers of a convolution. Dumps of libtpu have ``integer_config`` in
``after_codegen.txt`` alone, and ``bf16_mapped_op_count`` in no text (jax 0.10 to 0.12).
"""


def text_copies(modules: Sequence[ModuleDump]) -> dict[int, int]:
    """Return the places of texts without a number, each with that of the module it repeats.

    A text repeats a module with a number in its name if both have one name and equal programs. Such
    is the text of ``compiled.as_text()`` next to the files that XLA wrote of the same compile. On a
    TPU it has more backend configs than these files, which are written before code is generated.
    Some of these texts print asynchronous operations as ``X-start``, others as async-starts.
    """
    texts = [k for k, one in enumerate(modules) if one.number is None and one.hlo is not None]
    names = {modules[k].title for k in texts}
    compiled: dict[tuple[str, str | None], int] = {}
    for place, one in enumerate(modules):
        if texts and one.number is not None and one.title in names:
            compiled.setdefault((one.title, _fingerprint(one)), place)
    found: dict[int, int] = {}
    for place in texts if compiled else ():
        one = modules[place]
        own = _fingerprint(one)
        if own is not None and (one.title, own) in compiled:
            found[place] = compiled[one.title, own]
    return found


def _fingerprint(module: ModuleDump) -> str | None:
    if module.hlo is None:
        return None
    return program_fingerprint(module.hlo, _OF_CODE, with_sugar=True)
