"""Roles of table columns in text: how cells shrink, and which columns are left out first."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hlo_lens.render.result import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.render.result import Column


class Role(Enum):
    """Kind of content of a column, which decides how its cells shrink."""

    NAME = "name"
    """Name that commands take: whole, or cut to an end that no other cell has."""
    PLACE = "place"
    """File, with or without line: folders in front are cut first."""
    SCOPE = "scope"
    """Path of scopes, such as op_name: scopes in front are cut first."""
    SHAPE = "shape"
    """Shape: layouts are removed first, then its end."""
    REASON = "reason"
    """Reason, flag or limit: wrapped whole."""
    TEXT = "text"
    """Other words: wrapped in few lines."""
    BAR = "bar"
    """Bar of a chart: all bars are drawn shorter."""
    MEASURE = "measure"
    """Number: never cut."""


_ROLES: Mapping[Role, str] = {
    Role.NAME: (
        "name value module instruction output aliased_with loop function argument group "
        "from_name to_name array example_instruction started_by computation"
    ),
    Role.PLACE: (
        "source source_file place file where base_source head_source model_place "
        "caller_place function_place example path base_line head_line stack"
    ),
    Role.SCOPE: "op_name scope",
    Role.REASON: (
        "reason fails_if flag remedy message problem differs status metric spec sharding warning "
        "base_spec head_spec how used_for"
    ),
    Role.BAR: "bar",
    Role.SHAPE: "shape global_shape device_shape base_shape head_shape shapes type",
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names.split()}

_LEFT_OUT_FIRST = (
    "start end offset allocation layout tile column",
    "loop_path element_type devices dimension category opcode stages files number static",
    "index payload_bytes kind values global_bytes replication_factor padded_size_bytes",
)
"""Columns that are left out before all others, by group."""

_KEPT = "status metric head fails_if reason axis times edit level what verdict mark"
"""Columns besides names that are left out last."""

_THEN = (Role.SHAPE, Role.TEXT, Role.REASON, Role.MEASURE, Role.PLACE, Role.SCOPE)
"""Roles in the order in which their columns are left out."""

LAST = len(_LEFT_OUT_FIRST) + len(_THEN)
"""Rank of the columns that are left out last."""


def role_of(column: Column) -> Role:
    """Return the role of a column, by its name and unit."""
    if column.unit is not Unit.NONE:
        return Role.MEASURE
    return _ROLE_OF.get(column.name, Role.TEXT)


def main_text(columns: Sequence[Column]) -> Column | None:
    """Return the column for labels of bracketed rows: the first text, a late one beside names."""
    texts = [column for column in columns if column.unit is Unit.NONE]
    if any(role_of(column) is Role.NAME for column in texts):
        texts = [column for column in texts if keep_rank(column) >= len(_LEFT_OUT_FIRST)]
    return next(iter(texts), None)


def keep_rank(column: Column) -> int:
    """Return the rank of a column: those of the lowest rank are left out first."""
    for rank, names in enumerate(_LEFT_OUT_FIRST):
        if column.name in names.split():
            return rank
    role = role_of(column)
    if column.name in _KEPT.split() or role is Role.NAME:
        return LAST
    return {Role.SHAPE: 3, Role.TEXT: 4, Role.REASON: 4, Role.MEASURE: 5, Role.SCOPE: 7}.get(
        role, 6
    )
