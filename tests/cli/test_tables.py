"""Tables: one name for a quantity in all formats; columns and names at the widths of terminals."""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pytest

from hlo_lens.render import to_text
from hlo_lens.render.table import Role, role_of
from hlo_lens.render.to_text import (
    FittedColumn,
    TableLines,
    column_lines,
    fitted_columns,
    table_lines,
)
from tests.commands import output_of

if TYPE_CHECKING:
    from hlo_lens.render.table import CutTable


PAIRS = "sample_dumps/pairs"
COMMANDS = (
    "report sample_dumps/tpu/tp_mlp",
    "report sample_dumps/cpu/wasteful",
    "report sample_dumps/logs/custom_partitioning_jax_0_6_2.txt",
    "report sample_dumps/logs/tpu_oom_libtpu_0_0_17.txt",
    "report sample_dumps/logs/traced_dtensor.txt",
    "report sample_dumps/logs/warned_jax_0_10_2.txt",
    "memory sample_dumps/tpu/tp_mlp",
    "memory sample_dumps/tpu/tp_mlp --timeline",
    "memory sample_dumps/tpu/tp_mlp --by source",
    "memory sample_dumps/tpu/tp_mlp --by op",
    "collectives sample_dumps/tpu/tp_mlp",
    "collectives sample_dumps/tpu/tp_mlp --by axis",
    "collectives sample_dumps/tpu/tp_mlp --why all-reduce.11",
    "loops sample_dumps/tpu/shard_map_collectives",
    "sharding sample_dumps/cpu/fsdp_transformer",
    "shard {devices=[4,2]<=[8]} --shape 20,16",
    "tree sample_dumps/tpu/tp_mlp",
    "ls sample_dumps/tpu",
    "doctor sample_dumps/tpu/tp_mlp",
    "passes sample_dumps/passes/tpu_tp_mlp.tar.xz --track all-reduce",
    f"diff {PAIRS}/tpu/base.tar.xz {PAIRS}/tpu/added_all_gather.tar.xz",
    f"diff {PAIRS}/gpu/base.tar.xz {PAIRS}/gpu/lost_donation.tar.xz",
    f"check {PAIRS}/tpu/four_layers.tar.xz --baseline {PAIRS}/tpu/base.tar.xz "
    "--budget sample_dumps/hlo-lens.toml",
)

OTHER_COMMANDS = {
    "memory-by": "memory sample_dumps/tpu/tp_mlp --by source",
    "collectives-by-kind": "collectives sample_dumps/tpu/tp_mlp",
}
"""Tables of the report whose JSON rows another command prints."""

PIVOTED = {"summary": "property", "memory-statement": "metric", "sharding-spellings": "form"}
"""Tables with a row for each key of a JSON object, and the column of the keys."""

SUMMED = {
    "module-diff": {"edit", "count"},
    "logged-shardings": {"times"},
    "oom-statement": {"of"},
    "retraces": {"differs"},
    "finding-changes": {"change", "source"},
}
"""Tables that join JSON rows, and their columns about how they are joined."""

SAVED = {"saved_bytes": "bytes", "low_bytes": "low", "high_bytes": "high"}
"""Columns of savings whose keys in the JSON object ``saves`` are shorter."""


@functools.cache
def _csv_rows(command: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(output_of(f"{command} -f csv".split()))))


def _tables(command: str) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each table in the CSV output of a command."""
    found: dict[str, list[dict[str, str]]] = {}
    header: list[str] = []
    for row in _csv_rows(command):
        if row[:2] == ["module", "table"]:
            header = row
        elif row:
            cells = dict(zip(header[2:], row[2:], strict=True))
            found.setdefault(row[1], []).append(cells)
    return found


def _key_sets(value: object, above: frozenset[str] = frozenset()) -> Iterator[frozenset[str]]:
    """Yield the keys of each JSON object, with those of the objects around it and inside it."""
    if isinstance(value, Mapping):
        inner = chain.from_iterable(v for v in value.values() if isinstance(v, Mapping))
        keys = frozenset(value) | above
        yield keys | frozenset(inner)
        for item in value.values():
            yield from _key_sets(item, frozenset(value))
    elif isinstance(value, list):
        for item in value:
            yield from _key_sets(item, above)


@pytest.mark.parametrize("command", COMMANDS)
def test_csv_headers_are_keys_of_json_rows(command: str) -> None:
    tables = _tables(command)
    assert tables
    for name, rows in tables.items():
        json_command = OTHER_COMMANDS.get(name, command) if command[:6] == "report" else command
        data = json.loads(output_of(f"{json_command} -f json".split()))
        sets = set(_key_sets(data))
        if name in PIVOTED:
            assert {row[PIVOTED[name]] for row in rows} <= frozenset().union(*sets)
        else:
            header = {SAVED.get(key, key) for key in set(rows[0]) - SUMMED.get(name, set())}
            assert any(header <= keys for keys in sets), (name, header)


TEXT_ONLY = {"bar", "change"}
"""Columns that CSV leaves out where they are texts made of others."""


def _headings(command: str) -> list[set[str]]:
    """Return the column headings of each table in the Markdown output of a command."""
    option = " --full" * command.startswith("report")  # a first page has columns of its own
    lines = output_of(f"{command}{option} -f md".split()).splitlines()
    heads = [line for line, rule in pairwise(lines) if rule.startswith(("| --", "| :--"))]
    return [{cell.strip() for cell in line.strip("|").split("|")} for line in heads]


@pytest.mark.parametrize("command", COMMANDS)
def test_text_headings_are_csv_headers(command: str) -> None:
    headers = [set(row) for row in _csv_rows(command) if row[:2] == ["module", "table"]]
    for names in _headings(command):
        is_pivot = {"quantity", "definition"} <= names
        names -= {"name"} if command.startswith("ls") else set()  # first in CSV, as module
        known = any(names <= header or names - TEXT_ONLY <= header for header in headers)
        assert is_pivot or known, names


WIDTHS = (80, 100, 120)


@functools.cache
def tables(command: str, width: int) -> list[CutTable]:
    """Return the tables that a command prints."""
    found: list[CutTable] = []

    def recorded(cut: CutTable, width: int) -> TableLines:
        found.append(cut)
        return table_lines(cut, width)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_text, "table_lines", recorded)
        output_of(command.split(), columns=width)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_names_and_places_that_differ_look_different(command: str) -> None:
    cuts = tables(command, 80)
    for width in WIDTHS:
        for cut in cuts:
            rows = [*cut.rows, *cut.tail]
            for fitted in fitted_columns(cut, width):
                if role_of(fitted.column) in (Role.NAME, Role.PLACE):
                    place = cut.columns.index(fitted.column)
                    shown = {tuple(lines) for lines in _cells(fitted)}
                    assert len(shown) == len({row[place] for row in rows})


def _cells(fitted: FittedColumn) -> list[list[str]]:
    return column_lines(fitted.texts, fitted.role, fitted.width)


def _names(cut: CutTable, column: str, width: int) -> Iterator[str]:
    """Yield the printed names of a column."""
    for fitted in fitted_columns(cut, width):
        if fitted.column.name == column:
            yield from ("".join(lines) for lines in _cells(fitted)[: len(cut.rows)])


SAMPLES = ("tpu/tp_mlp", "gpu/fsdp_transformer")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_printed_values_can_be_pasted_after_at(sample: str, width: int) -> None:
    command = f"memory sample_dumps/{sample} --module step"
    values = {name for cut in tables(command, width) for name in _names(cut, "value", width)}
    assert values
    for value in values:
        assert output_of([*command.split(), "--at", value])
