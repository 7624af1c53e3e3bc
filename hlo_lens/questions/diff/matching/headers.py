"""Header fields of a module, as texts that are equal for equal meanings.

Used by `module_changes` and by digests of programs. Aliases, donors and layouts of the entry are
compared by parameter; if a header has a gap they also count as written.

Before layout assignment the layouts of parameters and result in the header differ from those of the
entry: they are those that the caller passes and receives. Without a header field, they are those of
the entry (xla/hlo/parser/hlo_parser.cc derives one from the other).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.questions.diff.matching.graphs import parameter_numbers
from hlo_lens.questions.diff.matching.meanings import (
    SHARDY,
    axis_numbers,
    config_meaning,
    shape_changes,
    squeezed,
    with_axis_numbers,
)
from hlo_lens.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.graphs import ProgramGraph
    from hlo_lens.questions.diff.matching.matching import Matching
    from hlo_lens.shapes.shape import ShapeIndex


_COUNTS = ("num_partitions", "replica_count")
_FLAG = "is_scheduled"
_READ = ("input_output_alias", "buffer_donor", "entry_computation_layout", "frontend_attributes")
_NO_MEANING = frozenset({"debug_attributes", "origin_recovery_table"})
_FINGERPRINTS = frozenset({"fingerprint_before_lhs"})
"""Frontend attributes about the text, without effect on the program."""


def header_values(module: HloModule, *, as_written: bool) -> dict[str, str]:
    """Return the header fields by name; each frontend attribute has a name of its own.

    Args:
        module: The module.
        as_written: Whether fields that are compared elsewhere are included as well.
    """
    found = {name: str(getattr(module, name)) for name in _COUNTS}
    found[_FLAG] = str(module.is_scheduled).lower()
    elsewhere = _NO_MEANING if as_written else _NO_MEANING.union(_READ)
    for name, value in module.header.items():
        if name == "backend_config":
            found[name] = config_meaning(value, module.reader)[1]
        elif name not in elsewhere:
            is_flag = name == _FLAG and value in ("true", "false")
            if not is_flag and not (name in _COUNTS and value.isdecimal()):
                found[name] = squeezed(value)
    axes = axis_numbers(module)
    for name, value in module.frontend_attributes.items():
        if name not in _FINGERPRINTS:
            plain = with_axis_numbers(value, axes) if SHARDY in value else value
            found[f"frontend_attributes.{name}"] = plain
    return found


def has_gap(module: HloModule) -> bool:
    """Return whether a part of the header could not be read."""
    if not module.gaps:
        return False
    source = module.columns.source
    end = source.text.find("\n\n", module.start)
    last, _ = source.line_column(end if end >= 0 else len(source.text))
    first, _ = source.line_column(module.start)
    return any(first <= gap.line <= last for gap in module.gaps)


# ---- layouts of the entry ----------------------------------------------------------------------

RESULT = -1
"""Key of the result among the numbers of parameters."""


class EntryShape(NamedTuple):
    """A parameter or the result of a program.

    Attributes:
        demanded: Its shape in the header; the printed one if the header has none.
        printed: Its shape in the instruction.
    """

    demanded: Shape
    printed: Shape


def entry_shapes(graph: ProgramGraph) -> dict[int, EntryShape]:
    """Return the shapes of the parameters by number, and of the result, if both are known."""
    labels, module = graph.labels, graph.module
    printed: dict[int, Shape | str] = {
        number: labels.shapes[labels.parts[graph.label[node]].shape]
        for number, node in parameter_numbers(graph, graph.entry).items()
    }
    if module.entry.root is not None:
        text = module.entry.root.shape_text
        printed[RESULT] = labels.shapes[labels.shape(text, module.reader)]
    demanded: dict[int, Shape] = {}
    program = module.entry_computation_layout
    if program is not None:
        demanded = dict(enumerate(program.parameters))
        demanded[RESULT] = program.result
    return {
        number: EntryShape(
            labels.plain_shape(demanded[number]) if number in demanded else shape, shape
        )
        for number, shape in printed.items()
        if isinstance(shape, Shape)
    }


def layout_changes(mine: EntryShape, yours: EntryShape, label: str) -> Iterator[Change]:
    """Yield the changes of header layouts of a parameter or the result, leaf by leaf.

    Without those of the instructions, which the header repeats.
    """
    if mine.demanded == yours.demanded:
        return
    leaves = [[leaf for _, leaf in shape.leaves()] for shape in (*mine, *yours)]
    is_alike = len({len(part) for part in leaves}) == 1
    quadruples = zip(*leaves, strict=True) if is_alike else [(*mine, *yours)]
    for place, (before, was, after, now) in enumerate(quadruples):
        said = set(shape_changes(was, now))
        name = f"{label} {{{place}}}" if len(leaves[0]) > 1 and is_alike else label
        for change in shape_changes(before, after):
            if change not in said:
                yield Change(
                    what="entry_computation_layout",
                    base=f"{name} {change.what} {change.base or '(none)'}",
                    head=f"{name} {change.what} {change.head or '(none)'}",
                )


def module_changes(base: ProgramGraph, head: ProgramGraph, found: Matching) -> Iterator[Change]:
    """Yield the changes of the module, donations first."""
    partners = _Parameters(base, head, found)
    yield from _donations(base, head, partners)
    yield from _layouts(base, head, partners)
    modules = (base.module, head.module)
    as_written = any(map(has_gap, modules))
    mine, yours = (header_values(module, as_written=as_written) for module in modules)
    for name in dict.fromkeys((*mine, *yours)):
        before, after = mine.get(name), yours.get(name)
        if before != after and not _follows_arity(before, after, (base, head)):
            yield Change(what=name, base=before, head=after)


def _follows_arity(
    before: str | None, after: str | None, graphs: tuple[ProgramGraph, ProgramGraph]
) -> bool:
    """Return whether two lists have equal values, one for each parameter or result.

    JAX prints such lists; a change of their length is reported elsewhere.
    """
    if before is None or after is None:
        return False
    mine, yours = (re.split("[,;]", text.strip("{}")) for text in (before, after))
    if len(mine) == len(yours) or set(mine) != set(yours):
        return False
    sizes = [_arities(graph.module) for graph in graphs]
    return (len(mine), len(yours)) in zip(*sizes, strict=True)


def _arities(module: HloModule) -> tuple[int, int]:
    """Return the number of arrays of the parameters and of the result."""
    shapes = [parameter.shape for parameter in module.entry.parameters]
    root = module.entry.root
    result = None if root is None else root.shape
    leaves = [0 if shape is None else len(list(shape.leaves())) for shape in (*shapes, result)]
    return sum(leaves[:-1]), leaves[-1]


class _Parameters:
    """Partners among the parameters of two programs, and their names.

    Attributes:
        partners: Number of a parameter of the base to that of the head.
        pairs: Number to the key of a pair of partners, of base and head.
        names: Number to name, of base and head.
    """

    def __init__(self, base: ProgramGraph, head: ProgramGraph, found: Matching) -> None:
        mine_at, yours_at = (parameter_numbers(graph, graph.entry) for graph in (base, head))
        number_of = {node: number for number, node in yours_at.items()}
        self.partners = {
            number: number_of[found.head_of[node]]
            for number, node in mine_at.items()
            if found.head_of[node] in number_of
        }
        self.pairs = (
            {number: number for number in self.partners},
            {partner: number for number, partner in self.partners.items()},
        )
        self.names = _parameter_names(base, mine_at), _parameter_names(head, yours_at)


def _layouts(base: ProgramGraph, head: ProgramGraph, found: _Parameters) -> Iterator[Change]:
    """Yield the changed header layouts of parameters and result."""
    mine, yours = entry_shapes(base), entry_shapes(head)
    for number, partner in (*found.partners.items(), (RESULT, RESULT)):
        if number in mine and partner in yours:
            label = "result" if number == RESULT else found.names[0][number]
            yield from layout_changes(mine[number], yours[partner], label)


class _Donation(NamedTuple):
    """A donated buffer: key, kind, and whether its parameter has no partner."""

    label: str
    how: str
    is_alone: bool


def _donations(base: ProgramGraph, head: ProgramGraph, found: _Parameters) -> Iterator[Change]:
    """Yield the donations that were lost, gained or changed."""
    with_output = _output_count(base.module) == _output_count(head.module)
    modules = base.module, head.module
    aliases = [_aliases(module, with_output) for module in modules]
    donors = [dict.fromkeys(module.buffer_donor, "") for module in modules]
    for what, donated in (("input_output_alias", aliases), ("buffer_donor", donors)):
        mine, yours = (dict(_by_parameter(found, side, donated[side])) for side in (0, 1))
        for key in dict.fromkeys((*mine, *yours)):
            before, after = mine.get(key), yours.get(key)
            one = before or after
            if one is None or (before and after and before.how == after.how):
                continue
            if one.is_alone and (before is None or after is None):
                continue
            yield Change(
                what=what,
                base=None if before is None else f"{one.label}{before.how}",
                head=None if after is None else f"{one.label}{after.how}",
            )


def _by_parameter(
    found: _Parameters, side: int, donated: Mapping[tuple[int, ShapeIndex], str]
) -> Iterator[tuple[Hashable, _Donation]]:
    """Yield the donations by pair of parameters; by number if a text lacks their line."""
    names, others, pairs = found.names[side], found.names[1 - side], found.pairs[side]
    for (number, index), how in donated.items():
        pair = pairs.get(number)
        if pair is None and number in names and number in others:
            continue  # added or removed, and another parameter has its number
        place = f"{{{','.join(map(str, index))}}}" if index else ""
        label = f"{names.get(number, f'parameter {number}')}{place}"
        key = (pair, number if pair is None else None, index)
        yield key, _Donation(label, how, is_alone=pair is None and number in names)


def _aliases(module: HloModule, with_output: bool) -> dict[tuple[int, ShapeIndex], str]:
    found = {}
    for alias in module.input_output_alias:
        output = ",".join(map(str, alias.output_index))
        place = f" in output {{{output}}}" if with_output else ""
        kind = "" if alias.kind == "may-alias" else f", {alias.kind}"
        found[alias.parameter_number, alias.parameter_index] = f"{place}{kind}"
    return found


def _output_count(module: HloModule) -> int:
    root = module.entry.root
    shape = None if root is None else root.shape
    return 1 if shape is None or not shape.is_tuple else len(shape.tuple_shapes)


def _parameter_names(graph: ProgramGraph, numbers: Mapping[int, int]) -> dict[int, str]:
    """Return the name of each parameter by number: the framework's, else the number."""
    found = {}
    for number, node in numbers.items():
        found[number] = f"parameter {number} {graph.instruction(node).op_name or ''}".rstrip()
    return found
