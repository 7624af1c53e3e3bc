"""Hashes of instructions and computations: fingerprints to match them, digests of whole programs.

Fingerprints are numbers of one process: *up* of what an instruction computes, from its operands,
*down* of its users. Instructions with equal ones are compared afterwards, so that a collision hides
no change. Computations with equal text and equal callees share theirs, found once.

The digest of a program is equal on every machine for equal programs, without names and spellings.
Digested are, for each instruction, its label, those of its operands, and what it calls; for a
computation, its root, the number of each instruction in any order, and control dependencies. Two
programs with one digest have no change in `program_diff`, header included, except for attributes of
get-tuple-elements, which not all texts print, and for which of equal random numbers, sends and
recvs is used. Two texts of one program that print different things (layouts, asynchronous
operations as ``X-start``) may have two digests.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.matching.edits import header_values
from hlo_lens.questions.matching.graphs import program_graph
from hlo_lens.questions.matching.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.matching.graphs import ProgramGraph

_MASK = (1 << 61) - 1
_NO_OPERAND = hash(("unknown",))
_RESULT = hash(("result",))

KnownBodies: TypeAlias = "dict[Hashable, tuple[list[int], list[int], int]]"
"""Fingerprints up, down and of the content of computations, of all graphs with the same labels."""


class Fingerprints:
    """Fingerprints of a graph; those of the entry as soon as `complete` is called.

    `tokens` are keys of parameters of the entry that are better than their number. New
    computations are added to the known ones.
    """

    def __init__(self, graph: ProgramGraph, tokens: Mapping[int, int], known: KnownBodies) -> None:
        self.up = [0] * len(graph) + [_NO_OPERAND]  # the last one is for unknown operands
        # of users within the computation, up to the result; the last one has no meaning
        self.down = [0] * (len(graph) + 1)
        self.content = [0] * len(graph.nodes)  # of each computation, dead code included
        self.whole: list[Hashable] = [None] * len(graph.nodes)  # text, and content of callees
        self._graph = graph
        self._tokens = tokens
        self._is_complete = graph.entry < 0
        for computation in graph.callees_first():
            nodes = graph.nodes[computation]
            part = slice(nodes.start, nodes.stop)
            callees = tuple(
                (node - nodes.start, role, self.content[callee])
                for node in graph.calls_of(computation)
                for role, callee in graph.callees[node]
            )
            key = self.whole[computation] = graph.bodies[computation], callees
            if computation == graph.entry:
                continue
            if key in known:
                self.up[part], self.down[part], self.content[computation] = known[key]
            else:
                self._find_up(computation, {})
                self._find_down(computation)
                known[key] = self.up[part], self.down[part], self.content[computation]

    def complete(self) -> None:
        """Find the fingerprints of the entry, which is large and often needs none."""
        if not self._is_complete:
            self._is_complete = True
            self._find_up(self._graph.entry, self._tokens)
            self._find_down(self._graph.entry)

    def _find_up(self, computation: int, tokens: Mapping[int, int]) -> None:
        """Find the fingerprints of what nodes compute: labels, and those of operands."""
        graph, up, content = self._graph, self.up, self.content
        nodes, labels = graph.nodes[computation], graph.label
        indices, callees = graph.indices, graph.callees
        first, operands = nodes.start, graph.operands.of(nodes)
        special = {*graph.calls_of(computation), *tokens}
        special.update(filter(indices.__contains__, nodes if indices else ()))
        for node in graph.order(computation):
            taken = operands[node - first]
            if node in special:
                label: Hashable = labels[node]
                if node in callees:
                    label = (label, *[(role, content[c]) for role, c in callees[node]])
                elif node in tokens:
                    label = ("token", tokens[node])
                pairs = graph.operands_of(node)
                up[node] = hash((label, *[hash((up[o], i)) if i else up[o] for o, i in pairs]))
            elif len(taken) == 2:
                up[node] = hash((labels[node], up[taken[0]], up[taken[1]]))
            elif len(taken) == 1:
                up[node] = hash((labels[node], up[taken[0]]))
            else:
                up[node] = hash((labels[node], *[up[o] for o in taken]))
        total = sum(up[nodes.start : nodes.stop])
        root, index = graph.roots[computation]
        content[computation] = hash((up[root], index, total & _MASK, len(nodes)))

    def _find_down(self, computation: int) -> None:
        """Find the fingerprints down of the nodes: label, and those of users with their place.

        Users are visited first: until its own turn, a node has the sum over its users. The shape of
        a tuple and the place in it do not count: one more element would change all others.
        """
        graph, down = self._graph, self.down
        nodes, labels, indices = graph.nodes[computation], graph.label, graph.indices
        first, operands = nodes.start, graph.operands.of(nodes)
        parts = graph.labels.parts
        used = set(labels[nodes.start : nodes.stop])
        of_tuples = {label for label in used if parts[label].opcode == "tuple"}
        down[graph.roots[computation][0]] += _RESULT
        for node in reversed(graph.order(computation)):
            label, taken = labels[node], operands[node - first]
            if label in of_tuples:
                value = down[node] = hash((-1, down[node]))
                for operand in taken:
                    down[operand] += value
                continue
            value = down[node] = hash((label, down[node]))
            step = value + value
            for operand in taken:
                down[operand] += value
                value += step
            if node in indices:
                value = down[node]
                for operand, index in zip(taken, indices[node], strict=True):
                    down[operand] += hash((value, index))


# ---- digests -----------------------------------------------------------------------------------

_SIZE = 16
_UNDEFINED = bytes(_SIZE)


def program_fingerprint(module: HloModule) -> str | None:
    """Return the digest of a program in hexadecimal digits; None without computations."""
    graph = program_graph(module, Labels())
    if graph.entry < 0:
        return None
    contents = _contents(graph)
    return _digest(b"".join([contents[graph.entry], *sorted(set(contents)), _header(graph)])).hex()


def _contents(graph: ProgramGraph) -> list[bytes]:
    labels = [_digest(text.encode("utf-8", "surrogatepass")) for text in _label_texts(graph.labels)]
    contents = [_UNDEFINED] * len(graph.nodes)
    up = [_UNDEFINED] * (len(graph) + 1)  # of values; the last one is for undefined operands
    for computation in graph.callees_first():
        found: list[bytes] = []
        for node in graph.order(computation):
            parts = [labels[graph.label[node]]]
            if node in graph.indices:
                parts += [up[o] + repr(index).encode() for o, index in graph.operands_of(node)]
            else:
                parts += [up[operand] for operand in graph.operands[node]]
            if node in graph.callees:
                parts += [role.encode() + contents[c] for role, c in graph.callees[node]]
            up[node] = _digest(b"".join(parts))
            found.append(up[node])
        for node in graph.nodes[computation] if graph.controls else ():
            found += [_digest(up[node] + up[other]) for other in graph.controls.get(node, ())]
        root, index = graph.roots[computation]
        parts = [up[root], repr(index).encode(), *sorted(found)]
        contents[computation] = _digest(b"".join(parts))
    return contents


def _label_texts(labels: Labels, *, with_configs: bool = True) -> list[str]:
    shapes = list(map(str, labels.shapes))
    attributes = [
        _plain(frozenset((name, value) for name, (value, _) in found.items()))
        for found in labels.attributes
    ]
    configs = [*(repr(text) * with_configs for _, text in labels.configs), ""]  # "" for none
    return [
        f"{opcode}\n{shapes[shape]}\n{attributes[key]}\n{configs[config]}\n{_plain(detail)}"
        for opcode, shape, key, config, detail in labels.parts
    ]


def _plain(value: Hashable) -> str:
    """Return a value as text, with sets sorted: their order changes from run to run."""
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, tuple):
        return f"({','.join(map(_plain, value))})"
    return repr(value)


def _header(graph: ProgramGraph) -> bytes:
    """Return the digest of the header: aliases, donors, and all other fields."""
    module = graph.module
    aliases = sorted(
        f"{a.output_index}:{a.parameter_number}{a.parameter_index}:{a.kind}"
        for a in module.input_output_alias
    )
    donors = sorted(f"{number}{index}" for number, index in module.buffer_donor)
    others = [f"{name}={value}" for name, value in sorted(header_values(graph).items())]
    text = "\n".join([*aliases, "-", *donors, *others])
    return _digest(text.encode("utf-8", "surrogatepass"))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SIZE).digest()


def text_copies(modules: Sequence[ModuleDump]) -> dict[int, int]:
    """Return the places of texts without a number, each with that of the module it repeats.

    A text repeats a module with a number in its name if both have one name and equal instructions,
    as often, whatever their operands. Such is the text of ``compiled.as_text()`` next to the files
    that XLA wrote of the same compile. On a TPU it has more backend configs than these files, and
    prints asynchronous operations as ``X-start`` where they have async-starts, or the reverse.
    """
    texts = [k for k, one in enumerate(modules) if one.number is None and one.hlo is not None]
    names = {modules[k].title for k in texts}
    compiled: dict[object, int] = {}
    for place, one in enumerate(modules):
        if one.number is not None and one.hlo is not None and one.title in names:
            compiled.setdefault((one.title, _instructions(one.hlo)), place)
    found = {
        place: compiled.get((modules[place].title, _instructions(hlo)))
        for place in texts
        if compiled and (hlo := modules[place].hlo) is not None
    }
    return {place: original for place, original in found.items() if original is not None}


def _instructions(module: HloModule) -> frozenset[object]:
    """Return how often instructions occur, without configs and those of asynchronous operations."""
    graph = program_graph(module, Labels())
    texts = _label_texts(graph.labels, with_configs=False)
    calls = module.links.calls.of_rows(module.opcodes.places_of({"async-start"}))
    wrapped = {call.place for call in calls}
    counts = Counter(
        texts[label]
        for label, owner in zip(graph.label, graph.owner, strict=True)
        if owner not in wrapped and not opcode_traits(graph.labels.parts[label].opcode).phase
    )
    return frozenset(counts.items())
