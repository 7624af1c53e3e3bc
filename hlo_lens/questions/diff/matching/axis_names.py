"""Mesh axes by number: names of axes have no meaning in a program.

Shardy's attributes name axes of the meshes in the module's header. Two programs whose meshes have
equal sizes and other names are the same program, so axes are compared by the order in which the
header first names them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.shapes.shardy import MESHES, shardy_meshes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.module import HloModule

SHARDY = "sdy"
"""Part of all names and values that Shardy prints."""

_QUOTED = re.compile(r'(\\?")([^"\\]*)\1')
_NAME = re.compile(r"""(\\?["'])[^"'\\]*\1""")


def axis_numbers(module: HloModule) -> Mapping[str, str]:
    """Return the axis names of the meshes in a header to their numbers."""
    numbers: dict[str, str] = {}
    for mesh in shardy_meshes(module.frontend_attributes.get(MESHES, "")).values():
        for name in mesh.axis_names:
            numbers.setdefault(name, f"axis {len(numbers)}")
    return numbers


def with_axis_numbers(text: str, numbers: Mapping[str, str]) -> str:
    r"""Return a value of Shardy with numbers instead of axis names.

    >>> with_axis_numbers(r'#sdy.sharding<@mesh, [{\"x\"}, {}]>', {"x": "axis 0"})
    '#sdy.sharding<@mesh, [{\\"axis 0\\"}, {}]>'
    """
    return _QUOTED.sub(lambda m: f"{m[1]}{numbers.get(m[2], m[2])}{m[1]}", text)


def differ_in_names(mine: str, yours: str) -> bool:
    """Return whether two attribute lists differ in quoted names alone, such as those of axes."""
    return _NAME.sub("", mine) == _NAME.sub("", yours)
