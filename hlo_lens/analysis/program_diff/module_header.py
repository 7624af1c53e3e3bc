"""Header fields of a module, as texts that are equal for equal meanings.

Used by `module_changes` and by digests of programs. Aliases, donors and layouts of the entry are
compared by parameter; if a header has a gap they also count as written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program_diff.attribute_meaning import config_meaning
from hlo_lens.analysis.program_diff.attribute_text import squeezed

if TYPE_CHECKING:
    from hlo_lens.model.hlo.module import HloModule

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
    for name, value in module.frontend_attributes.items():
        if name not in _FINGERPRINTS:
            found[f"frontend_attributes.{name}"] = value
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
