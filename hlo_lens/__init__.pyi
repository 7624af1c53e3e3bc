"""Public names of hlo_lens and the files that define them; imported when first used."""

__all__: list[str]

from hlo_lens.api.capture import Capture as Capture
from hlo_lens.api.capture import capture as capture
from hlo_lens.api.changes import Diff as Diff
from hlo_lens.api.changes import diff as diff
from hlo_lens.api.check import Checked as Checked
from hlo_lens.api.check import check as check
from hlo_lens.api.collectives import collectives as collectives
from hlo_lens.api.collectives import loops as loops
from hlo_lens.api.memory import memory as memory
from hlo_lens.api.modules import modules_of as modules_of
from hlo_lens.api.report import report_on as report_on
from hlo_lens.api.sharding import shardings as shardings
from hlo_lens.api.sharding import signature as signature
from hlo_lens.api.sides import snapshot as snapshot
from hlo_lens.jax_bridge import from_compiled as from_compiled
from hlo_lens.jax_bridge import from_lowered as from_lowered
from hlo_lens.load import load as load
from hlo_lens.model.buffers.assignment import (
    BufferAllocation as BufferAllocation,
)
from hlo_lens.model.buffers.assignment import (
    BufferAssignment as BufferAssignment,
)
from hlo_lens.model.buffers.live_range import HloLiveRange as HloLiveRange
from hlo_lens.model.buffers.memory_usage_report import MemoryUsageReport as MemoryUsageReport
from hlo_lens.model.buffers.values import (
    AssignedValue as AssignedValue,
)
from hlo_lens.model.buffers.values import (
    BufferValues as BufferValues,
)
from hlo_lens.model.buffers.values import (
    HloPosition as HloPosition,
)
from hlo_lens.model.buffers.values import (
    HloUse as HloUse,
)
from hlo_lens.model.buffers.values import (
    HloValue as HloValue,
)
from hlo_lens.model.call_tree import (
    CallFrame as CallFrame,
)
from hlo_lens.model.call_tree import (
    CallTree as CallTree,
)
from hlo_lens.model.call_tree import (
    CallTrees as CallTrees,
)
from hlo_lens.model.dump import Dump as Dump
from hlo_lens.model.dump import ModuleDump as ModuleDump
from hlo_lens.model.hlo.computation import HloComputation as HloComputation
from hlo_lens.model.hlo.framework import Framework as Framework
from hlo_lens.model.hlo.framework import FrameworkValue as FrameworkValue
from hlo_lens.model.hlo.graph_export import (
    call_graph as call_graph,
)
from hlo_lens.model.hlo.graph_export import (
    def_use_graph as def_use_graph,
)
from hlo_lens.model.hlo.graph_export import to_dot as to_dot
from hlo_lens.model.hlo.graph_export import to_graphml as to_graphml
from hlo_lens.model.hlo.instruction import HloInstruction as HloInstruction
from hlo_lens.model.hlo.module import HloModule as HloModule
from hlo_lens.model.logs.log import BufferLog as BufferLog
from hlo_lens.model.logs.log import LogText as LogText
from hlo_lens.model.shapes.replica_groups import expand_replica_groups as expand_replica_groups
from hlo_lens.model.shapes.shape import Layout as Layout
from hlo_lens.model.shapes.shape import Shape as Shape
from hlo_lens.model.shapes.sharding import HloSharding as HloSharding
from hlo_lens.model.snapshot.module_snapshot import Snapshot as Snapshot
from hlo_lens.syntax.buffers.assignment import (
    parse_buffer_assignment as parse_buffer_assignment,
)
from hlo_lens.syntax.buffers.assignment import (
    parse_buffer_values as parse_buffer_values,
)
from hlo_lens.syntax.buffers.live_range import parse_live_range as parse_live_range
from hlo_lens.syntax.buffers.memory_usage import (
    parse_memory_usage_report as parse_memory_usage_report,
)
from hlo_lens.syntax.call_trees.drawn_trees import parse_call_trees as parse_call_trees
from hlo_lens.syntax.hlo.module import parse_hlo as parse_hlo
from hlo_lens.syntax.logs.buffer_log import parse_buffer_log as parse_buffer_log
from hlo_lens.syntax.logs.log import parse_log as parse_log
from hlo_lens.text.errors import (
    DumpMismatchError as DumpMismatchError,
)
from hlo_lens.text.errors import (
    DumpSyntaxError as DumpSyntaxError,
)
from hlo_lens.text.errors import (
    Gap as Gap,
)
from hlo_lens.text.errors import (
    HloLensError as HloLensError,
)
from hlo_lens.text.errors import (
    MissingDumpError as MissingDumpError,
)
from hlo_lens.text.errors import (
    MissingPackageError as MissingPackageError,
)
from hlo_lens.text.errors import (
    UnknownNameError as UnknownNameError,
)
from hlo_lens.text.errors import (
    UnreadableError as UnreadableError,
)
from hlo_lens.text.errors import (
    UsageError as UsageError,
)
from hlo_lens.text.version import __version__ as __version__
