"""Instruction table of a module, and its graphs for networkx.

A module has up to hundreds of thousands of instructions. The table of `tabulate` reads them once:
opcodes, the bytes of results, which instructions produce arrays. A shape is parsed once per
distinct text.

networkx is imported when a graph is made: the import takes a tenth of a second.
"""

from __future__ import annotations

import contextlib
import functools
import re
from array import array
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NAME, NAME_END, NOTHING
from hlo_lens.hlo.opcodes import OpcodeTraits, Produced, opcode_traits
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import networkx as nx

    from hlo_lens.hlo.module import HloComputation, HloInstruction, HloModule
    from hlo_lens.hlo.text import HloReader
    from hlo_lens.shapes.shape import Shape


class InstructionTable:
    """Opcodes and result bytes of all instructions, one entry per row of the columns.

    Columns that only some passes read are made when first asked for.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.opcodes = module.opcodes
        self._sizes = _Sizes(module.reader)

    @property
    def owners(self) -> Sequence[int]:
        return self.module.links.owners

    @property
    def different_opcodes(self) -> Collection[str]:
        return self.opcodes.different

    @property
    def opcode_counts(self) -> dict[str, int]:
        return {opcode: len(rows) for opcode, rows in self.opcodes.places.items()}

    @functools.cached_property
    def opcode_sizes(self) -> Mapping[tuple[str, int | None], int]:
        """Number of instructions of each pair of opcode and bytes of a result.

        See `result_bytes`.
        """
        opcodes, shapes = self.opcodes, self.module.shape_texts
        found: Counter[tuple[str, int | None]] = Counter()
        pairs = Counter(zip(opcodes.numbers, shapes.numbers, strict=True))
        for (opcode, shape), count in pairs.items():
            found[opcodes.different[opcode], self._sizes[shapes.different[shape]]] += count
        return found

    @property
    def shape_texts(self) -> Collection[str]:
        return self.module.shape_texts.different

    def result_bytes(self, row: int) -> int | None:
        """Return `Shape.size_bytes` of a row's result, of a tuple the sum over its leaves."""
        return self._sizes[self.module.shape_texts[row]]

    def rows_of(self, opcodes: Collection[str]) -> list[int]:
        return self.opcodes.places_of(opcodes)

    @functools.cached_property
    def entry_parameters(self) -> list[int]:
        """Rows of the entry's parameters, in text order."""
        entry, owners = self.module.entry.place, self.owners
        return [row for row in self.opcodes.places.get("parameter", ()) if owners[row] == entry]

    def rows_where(self, predicate: Callable[[OpcodeTraits], bool]) -> list[int]:
        """Return the rows whose opcode has traits that satisfy a predicate, in text order."""
        return self.rows_of([o for o in self.different_opcodes if predicate(opcode_traits(o))])

    def instruction(self, row: int) -> HloInstruction:
        return self.module.instruction(row)

    # ---- producers -----------------------------------------------------------------------------

    @property
    def producers(self) -> Sequence[int]:
        """Rows that produce arrays of their own, in text order.

        No views (see `left_out_views`), nothing embedded (see `OpcodeTraits`).
        """
        return self._producers[0]

    @property
    def produced_bytes(self) -> Sequence[int | None]:
        """For each of `producers` the bytes of these arrays; None where unknown."""
        return self._producers[1]

    @property
    def left_out_views(self) -> int:
        """Number of rows that pass on arrays of others.

        These are tuple, get-tuple-element, bitcast, while, conditional, call, opt-barrier, send,
        async-start, ``-done``, ``-update`` and the parameters of computations other than the entry.
        """
        return self._shown - len(self.producers)

    @property
    def left_out_embedded(self) -> int:
        """Number of rows in computations that the entry does not run by itself.

        It reaches them only through fusions, reducers and the like, or not at all.
        """
        return len(self.opcodes) - self._shown

    @property
    def _shown(self) -> int:
        return sum(len(computation.rows) for computation in self._reached)

    @functools.cached_property
    def _reached(self) -> list[HloComputation]:
        module = self.module
        if not module.has_entry:
            return []
        places = module.links.reached(module.entry.place, lambda traits: traits.is_control_flow)
        return [module.computations[place] for place in places]

    @functools.cached_property
    def _producers(self) -> tuple[array[int], list[int | None]]:
        return _producers(self.module, self._reached, self._sizes)


def tabulate(module: HloModule) -> InstructionTable:
    """Return the instruction table of a module."""
    return InstructionTable(module)


def _producers(
    module: HloModule, computations: Sequence[HloComputation], sizes: _Sizes
) -> tuple[array[int], list[int | None]]:
    """Return the rows of some computations that produce arrays, and the bytes of these."""
    opcodes, shapes = module.opcodes, module.shape_texts
    numbers, shape_numbers = opcodes.numbers, shapes.numbers
    parts = [opcode_traits(opcode).produced for opcode in opcodes.different]
    producers = array("I")
    produced: list[int | None] = []
    is_view = [part is Produced.NONE for part in parts]
    known: dict[tuple[int, int], int | None] = {}
    for computation in computations:
        is_entry = computation.is_entry
        for row in computation.rows:
            number = numbers[row]
            if is_view[number] and not (is_entry and opcodes[row] == "parameter"):
                continue
            producers.append(row)
            key = (number, shape_numbers[row])
            if key not in known:
                part, text = parts[number], shapes[row]
                is_whole = part in (Produced.ALL, Produced.NONE)
                known[key] = sizes[text] if is_whole else sizes.element(text, part.value - 1)
            produced.append(known[key])
    return producers, produced


def rows_named(module: HloModule, names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield row and name of each instruction with one of some names."""
    columns = module.columns
    for row, name in enumerate(columns.texts(NAME, NAME_END)):
        if name in names:
            yield row, name
    for row, overlay in columns.overlays.items():
        if overlay.name in names and overlay.name is not None:
            yield row, overlay.name


def unknown_names(module: HloModule, names: Collection[str]) -> set[str]:
    """Return the names that no instruction has."""
    return set(names).difference(name for _, name in rows_named(module, names))


def evident_partitions(table: InstructionTable) -> int | None:
    """Return the printed number of partitions, else that of the entry's shardings, else None.

    XLA prints it since the end of 2023; before that, it follows from the devices of shardings.
    """
    module = table.module
    if "num_partitions" in module.header:
        return module.num_partitions
    shardings = (table.instruction(row).sharding for row in table.entry_parameters)
    most = max((one.num_devices or 0 for one in shardings if one is not None), default=0)
    return most // module.replica_count or None


def opcode_totals(table: InstructionTable) -> dict[str, tuple[int, int, int]]:
    """Return for each opcode its count, result bytes, and the count of unknown sizes."""
    count, size, unknown = table.opcode_counts, Counter[str](), Counter[str]()
    for (opcode, result_bytes), number in table.opcode_sizes.items():
        if result_bytes is None:
            unknown[opcode] += number
        else:
            size[opcode] += number * result_bytes
    return {opcode: (count[opcode], size[opcode], unknown[opcode]) for opcode in count}


class _Sizes(dict[str, "int | None"]):
    """Bytes of a result by shape text, parsed on first use."""

    def __init__(self, reader: HloReader) -> None:
        super().__init__({"": None})
        self._reader = reader
        self._elements: dict[tuple[str, int], int | None] = {}

    def __missing__(self, text: str) -> int | None:
        shape = self._shape(text)
        size = None if shape is None else shape.size_bytes
        self[text] = size
        return size

    def element(self, text: str, position: int) -> int | None:
        """Return the bytes of one element of a tuple, or of the whole array."""
        key = (text, position)
        if key not in self._elements:
            shape = self._shape(text)
            if shape is not None and position < len(shape.tuple_shapes):
                shape = shape.tuple_shapes[position]
            self._elements[key] = None if shape is None else shape.size_bytes
        return self._elements[key]

    def _shape(self, text: str) -> Shape | None:
        if not text:
            return None
        try:
            return self._reader.shape(text)
        except DumpSyntaxError:
            return None


_PRINTED = re.compile(r"%?(\.\.\.)?(.*?)(\{[\d,\s]*\})?")


def names_printed_as(text: str, names: Collection[str]) -> list[str]:
    """Return the names that a printed name may be, in their order; several only for an end.

    >>> names_printed_as("while.3{2}", ["while.3", "add_fusion.12", "mul_fusion.12"])
    ['while.3']
    >>> names_printed_as("...d_fusion.12", ["while.3", "add_fusion.12", "mul_fusion.12"])
    ['add_fusion.12']
    """
    printed = _PRINTED.fullmatch(text.strip())
    name = printed[2] if printed else ""
    if printed and printed[1]:
        return [one for one in names if one.endswith(name)]
    return [name] if name in names else []


def def_use_graph(computation: HloComputation) -> nx.MultiDiGraph[str]:
    """Return the graph of a computation, with edges from each instruction to its users.

    Nodes are instruction names, with ``opcode``, ``hlo_shape``, ``op_name`` and ``source``, as far
    as known. Edges have ``kind``: ``operand``, with ``operand_number`` and ``index`` (``0,1``: the
    tuple index of a compact get-tuple-element, empty for the whole value), or ``control`` for
    control predecessors. A name that is used and not defined, as in a truncated text, is a node
    without attributes. All attributes are text and numbers, which networkx itself can write:

    >>> import hlo_lens, networkx
    >>> module = hlo_lens.parse_hlo("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
    >>> text = " ".join(networkx.generate_graphml(hlo_lens.def_use_graph(module.entry)))
    >>> '<node id="n">' in text, ">negate<" in text, ">f32[8]<" in text
    (True, True, True)
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=computation.name)
    for instruction in computation.instructions:
        facts = {"opcode": instruction.opcode, "hlo_shape": instruction.shape_text}
        with contextlib.suppress(DumpSyntaxError):  # listed as a gap of the module
            facts["op_name"] = instruction.op_name or ""
            facts["source"] = instruction.source or ""
        graph.add_node(instruction.name, **{name: text for name, text in facts.items() if text})
    links, name_of = computation.module.links, computation.module.columns.name
    for instruction in computation.instructions:
        name, row = instruction.name, instruction.row
        targets = links.operands_of(row)
        names = instruction.operand_names if NOTHING in targets else map(name_of, targets)
        elements = links.operand_elements.get(row, repeat(()))
        for number, (operand, element) in enumerate(zip(names, elements, strict=False)):
            index = ",".join(map(str, element))
            graph.add_edge(operand, name, kind="operand", operand_number=number, index=index)
        for before in instruction.control_predecessors:
            graph.add_edge(before, name, kind="control")
    return graph


def call_graph(module: HloModule) -> nx.MultiDiGraph[str]:
    """Return the graph of a module, with edges from each computation to those that it calls.

    Nodes are computation names, with ``instructions`` (their number) and ``is_entry``; edges have
    ``instruction`` (the caller's name) and ``opcode``. A called computation that is not in the
    text is a node without attributes.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=module.name)
    for one in module.computations:
        graph.add_node(one.name, instructions=len(one.rows), is_entry=one.is_entry)
    calls = module.links.calls
    for number, (row, place) in enumerate(zip(calls.rows, calls.places, strict=True)):
        caller = module.instruction(row)
        called = calls.undefined.get(number) or module.computations[place].name
        graph.add_edge(
            caller.computation.name, called, instruction=caller.name, opcode=caller.opcode
        )
    return graph
