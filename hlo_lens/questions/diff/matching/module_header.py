"""Header fields of a module, as texts that are equal for equal meanings.

Used by `module_changes` and by digests of programs. Aliases, donors and layouts of the entry are
compared by parameter; if a header has a gap they also count as written.

Before layout assignment the layouts of parameters and result in the header differ from those of the
entry: they are those that the caller passes and receives. Without a header field, they are those of
the entry (xla/hlo/parser/hlo_parser.cc derives one from the other).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.diff.matching.attribute_text import config_meaning, squeezed
from hlo_lens.questions.diff.matching.axis_names import SHARDY, axis_numbers, with_axis_numbers
from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.questions.diff.matching.label_changes import shape_changes
from hlo_lens.questions.diff.matching.match_keys import parameter_numbers
from hlo_lens.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.graph import ProgramGraph

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
        elif name not in elsewhere and not _is_usual(name, value):
            found[name] = squeezed(value)
    axes = axis_numbers(module)
    for name, value in module.frontend_attributes.items():
        if name not in _FINGERPRINTS:
            plain = with_axis_numbers(value, axes) if SHARDY in value else value
            found[f"frontend_attributes.{name}"] = plain
    return found


def _is_usual(name: str, value: str) -> bool:
    """Return whether a value is a valid count or flag."""
    if name == _FLAG:
        return value in ("true", "false")
    return name in _COUNTS and value.isdecimal()


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
