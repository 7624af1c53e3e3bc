"""Questions as functions, for notebooks and scripts: each takes what there is and gives a result.

What there is: a path, HLO text, what `hlo_lens.load` or `hlo_lens.parse_hlo` returned, or a program
of `hlo_lens.from_compiled`. Results have ``to_frame()`` (pandas) and ``to_dict()``, and notebooks
show them as tables.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from hlo_lens.analysis.collectives.collectives import collectives as _collectives
from hlo_lens.analysis.collectives.loops import Loops
from hlo_lens.analysis.collectives.loops import loops as _loops
from hlo_lens.analysis.memory.results import MemoryResults, memory_results
from hlo_lens.analysis.program.entry_signature import EntrySignature, entry_signature
from hlo_lens.analysis.sharding.results import sharding_results
from hlo_lens.load import load
from hlo_lens.model.dump import Dump, ModuleDump, given
from hlo_lens.model.hlo.module import HloModule
from hlo_lens.model.hlo.query import tabulate
from hlo_lens.model.shapes.mesh import Mesh
from hlo_lens.report.program.objects import backend_of_dump
from hlo_lens.report.program.page import module_report
from hlo_lens.text.dump_files import DumpKind
from hlo_lens.text.errors import MissingDumpError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.collectives.results import Collectives
    from hlo_lens.analysis.sharding.table import ShardingTable
    from hlo_lens.model.shapes.mesh import MeshLike
    from hlo_lens.report.render.table import Report

Program: TypeAlias = str | Path | Dump | ModuleDump | HloModule
"""A path, HLO text (which has more than one line), or what was read from either."""

_SHOWN = 8


def modules_of(program: Program, *, module: str | None = None) -> tuple[ModuleDump, ...]:
    """Return the modules of a program.

    Args:
        program: What there is.
        module: Regular expression that is found in the names of those wanted; None for all.

    Raises:
        UnknownNameError: If no module has such a name.
        UsageError: If it is nothing that can be asked, or no regular expression.
    """
    found = _read(program)
    if module is None:
        return tuple(found)
    try:
        pattern = re.compile(module)
    except re.error as error:
        message = f"not a regular expression: {error}"
        raise UsageError(message) from error
    chosen = tuple(one for one in found if pattern.search(one.name) or pattern.search(one.title))
    if not chosen:
        message = f"no module matches {module!r}; there is {_names(found)}"
        raise UnknownNameError(message)
    return chosen


def _read(program: Program) -> Sequence[ModuleDump]:
    if isinstance(program, ModuleDump):
        return (program,)
    if isinstance(program, Dump):
        return program.modules
    if isinstance(program, HloModule):
        return (_dump_of(program),)
    if isinstance(program, str) and "\n" in program:
        from hlo_lens.syntax.hlo.module import parse_hlo

        return (_dump_of(parse_hlo(program)),)
    if not isinstance(program, str | Path):
        _refuse(program)
    return load(program).modules


def _refuse(program: object) -> NoReturn:
    message = (
        f"expected a path, HLO text, a module or a dump, found {type(program).__name__}; "
        "compiled programs of jax go through hlo_lens.from_compiled"
    )
    raise UsageError(message)


def _dump_of(module: HloModule) -> ModuleDump:
    return ModuleDump(
        name=module.name, kind=DumpKind.HLO, module_text=given(module), framework=module.framework
    )


def _names(modules: Sequence[ModuleDump]) -> str:
    names = ", ".join(one.name for one in modules[:_SHOWN])
    return names if len(modules) <= _SHOWN else f"{names} and {len(modules) - _SHOWN} more"


def _one(program: Program, module: str | None) -> ModuleDump:
    found = modules_of(program, module=module)
    if len(found) != 1:
        message = f"there are {len(found)} modules, say which with module=: {_names(found)}"
        raise UsageError(message)
    return found[0]


def _hlo(dump: ModuleDump) -> HloModule:
    if dump.hlo is None:
        message = (
            f"{dump.name}: no HLO text; XLA writes it with --xla_dump_to=DIR --xla_dump_hlo_as_text"
        )
        raise MissingDumpError(message)
    return dump.hlo


def report_on(program: Program, *, module: str | None = None) -> Report:
    """Return what ``hlo-lens report`` says: ``print`` shows text, a notebook tables.

    ``data`` has the same for scripts.

    >>> import hlo_lens
    >>> report = hlo_lens.report_on("sample_dumps/cpu/wasteful")
    >>> print(str(report).splitlines()[0])
    jit_wasteful_step
    >>> report.data["modules"][0]["num_partitions"]
    8
    """
    from hlo_lens import __version__

    return module_report(modules_of(program, module=module), tool_version=__version__)


def memory(program: Program, *, module: str | None = None) -> MemoryResults:
    """Return the memory of a module: ``statement``, ``peak`` and the layout behind them.

    >>> import hlo_lens
    >>> memory = hlo_lens.memory("sample_dumps/tpu/tp_mlp")
    >>> memory.statement.argument_bytes, memory.peak.total_bytes, memory.peak.instruction
    (67141632, 159459328, 'copy-start.12')
    >>> memory.peak.to_frame()["value"].head(2).tolist()
    ['while.36{2}', 'while.36{4}']

    Raises:
        MissingDumpError: If nothing is known of it: no buffer assignment, and no schedule.
        DumpMismatchError: If texts of the module contradict one another.
    """
    dump = _one(program, module)
    found = memory_results(dump, backend=backend_of_dump(dump))
    if found is None:
        message = (
            f"{dump.title}: memory is not known: no buffer assignment beside the text, and no "
            "schedule in it (is_scheduled=true)"
        )
        raise MissingDumpError(message)
    return found


def collectives(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> Collectives:
    """Return the collectives of a module, each logical operation once.

    >>> import hlo_lens
    >>> found = hlo_lens.collectives("sample_dumps/tpu/tp_mlp")
    >>> found.to_frame()[["name", "kind", "axes"]].iloc[0].tolist()
    ['all-reduce.11', 'all-reduce', ('model',)]
    >>> found.collectives[0].dynamic_count, found.collectives[0].payload_bytes
    (4, 16777216)

    Args:
        program: What there is.
        module: Which module, where there are several.
        mesh: Names the axes, where no text does: ``{"data": 2, "model": 4}``.
    """
    dump = _one(program, module)
    named = None if mesh is None else Mesh.of(mesh)
    return _collectives(tabulate(_hlo(dump)), mesh=named, before=partial(_before, dump))


def _before(dump: ModuleDump) -> HloModule | None:
    return dump.before


def loops(program: Program, *, module: str | None = None) -> Loops:
    """Return the loops and branches of a module with what they communicate.

    >>> import hlo_lens
    >>> hlo_lens.loops("sample_dumps/cpu/tp_mlp/compiled.txt").to_frame()["loop"].tolist()
    ['main.10_spmd', 'while.30', 'while.35']
    """
    dump = _one(program, module)
    table = tabulate(_hlo(dump))
    return _loops(table, _collectives(table, before=partial(_before, dump)))


def shardings(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> ShardingTable:
    """Return how the parameters and outputs of a module lie over the devices.

    >>> import hlo_lens
    >>> table = hlo_lens.shardings("sample_dumps/tpu/tp_mlp")
    >>> table.to_frame()[["name", "spec"]].iloc[2].tolist()
    ["params['w_in']", "P(None, None, 'model')"]

    Args:
        program: What there is.
        module: Which module, where there are several.
        mesh: Names the axes; else the mesh that arguments or texts name.
    """
    dump = _one(program, module)
    _hlo(dump)
    found = sharding_results(dump, None if mesh is None else Mesh.of(mesh))
    if found is None:
        message = f"{dump.name}: no HLO text"
        raise MissingDumpError(message)
    return found.table


def signature(program: Program, *, module: str | None = None) -> EntrySignature:
    """Return the parameters and outputs of a module, on one device where it is partitioned.

    >>> import hlo_lens
    >>> first = hlo_lens.signature("sample_dumps/tpu/tp_mlp").parameters[0]
    >>> first.name, first.shape, first.aliased_with
    ("params['b_in']", 'f32[4,1024]', '{0}')
    """
    return entry_signature(tabulate(_hlo(_one(program, module))))
