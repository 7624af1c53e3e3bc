"""Programs printed differently, and programs with one change, for tests of the diff."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.edits import Changed, Moved
from hlo_lens.questions.matching.fingerprints import program_fingerprint
from hlo_lens.questions.matching.program_diff import program_diff
from tests.strategies.programs import NAMING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from hlo_lens.hlo.module import HloModule
    from tests.strategies.programs import Instruction, Module

# one program, whose asynchronous operation is printed in both ways
SUGAR = """HloModule m

ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[4], s32[]) slice-start(p), slice={[0:4]}, backend_config={"queue":"1"}
  n = f32[8] negate(p)
  d = f32[4] slice-done(s)
  ROOT t = (f32[8], f32[4]) tuple(n, d)
}
"""
WRAPPED = """HloModule m

w {
  q = f32[8] parameter(0)
  ROOT r = f32[4] slice(q), slice={[0:4]}
}

ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[4], s32[]) async-start(p), calls=w, backend_config={"queue":"1"}
  n = f32[8] negate(p)
  d = f32[4] async-done(s)
  ROOT t = (f32[8], f32[4]) tuple(n, d)
}
"""

_NAME = re.compile(r"%([\w.-]+)")


def parsed(text: str) -> HloModule:
    """Return the module of a text; none of it may be a gap."""
    module = parse_hlo(text)
    assert module.gaps == ()
    return module


def changes_between(base: str, head: str) -> list[str]:
    """Return the changes between two texts, those of the module last.

    The mirrored comparison must find as many, and digests of the two differ if there are any.
    """
    modules = parse_hlo(base), parse_hlo(head)
    forth, back = program_diff(*modules), program_diff(*modules[::-1])
    changed = [edit.changes for edit in forth.edits if isinstance(edit, Changed | Moved)]
    found = [str(change) for changes in (*changed, forth.module_changes) for change in changes]
    assert (len(forth.edits), len(forth.module_changes)) == (
        len(back.edits),
        len(back.module_changes),
    )
    digests = [program_fingerprint(module) for module in modules]
    assert (digests[0] == digests[1]) == forth.identical
    return found


def renamed(module: Module, name: Callable[[str], str]) -> Module:
    """Return a module in which every instruction and computation has another name."""

    def of(instruction: Instruction) -> Instruction:
        operands = []
        for operand in instruction.operands:
            first, *indices = operand.split("#")
            operands.append("#".join([name(first), *indices]))
        attributes = tuple(
            (key, _NAME.sub(lambda m: f"%{name(m[1])}", value) if key in NAMING else value)
            for key, value in instruction.attributes
        )
        return replace(
            instruction,
            name=name(instruction.name),
            operands=tuple(operands),
            attributes=attributes,
        )

    return replace(
        module,
        computations=tuple(
            replace(c, name=name(c.name), instructions=tuple(map(of, c.instructions)))
            for c in module.computations
        ),
    )


def with_attributes(module: Module, change: Callable[[str, str], str]) -> Module:
    """Return a module with each attribute value replaced by a function of name and value."""
    return replace(
        module,
        computations=tuple(
            replace(
                c,
                instructions=tuple(
                    replace(i, attributes=tuple((k, change(k, v)) for k, v in i.attributes))
                    for i in c.instructions
                ),
            )
            for c in module.computations
        ),
    )


def shuffled_computations(module: Module, source: random.Random) -> Module:
    """Return a module with its computations in another valid order."""
    computations = list(module.computations)
    source.shuffle(computations)
    return replace(module, computations=tuple(computations))
