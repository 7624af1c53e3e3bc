"""Tables at the widths of terminals: deciding columns, names that differ and can be pasted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.render import to_text
from hlo_lens.render.table import Role, role_of
from hlo_lens.render.text_table import TableLines, fitted_columns, table_lines
from tests.cli.test_column_names import COMMANDS
from tests.commands import output_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.render.table import CutTable

WIDTHS = (80, 100, 120)
DECIDING = (
    {"kind", "wire_bytes_per_run", "name", "source"},
    {"size_bytes", "value", "op_name"},
    {"status", "fails_if", "head"},
    {"device_bytes", "status", "name", "reason"},
    {"saved_bytes", "axis", "name"},
)
"""Columns that a table with all of them keeps at 80 columns, but for the kind of a collective."""


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], list[CutTable]]:
    """A function that returns the tables that a command prints."""

    def printed(command: str, width: int) -> list[CutTable]:
        found: list[CutTable] = []

        def recorded(cut: CutTable, width: int) -> TableLines:
            found.append(cut)
            return table_lines(cut, width)

        monkeypatch.setattr(to_text, "table_lines", recorded)
        output_of(command.split(), columns=width)
        return found

    return printed


@pytest.mark.parametrize("command", COMMANDS)
def test_deciding_columns_are_kept_at_80_columns(
    command: str, tables: Callable[[str, int], list[CutTable]]
) -> None:
    for cut in tables(command, 80):
        names = {column.name for column in cut.columns}
        left_out = set(table_lines(cut, 80).left_out)
        for deciding in DECIDING:
            if deciding <= names:
                assert not left_out & (deciding - {"kind"})


@pytest.mark.parametrize("command", COMMANDS)
def test_names_and_places_that_differ_look_different(
    command: str, tables: Callable[[str, int], list[CutTable]]
) -> None:
    cuts = tables(command, 80)
    for width in WIDTHS:
        for cut in cuts:
            rows = [*cut.rows, *cut.tail]
            for fitted in fitted_columns(cut, width):
                if role_of(fitted.column) in (Role.NAME, Role.PLACE):
                    place = cut.columns.index(fitted.column)
                    shown = {tuple(lines) for lines in fitted.cells}
                    assert len(shown) == len({row[place] for row in rows})


def _names(cut: CutTable, column: str, width: int) -> Iterator[str]:
    """Yield the printed names of a column."""
    for fitted in fitted_columns(cut, width):
        if fitted.column.name == column:
            yield from ("".join(lines) for lines in fitted.cells[: len(cut.rows)])


SAMPLES = ("cpu/tp_mlp", "tpu/tp_mlp", "gpu/fsdp_transformer", "tpu/wasteful")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_printed_values_can_be_pasted_after_at(
    sample: str, width: int, tables: Callable[[str, int], list[CutTable]]
) -> None:
    command = f"memory sample_dumps/{sample} --module step"
    values = {name for cut in tables(command, width) for name in _names(cut, "value", width)}
    assert values
    for value in values:
        assert output_of([*command.split(), "--at", value])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_printed_collectives_can_be_pasted_after_why(
    sample: str, width: int, tables: Callable[[str, int], list[CutTable]]
) -> None:
    command = f"collectives sample_dumps/{sample} --module step"
    single = [cut for cut in tables(command, width) if cut.columns[0].name == "kind"]
    names = {name for cut in single for name in _names(cut, "name", width)}
    assert names
    for name in names:
        assert "because" in output_of([*command.split(), "--why", name])
