"""Read what the XLA compiler dumps: memory, collectives and shardings of a compiled program.

>>> import hlo_lens
>>> module = hlo_lens.parse_hlo('''
... HloModule example
... ENTRY main {
...   x = f32[8,16] parameter(0)
...   ROOT y = f32[8,16] negate(x)
... }''')
>>> module.entry.root.opcode, module.entry.root.shape.size_bytes
('negate', 512)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hlo_lens.model.text_reader import use_reader
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from hlo_lens.api.capture import Capture, capture
    from hlo_lens.api.changes import Diff, diff
    from hlo_lens.api.check import Checked, check
    from hlo_lens.api.collectives import collectives, loops
    from hlo_lens.api.memory import memory
    from hlo_lens.api.modules import modules_of
    from hlo_lens.api.report import report_on
    from hlo_lens.api.sharding import shardings, signature
    from hlo_lens.api.sides import snapshot
    from hlo_lens.jax_bridge import from_compiled, from_lowered
    from hlo_lens.load import load
    from hlo_lens.model.buffers.assignment import BufferAllocation, BufferAssignment
    from hlo_lens.model.buffers.live_range import HloLiveRange
    from hlo_lens.model.buffers.memory_usage_report import MemoryUsageReport
    from hlo_lens.model.buffers.values import (
        AssignedValue,
        BufferValues,
        HloPosition,
        HloUse,
        HloValue,
    )
    from hlo_lens.model.call_tree import CallFrame, CallTree, CallTrees
    from hlo_lens.model.dump import Dump, ModuleDump
    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.framework import Framework, FrameworkValue
    from hlo_lens.model.hlo.graph_export import to_dot, to_graphml
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.hlo.networkx_views import call_graph, def_use_graph
    from hlo_lens.model.logs.buffer_log import BufferLog
    from hlo_lens.model.logs.log import LogText
    from hlo_lens.model.shapes.replica_groups import expand_replica_groups
    from hlo_lens.model.shapes.shape import Layout, Shape
    from hlo_lens.model.shapes.sharding import HloSharding
    from hlo_lens.model.snapshot.module_snapshot import Snapshot
    from hlo_lens.model.text_reader import HloReader
    from hlo_lens.syntax.buffers.assignment import parse_buffer_assignment, parse_buffer_values
    from hlo_lens.syntax.buffers.live_range import parse_live_range
    from hlo_lens.syntax.buffers.memory_usage import parse_memory_usage_report
    from hlo_lens.syntax.call_trees.drawn_trees import parse_call_trees
    from hlo_lens.syntax.hlo.module import parse_hlo
    from hlo_lens.syntax.logs.buffer_log import parse_buffer_log
    from hlo_lens.syntax.logs.log import parse_log
    from hlo_lens.text.errors import (
        DumpMismatchError,
        DumpSyntaxError,
        Gap,
        HloLensError,
        MissingDumpError,
        MissingPackageError,
        UnknownNameError,
        UnreadableError,
        UsageError,
    )

__all__ = [
    "AssignedValue",
    "BufferAllocation",
    "BufferAssignment",
    "BufferLog",
    "BufferValues",
    "CallFrame",
    "CallTree",
    "CallTrees",
    "Capture",
    "Checked",
    "Diff",
    "Dump",
    "DumpMismatchError",
    "DumpSyntaxError",
    "Framework",
    "FrameworkValue",
    "Gap",
    "HloComputation",
    "HloInstruction",
    "HloLensError",
    "HloLiveRange",
    "HloModule",
    "HloPosition",
    "HloSharding",
    "HloUse",
    "HloValue",
    "Layout",
    "LogText",
    "MemoryUsageReport",
    "MissingDumpError",
    "MissingPackageError",
    "ModuleDump",
    "Shape",
    "Snapshot",
    "UnknownNameError",
    "UnreadableError",
    "UsageError",
    "__version__",
    "call_graph",
    "capture",
    "check",
    "collectives",
    "def_use_graph",
    "diff",
    "expand_replica_groups",
    "from_compiled",
    "from_lowered",
    "load",
    "loops",
    "memory",
    "modules_of",
    "parse_buffer_assignment",
    "parse_buffer_log",
    "parse_buffer_values",
    "parse_call_trees",
    "parse_hlo",
    "parse_live_range",
    "parse_log",
    "parse_memory_usage_report",
    "report_on",
    "shardings",
    "signature",
    "snapshot",
    "to_dot",
    "to_graphml",
]

_HOMES = {
    "hlo_lens.api.capture": ("Capture", "capture"),
    "hlo_lens.api.modules": ("modules_of",),
    "hlo_lens.api.collectives": ("collectives", "loops"),
    "hlo_lens.api.memory": ("memory",),
    "hlo_lens.api.sharding": ("shardings", "signature"),
    "hlo_lens.api.report": ("report_on",),
    "hlo_lens.api.changes": ("Diff", "diff"),
    "hlo_lens.api.check": ("Checked", "check"),
    "hlo_lens.api.sides": ("snapshot",),
    "hlo_lens.jax_bridge": ("from_compiled", "from_lowered"),
    "hlo_lens.load": ("load",),
    "hlo_lens.model.logs.buffer_log": ("BufferLog",),
    "hlo_lens.model.buffers.assignment": ("BufferAllocation", "BufferAssignment"),
    "hlo_lens.model.call_tree": ("CallFrame", "CallTree", "CallTrees"),
    "hlo_lens.model.dump": ("Dump", "ModuleDump"),
    "hlo_lens.model.hlo.framework": ("Framework", "FrameworkValue"),
    "hlo_lens.model.hlo.networkx_views": ("call_graph", "def_use_graph"),
    "hlo_lens.model.hlo.graph_export": ("to_dot", "to_graphml"),
    "hlo_lens.model.hlo.module": ("HloModule",),
    "hlo_lens.model.hlo.computation": ("HloComputation",),
    "hlo_lens.model.hlo.instruction": ("HloInstruction",),
    "hlo_lens.model.buffers.values": (
        "AssignedValue",
        "BufferValues",
        "HloPosition",
        "HloUse",
        "HloValue",
    ),
    "hlo_lens.model.buffers.live_range": ("HloLiveRange",),
    "hlo_lens.model.logs.log": ("LogText",),
    "hlo_lens.model.buffers.memory_usage_report": ("MemoryUsageReport",),
    "hlo_lens.model.shapes.replica_groups": ("expand_replica_groups",),
    "hlo_lens.model.shapes.shape": ("Layout", "Shape"),
    "hlo_lens.model.shapes.sharding": ("HloSharding",),
    "hlo_lens.model.snapshot.module_snapshot": ("Snapshot",),
    "hlo_lens.syntax.buffers.assignment": ("parse_buffer_assignment", "parse_buffer_values"),
    "hlo_lens.syntax.logs.buffer_log": ("parse_buffer_log",),
    "hlo_lens.syntax.call_trees.drawn_trees": ("parse_call_trees",),
    "hlo_lens.syntax.hlo.module": ("parse_hlo",),
    "hlo_lens.syntax.buffers.live_range": ("parse_live_range",),
    "hlo_lens.syntax.logs.log": ("parse_log",),
    "hlo_lens.syntax.buffers.memory_usage": ("parse_memory_usage_report",),
    "hlo_lens.text.errors": (
        "DumpMismatchError",
        "DumpSyntaxError",
        "Gap",
        "HloLensError",
        "MissingDumpError",
        "MissingPackageError",
        "UnknownNameError",
        "UnreadableError",
        "UsageError",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import hlo_lens`` costs nothing."""
    home = _HOME.get(name)
    if home is None:
        message = f"module 'hlo_lens' has no attribute '{name}'"
        raise AttributeError(message)
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _make_reader() -> HloReader:
    from hlo_lens.syntax.hlo.reader import HloTextReader

    return HloTextReader()


use_reader(_make_reader)
