"""Forms of a scheduled text on which the rules of an estimate depend.

A form is an opcode, an opcode with aliased outputs, a target of custom calls, a start in a given
shape, an attribute, or a key of a backend config. Attributes and keys are those of `_SAMPLES`
evenly spread instructions: they show a compiler that is newer than any known one. An estimate is
exact only for texts of which `EXACT_FORMS` has every form: the table of the handbook, made by
``python -m tests.estimate_table --write`` from compiles whose memory is known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, OPERANDS, OPERANDS_END, SHAPE, SHAPE_END
from hlo_lens.questions.memory.exact_forms import EXACT_FORMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.hlo.query import InstructionTable

_SAMPLES = 2048
_ATTRIBUTE = re.compile(r", ([A-Za-z_][\w-]*)=")
_KEY = re.compile(r'"(\w+)":')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?!:)')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_METADATA = re.compile(r", metadata=\{[^}]*\}")
_WITHOUT_ARGUMENTS = "((), "


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """Forms of one text.

    Attributes:
        of_rows: Forms of single instructions, with their rows.
        of_text: All other forms.
    """

    of_rows: Mapping[str, Sequence[int]]
    of_text: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """All forms."""
        return self.of_text | self.of_rows.keys()

    def unshown(self, group: str) -> frozenset[str]:
        """Return the forms for which no table of a group of compilers shows exactness."""
        return self.names - EXACT_FORMS.get(group, frozenset())

    def new(self, backend: str) -> frozenset[str]:
        """Return the forms for which the table of no compiler of a backend shows exactness."""
        shown = [forms for group, forms in EXACT_FORMS.items() if group.startswith(backend)]
        return self.names.difference(*shown)


def forms_of(table: InstructionTable) -> Forms:
    """Return the forms of a module."""
    module, columns = table.module, table.module.columns
    rows: dict[str, list[int]] = defaultdict(list)
    for opcode in dict.fromkeys(opcode for opcode, _ in table.opcode_sizes):
        rows[f"opcode {opcode}"] = of_opcode = table.rows_of([opcode])
        if opcode.endswith("-start") or opcode.startswith("custom-call"):
            for row in of_opcode:
                rows[_form_of(table, row, opcode)].append(row)
    for row in columns.rows_with_attribute_text("output_to_operand_aliasing="):
        rows[f"aliasing {table.opcodes[row]}"].append(row)
    text: set[str] = set()
    step = len(columns) // _SAMPLES + 1
    for row in range(0, len(columns), step):
        attributes = _METADATA.sub("", columns.text(row, OPERANDS_END, END))
        text.update(f"key {key}" for key in _KEY.findall(attributes))
        names = _ATTRIBUTE.findall(_STRING.sub("", attributes.partition(", backend_config=")[0]))
        text.update(f"attribute {name}" for name in names)
    if module.links.operand_elements:
        text.add("elements of tuples as operands")
    return Forms(of_rows=rows, of_text=frozenset(text))


def _form_of(table: InstructionTable, row: int, opcode: str) -> str:
    """Return the form of a start or a custom call."""
    columns = table.module.columns
    if not opcode.endswith("-start"):
        match = _TARGET.search(columns.text(row, OPERANDS_END, END))
        return f"{opcode} to {match[1]}" if match else f"{opcode} without target"
    shape = columns.text(row, SHAPE, SHAPE_END)
    if shape.startswith(_WITHOUT_ARGUMENTS):
        return f"{opcode} without operands"
    if not shape.startswith("(("):
        return f"{opcode} of arrays"
    several = " of several operands" if "," in columns.text(row, OPERANDS, OPERANDS_END) else ""
    is_new = '"communication_domain"' in columns.text(row, OPERANDS_END, END)
    return f"{opcode} of tuples{several}{' in a domain' if is_new else ''}"
