"""Mutated inputs through every reader, and through the passes and pages on what they read.

Only a result or a HloLensError is right; any other exception, and an input that takes more than
`LIMIT_SECONDS` of processor time, is a finding. Mutations change bytes, tokens and lines, and
splice two inputs. Seeds are texts of the tests, the samples and, where it is beside the checkout,
the corpus; each is small, so that an input takes about a millisecond.

    python -m tests.fuzz [--inputs N] [--jobs N] [--seed N] [--target NAME]

It prints each finding once (by exception and place) with its text, and numbers for each target.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import io
import json
import multiprocessing
import random
import re
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.hlo.lowered import parse_stablehlo
from hlo_lens.load.devices import device_assignment, gpu_config, topology_of
from hlo_lens.load.protos import read_proto
from hlo_lens.program.summary import change_list, own_target, target_text
from hlo_lens.questions.check.rules import read_budget, short_rule
from hlo_lens.questions.collectives.loop_levels import loops
from hlo_lens.questions.collectives.page import loop_pages, pages as collective_pages
from hlo_lens.questions.memory.layout import layout_of_dump
from hlo_lens.questions.report.module_page import module_object
from hlo_lens.questions.report.page import report_modules
from hlo_lens.questions.sharding import page as sharding_page
from hlo_lens.questions.snapshots.snapshot_file import read_snapshot
from hlo_lens.questions.what_if.compiling import OPTION_TEXTS, options_of, source_program
from hlo_lens.render.table import RenderOptions, render_as
from hlo_lens.render.to_json import report_of_pages
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import read_partition_spec
from hlo_lens.shapes.sharding import meshes_by_name
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.source import decode
from tests import hlo_texts
from tests.corpus import CORPUS, SAMPLES
from tests.questions import texts

if TYPE_CHECKING:
    from types import FrameType

LIMIT_SECONDS = 3.0
"""Processor time of one input."""

_SMALL = 3_000
"""Characters of a seed, from the start of a text."""

_LARGEST = 60_000
"""Bytes of an input."""

OPTIONS = RenderOptions()


class SlowError(Exception):
    """An input takes too long."""


def read_hlo(data: bytes) -> None:
    """Read an HLO text, its opcodes, names and links."""
    module = hlo_lens.parse_hlo(data)
    for one in module.instructions:
        _ = one.opcode, one.operand_names, one.called_computations
        for name in ("shape", "sharding", "metadata"):
            with_errors(partial(getattr, one, name))


def with_errors(make: Callable[[], object]) -> None:
    """Call a function that may raise a HloLensError."""
    with contextlib.suppress(HloLensError):
        make()


def hlo_pages(data: bytes) -> None:
    """Run all passes on an HLO text and make its pages."""
    modules = hlo_lens.modules_of(hlo_lens.parse_hlo(data))
    known = modules[0]
    with_errors(lambda: json.dumps(module_object(known), default=str))
    with_errors(lambda: list(loops(known).rows()))
    for pages in (sharding_page.pages, collective_pages, loop_pages):
        with_errors(lambda pages=pages: rendered(report_of_pages("page", pages([known]))))  # type: ignore[misc]
    with_errors(lambda: rendered(report_modules(modules)))


def rendered(report: object) -> None:
    """Render a report as text, Markdown, HTML and JSON."""
    for name in ("text", "markdown", "html", "json"):
        render_as(name, report, io.StringIO(), OPTIONS)  # type: ignore[arg-type]


def hlo_changes(data: bytes) -> None:
    """Compare an HLO text with a whole one, both ways."""
    module = hlo_lens.parse_hlo(data)
    for sides in ((WHOLE, module), (module, WHOLE)):
        rendered(hlo_lens.diff(*sides).report())


def assignment(data: bytes) -> None:
    """Read a buffer assignment and lay it out."""
    layout = layout_of_dump(hlo_lens.parse_buffer_assignment(data))
    _ = layout.used_series(), layout.held_series()


def ranges(data: bytes) -> None:
    """Read live ranges and the values alive at each instant."""
    found = hlo_lens.parse_live_range(data)
    _ = found.peak_bytes, list(found.buffer_live_ranges), found.live_at(3)
    layout = layout_of_dump(whole_assignment(), found)
    _ = layout.used_series(), layout.held_series(), layout.unplaced_held


@functools.cache
def whole_assignment() -> hlo_lens.BufferAssignment:
    """Return the buffer assignment of a sample."""
    return hlo_lens.parse_buffer_assignment(seeds()["buffer-assignment"][0])


def file_of(name: str) -> Callable[[bytes], None]:
    """Return a target that loads a file of a name and reports on it."""

    def load(data: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            dump = hlo_lens.load(path)
            rendered(report_modules(dump.modules))
            with_errors(lambda: rendered(hlo_lens.report_on(path)))

    return load


def folder(data: bytes) -> None:
    """Load a folder of files and ask for all that side files decide."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as home:
        for name, text in zip(*[iter(_FILE.split(data)[1:])] * 2, strict=True):
            path = Path(home) / name.decode()
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text)
        dump = hlo_lens.load(home)
        for module in dump.modules:
            own, devices = own_target(module), device_assignment(module)
            _ = target_text(module), change_list(module), source_program(module)
            if own is not None and devices is not None:
                topology_of(own, devices)
            for name in OPTION_TEXTS:
                options_of(module.setting(name) or "")
        with_errors(lambda: rendered(report_modules(dump.modules)))
        with_errors(lambda: rendered(hlo_lens.report_on(home)))
        for ask in (hlo_lens.memory, hlo_lens.collectives, hlo_lens.lint):
            with_errors(partial(ask, home))


_FILE = re.compile(rb"(?:\A|\n)==== ([\w./-]{1,120})\n")
"""Line before each file of a folder that is written as one text."""


def as_folder(files: Mapping[str, bytes]) -> bytes:
    """Return a folder as one text."""
    return b"\n".join(b"==== %s\n%s" % (name.encode(), text) for name, text in files.items())


def call_trees(data: bytes) -> None:
    """Read call trees."""
    for tree in hlo_lens.parse_call_trees(data).trees:
        _ = str(tree)


def small_texts(data: bytes) -> None:
    """Read each line as a shape, a sharding, replica groups, a mesh, a spec and a rule."""
    for line in decode(data).splitlines()[:4]:
        for read in LINE_READERS:
            with_errors(partial(read, line))


def sized(text: str) -> None:
    """Read a shape and compute its sizes."""
    shape = hlo_lens.Shape.parse(text)
    _ = shape.size_bytes, shape.padded_size_bytes, str(shape)


def used(text: str) -> None:
    """Read a sharding and compute what it gives."""
    sharding = hlo_lens.HloSharding.parse(text)
    _ = sharding.num_devices, str(sharding)
    with_errors(lambda: sharding.to_partition_spec(MESH))
    with_errors(lambda: sharding.shard_shape((16, 16)))
    with_errors(lambda: sharding.tile_of(1))


MESH = Mesh.of({"x": 2, "y": 4})
LINE_READERS: tuple[Callable[[str], object], ...] = (
    sized,
    used,
    hlo_lens.expand_replica_groups,
    meshes_by_name,
    read_partition_spec,
    short_rule,
)


def snapshot(data: bytes) -> None:
    """Read a snapshot and compare it with itself."""
    try:
        found = json.loads(decode(data))
    except (ValueError, RecursionError):  # load reports these
        return
    read = read_snapshot(found, "base.json")
    rendered(hlo_lens.diff(read, read).report())


def budget(data: bytes) -> None:
    """Read a budget; its TOML may be wrong."""
    read_budget(decode(data), "budget.toml")


Target = Callable[[bytes], object]

TARGETS: Mapping[str, tuple[str, Target, int]] = {
    "hlo": ("hlo", read_hlo, 10),
    "hlo-pages": ("hlo", hlo_pages, 2),
    "hlo-diff": ("hlo", hlo_changes, 1),
    "hlo-file": ("hlo", file_of("module_0001.jit_f.cpu_after_optimizations.txt"), 1),
    "folder": ("folder", folder, 1),
    "buffer-assignment": ("buffer-assignment", assignment, 14),
    "buffer-assignment-values": (
        "buffer-assignment-values",
        lambda data: str(hlo_lens.parse_buffer_values(data)),
        25,
    ),
    "live-range": ("live-range", ranges, 18),
    "memory-usage-report": (
        "memory-usage-report",
        lambda data: hlo_lens.parse_memory_usage_report(data),
        10,
    ),
    "log": ("log", lambda data: hlo_lens.parse_log(data), 10),
    "log-file": ("log", file_of("job.log"), 1),
    "call-trees": ("tree", call_trees, 25),
    "small": ("small", small_texts, 60),
    "stablehlo": ("stablehlo", lambda data: parse_stablehlo(data), 2),
    "stablehlo-file": ("stablehlo", file_of("module_0001.jit_f.mlir"), 1),
    "snapshot": ("snapshot", snapshot, 6),
    "budget": ("budget", budget, 12),
    "proto": ("proto", lambda data: read_proto(data), 4),
}
"""Name to the kind of its seeds, the function, and its weight."""

BUDGET = """[[budget]]
module = "train_step"
metric = "memory.total_bytes"
max = "14.5GiB"

[[budget]]
metric = "collectives.static.*"
threshold = 0

[[budget]]
metric = "collectives.all-gather.count"
absent = true
"""
SMALL = """f32[8,16]{1,0:T(8,128)S(1)}
(f32[2]{0}, (bf16[<=4,?]{1,0}, token[]), /*index=5*/pred[])
{devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate}
{{replicated}, {maximal device=3}, {devices=[2,2]0,1,2,3}, {manual}}
{{0,1},{2,3}}
[4,2]<=[2,2,2]T(2,1,0)
x=2,y=4
P('x', ('y', None), None)
mesh['x'=2,'y'=4] {'x', 'y'}
memory.total_bytes>+2%
collectives.static.all-reduce<=3
NamedSharding(mesh=Mesh('x': 2, 'y': 4), spec=P('x', None), memory_kind=device)
"""
BUFFER_LOG = """BufferAssignment stats:
             parameter allocation:    1.00MiB
              constant allocation:       12B
        maybe_live_out allocation:    1.00MiB
     preallocated temp allocation:    3.50MiB
  preallocated temp fragmentation:        8B (0.01%)
                 total allocation:    5.50MiB
Peak buffers:
\tBuffer 1:
\t\tSize: 1.00MiB
\t\tOperator: op_name="jit(f)/add" source_file="a.py" source_line=3
\t\tXLA Label: fusion
\t\tShape: f32[512,512]
\t\t==========================

"""
STABLEHLO = """module @jit_f attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%arg0: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,4]<=[8]}", \
tf.aliasing_output = 0 : i32}, %arg1: tensor<16x?xbf16> {sdy.sharding = #sdy.sharding<@mesh, \
[{"x"}, {}]>}) -> (tensor<8x16xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
"""


_ARGUMENTS = b"""target_config {
  version: TPU_VERSION_VIPERFISH
  variant: "lite"
  chip_config_name: "default"
}
topology {
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 1 y: 1 z: 1 }
  wrap { x: true y: false z: false }
}
"""
_DEVICES = b"""num_partitions: 2
device_assignment {
  replica_count: 1
  computation_count: 2
  computation_devices {
    replica_device_ids: 0
  }
  computation_devices {
    replica_device_ids: 1
  }
}
"""
_OPTIONS = b"""xla_gpu_enable_latency_hiding_scheduler: true
xla_tpu_scoped_vmem_limit_kib: 16384
xla_dump_to: "/tmp/dump"
"""


def _folders() -> Iterator[bytes]:
    """Yield folders of a module and its side files, for each backend."""
    text = hlo_texts.E1.encode()
    stages = {
        "cpu": ("", "cpu_after_optimizations"),
        "tpu": (".cl_1003875606", "after_optimizations"),
        "gpu": ("", "sm_9.0a_gpu_after_optimizations"),
    }
    for backend, (stamp, stage) in stages.items():
        key = f"module_0001.jit_f{stamp}"
        settings = {
            f"{key}.debug_options": _OPTIONS,
            f"{key}.execution_options.txt": _DEVICES,
            f"{key}/compile_options.textproto": _DEVICES,
            f"{key}/topology.textproto": b"platform_id: 1\nplatform_name: 'tpu'\n",
        }
        if backend == "tpu":
            settings[f"{key}.target_arguments.txt"] = _ARGUMENTS
        if backend == "gpu":
            settings[f"{key}.gpu_target_config.pbtxt"] = gpu_config("h100_sxm").encode()
        hlo = {f"{key}.{stage}.txt": text, f"{key}.before_optimizations.txt": text}
        yield as_folder({**hlo, **settings})
        for name, setting in settings.items():  # alone, so that mutations meet it often
            yield as_folder({**hlo, name: setting})
    sample = SAMPLES / "cpu" / "tp_mlp"
    yield as_folder({one.name: start_of(one) for one in sorted(sample.glob("module*.txt"))})


def _as_json(log: bytes) -> bytes:
    """Return a log as a string of JSON."""
    return json.dumps({"message": log.decode("utf-8", "replace")}).encode()


def start_of(path: Path) -> bytes:
    """Return the first whole lines of a file."""
    data = path.read_bytes()[:_SMALL]
    return data[: data.rfind(b"\n") + 1] if len(data) == _SMALL else data


@functools.cache
def seeds() -> Mapping[str, Sequence[bytes]]:
    """Return the seeds of each kind."""
    found: dict[str, list[bytes]] = {
        "hlo": [text.encode() for text in HLO_TEXTS],
        "small": [line.encode() for line in SMALL.splitlines()],
        "stablehlo": [STABLEHLO.encode()],
        "budget": [BUDGET.encode()],
        "folder": [*_folders()],
    }
    folder = SAMPLES / "cpu" / "tp_mlp"
    for kind in ("buffer-assignment", "buffer-assignment-values", "live-range"):
        found[kind] = [start_of(path) for path in sorted(SAMPLES.glob(f"*/*/*-{kind}.txt"))]
    reports = sorted(SAMPLES.glob("*/*/*-memory-usage-report.txt"))
    found["memory-usage-report"] = [start_of(path) for path in reports]
    found["log"] = [start_of(path) for path in sorted((SAMPLES / "logs").glob("*.txt"))]
    found["log"] += [*map(_as_json, found["log"][:3]), BUFFER_LOG.encode()]
    found["tree"] = [b"f [1.5ms] at a.py:3\n+- g [1ms] at a.py:4\n|  `- h at b.py:5\n`- k\n"]
    found["proto"] = [gzip.decompress(next(folder.glob("*.hlo.pb.gz")).read_bytes())]
    found["snapshot"] = [json.dumps(hlo_lens.snapshot(WHOLE).to_dict(tool_version="1")).encode()]
    if CORPUS.is_dir():
        for kind, part in (("log", "t"), ("tree", "tr"), ("stablehlo", "mlir")):
            listed = sorted((CORPUS / "texts" / part).iterdir())
            found[kind] += [start_of(path) for path in listed]
        hlo = sorted((CORPUS / "hlo" / "xla_tests").glob("*.hlo"))
        found["hlo"] += [path.read_bytes() for path in hlo if path.stat().st_size < _SMALL]
    return found


ALONE = """%f = f32[8]{0} fusion(f32[8]{0}, f32[8]{0} %y), kind=kLoop, calls=
{
  a = f32[8]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  c = f32[8]{0} add(a, b)
  ROOT d = f32[8]{0} add(negate(c), f32[8]{0} exponential(abs(b)))
}"""
"""An instruction printed alone."""

FIELDS = """HloModule jit_f, is_scheduled=true, \
entry_computation_layout={(f32[8]{0}, s32[])->f32[8]{0}}, num_partitions=2, replica_count=1

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=4}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY main {
  p = f32[8]{0} parameter(0), sharding={devices=[2]<=[2]}, \
metadata={op_name="x" source_file="a.py" source_line=3 source_column=4}
  i = s32[] parameter(1), sharding={replicated}
  q = f32[16]{0} all-gather(p), channel_id=1, replica_groups={{0,1}}, dimensions={0}, \
use_global_device_ids=true, metadata={op_name="f/g" stack_frame_id=1}
  s = f32[8]{0} slice(q), slice={[0:8:1]}, \
backend_config={"estimated_cycles":"100","known_trip_count":{"n":"3"}}
  r = f32[8]{0} all-reduce(s), channel_id=2, replica_groups=[1,2]<=[2], to_apply=add
  ds = f32[8]{0} dynamic-slice(r, i), dynamic_slice_sizes={8}
  ROOT cp = f32[8]{0} collective-permute(ds), channel_id=3, \
source_target_pairs={{0,1},{1,0}}
}
"""
"""A text with the integer fields of XLA: source lines, frames, trip counts, groups, channels."""

HLO_TEXTS = (
    *(hlo_texts.E1, hlo_texts.E2, hlo_texts.E3, hlo_texts.E4, hlo_texts.E5, texts.LOOP),
    *(ALONE, FIELDS),
)
WHOLE = hlo_lens.parse_hlo(texts.LOOP)

# ---- mutations -----------------------------------------------------------------------------------

_TOKEN = re.compile(rb"[\w.-]+|[^\w\s]|\s+")
_ODD = (b"\0", b"\xff", b"\n", b"{", b"}", b"(", b")", b'"', b"\\", b"9" * 4400, b"-1", b"0", b"%")


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return an input with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        data = rng.choice(MUTATIONS)(data, rng.choice(others), rng)
    return data[:_LARGEST]


def _bytes(data: bytes, other: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    odd = rng.choice(_ODD) if rng.random() < 0.5 else bytes([rng.randrange(256)])
    return data[:place] + odd + data[place + rng.randrange(3) :]


def _tokens(data: bytes, other: bytes, rng: random.Random) -> bytes:
    tokens = _TOKEN.findall(data)
    if not tokens:
        return data
    place = rng.randrange(len(tokens))
    found = rng.choice((tokens, _TOKEN.findall(other) or tokens))
    tokens[place : place + rng.randrange(3)] = [rng.choice(found)]
    return b"".join(tokens)


def _lines(data: bytes, other: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place, target = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[place]
    elif way == 1:
        lines[place], lines[target] = lines[target], lines[place]
    elif way == 2:
        lines.insert(place, lines[target])
    else:
        lines.insert(place, rng.choice(other.splitlines(keepends=True) or [b"\n"]))
    return b"".join(lines)


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _cut(data: bytes, other: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1) if rng.random() < 0.2 else 0
    return data[start : rng.randrange(start, len(data) + 1)]


def _integer(data: bytes, other: bytes, rng: random.Random) -> bytes:
    numbers = [match.span() for match in re.finditer(rb"\d+", data)]
    if not numbers:
        return data
    start, end = rng.choice(numbers)
    return data[:start] + rng.choice((b"9" * 5000, b"word", b"")) + data[end:]


MUTATIONS = (_integer, _bytes, _bytes, _tokens, _tokens, _tokens, _lines, _lines, _splice, _cut)

# ---- the run -------------------------------------------------------------------------------------


def finding(target: Target, data: bytes) -> str:
    """Return the exception and the place that an input led to; empty for a right answer."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
    try:
        target(data)
    except HloLensError:
        return ""
    except SlowError as error:
        return f"slow: {_place(error)}"
    except Exception as error:
        return f"{type(error).__name__}: {_place(error)}: {str(error)[:80]}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/hlo_lens/" in one.filename] or list(frames)
    return f"{ours[-1].filename.partition('/hlo_lens/')[2]}:{ours[-1].lineno}"


def _stop(signum: int, frame: FrameType | None) -> None:
    raise SlowError


def inputs(seed: int, only: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield names of targets and inputs for ever, the same for the same seed."""
    rng = random.Random(seed)
    names = [only] if only else list(TARGETS)
    weights = [TARGETS[name][2] for name in names]
    while True:
        (name,) = rng.choices(names, weights)
        listed = seeds()[TARGETS[name][0]]
        yield name, mutated(rng.choice(listed), listed, rng)


def fuzzed(seed: int, count: int, only: str | None = None) -> tuple[Counter[str], dict[str, bytes]]:
    """Return the number of inputs of each target, and the first input of each finding."""
    sys.setrecursionlimit(1000)
    signal.signal(signal.SIGVTALRM, _stop)
    counts: Counter[str] = Counter()
    found: dict[str, bytes] = {}
    for name, data in inputs(seed, only):
        if counts.total() == count:
            break
        counts[name] += 1
        text = finding(TARGETS[name][1], data)
        key = f"{name}: {text}"
        if text and (key not in found or len(data) < len(found[key])):
            found[key] = data
    return counts, found


_CHUNK = 5_000
"""Inputs of one seed."""


def _chunk(work: tuple[int, int, str | None]) -> tuple[Counter[str], dict[str, bytes]]:
    return fuzzed(*work)


def main() -> None:
    """Fuzz in several processes and print what was found."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--inputs", type=int, default=500_000)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--target", choices=list(TARGETS))
    chosen = options.parse_args()
    size = min(_CHUNK, -(-chosen.inputs // chosen.jobs))
    numbers = range(-(-chosen.inputs // size))
    work = [(1000 * chosen.seed + number, size, chosen.target) for number in numbers]
    counts: Counter[str] = Counter()
    found: dict[str, bytes] = {}
    with multiprocessing.Pool(chosen.jobs) as pool:
        for more, findings in pool.imap_unordered(_chunk, work):
            counts += more
            found |= {key: data for key, data in findings.items() if key not in found}
            sys.stderr.write(f"{counts.total():,} inputs, {len(found)} findings\n")
    for name, count in counts.most_common():
        sys.stdout.write(f"{count:10,} {name}\n")
    sys.stdout.write(f"{counts.total():10,} inputs, {len(found)} findings\n")
    for key, data in sorted(found.items()):
        sys.stdout.write(f"\n{key}\n{data[:1000]!r}\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
