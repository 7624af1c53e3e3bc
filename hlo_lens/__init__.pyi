"""Public names of hlo_lens and the files that define them; imported when first used."""

__all__: list[str]

from hlo_lens.buffers.assignment import (
    AssignedValue as AssignedValue,
    BufferAllocation as BufferAllocation,
    BufferAssignment as BufferAssignment,
    BufferValues as BufferValues,
    HloValue as HloValue,
)
from hlo_lens.buffers.assignment_reader import (
    parse_buffer_assignment as parse_buffer_assignment,
    parse_buffer_values as parse_buffer_values,
)
from hlo_lens.buffers.live_range import (
    HloLiveRange as HloLiveRange,
    parse_live_range as parse_live_range,
)
from hlo_lens.buffers.memory_usage import (
    MemoryUsageReport as MemoryUsageReport,
    parse_memory_usage_report as parse_memory_usage_report,
)
from hlo_lens.call_trees.tree import (
    CallFrame as CallFrame,
    CallTree as CallTree,
    CallTrees as CallTrees,
    parse_call_trees as parse_call_trees,
)
from hlo_lens.hlo.module import (
    Framework as Framework,
    FrameworkValue as FrameworkValue,
    HloComputation as HloComputation,
    HloInstruction as HloInstruction,
    HloModule as HloModule,
)
from hlo_lens.hlo.module_reader import parse_hlo as parse_hlo
from hlo_lens.hlo.query import def_use_graph as def_use_graph
from hlo_lens.load import load as load
from hlo_lens.load.jax import from_compiled as from_compiled, from_lowered as from_lowered
from hlo_lens.load.module import Dump as Dump, ModuleDump as ModuleDump
from hlo_lens.load.programs import modules_of as modules_of
from hlo_lens.logs.log import LogText as LogText, parse_log as parse_log
from hlo_lens.questions.check import check as check
from hlo_lens.questions.check.checked import Checked as Checked
from hlo_lens.questions.collectives import (
    collectives as collectives,
    loops as loops,
    why as why,
)
from hlo_lens.questions.diff import diff as diff
from hlo_lens.questions.diff.dump_diff import Diff as Diff
from hlo_lens.questions.diff.sides import snapshot as snapshot
from hlo_lens.questions.dumps import call_graph as call_graph, instruction as instruction
from hlo_lens.questions.memory import memory as memory
from hlo_lens.questions.plans.bisect import Bisection as Bisection, bisect as bisect
from hlo_lens.questions.plans.fit import Fit as Fit, fit as fit
from hlo_lens.questions.plans.lint import Lint as Lint, lint as lint
from hlo_lens.questions.report import report_on as report_on
from hlo_lens.questions.sharding import shardings as shardings, signature as signature
from hlo_lens.questions.snapshots.snapshot_file import Snapshot as Snapshot
from hlo_lens.questions.what_if import what_if as what_if
from hlo_lens.questions.what_if.combinations import WhatIf as WhatIf
from hlo_lens.shapes.replica_groups import expand_replica_groups as expand_replica_groups
from hlo_lens.shapes.shape import Layout as Layout, Shape as Shape
from hlo_lens.shapes.sharding import HloSharding as HloSharding
from hlo_lens.testing.capture import Capture as Capture, capture as capture
from hlo_lens.text.errors import (
    DumpMismatchError as DumpMismatchError,
    DumpSyntaxError as DumpSyntaxError,
    Gap as Gap,
    HloLensError as HloLensError,
    MissingDumpError as MissingDumpError,
    MissingPackageError as MissingPackageError,
    OutputError as OutputError,
    UnknownNameError as UnknownNameError,
    UnreadableError as UnreadableError,
    UsageError as UsageError,
)
from hlo_lens.text.version import __version__ as __version__
