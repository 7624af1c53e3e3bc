"""Remakes the dumps in this folder: `python sample_dumps/make.py --backend all`.

Needs the packages that README.md lists, and no accelerator. Each program is compiled in a process
of its own (`compile_program.py`) that dumps into a temporary folder; the files worth keeping are
then moved to `<out>/<name>/<program>/` under the names XLA gave them. The edits of `pairs` go to
`<out>/pairs/<name>/<edit>.tar.xz`.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).resolve().parent
BACKENDS = ("cpu", "tpu", "gpu")
PAIRS = "pairs"
STEPS = "steps"
PLANTS = "plants"
PROGRAMS = ("tp_mlp", "fsdp_transformer", "shard_map_collectives", "wasteful", PAIRS, STEPS, PLANTS)
EDITS = (
    *("base", "added_all_gather", "lost_donation", "doubled_buffer", "moved_collective"),
    *("f32_upcast", "four_layers"),
)
"""The edits of `programs/pairs.py`; each is compiled by itself."""

WASTES = (
    *("scores", "logits", "one_hot", "heads", "accumulated"),
    *("fused", "gathered", "resharded", "carried", "turned", "contracted", "normed"),
    "experts",
)
"""The programs of `programs/wastes.py`."""

STEP_EDITS = (
    *("step", "moved_lines", "renamed_weight", "replicated_weight", "other_mesh", "larger_batch"),
    *("longer_sequence", "larger_vocabulary", "more_layers", "no_remat", "other_policy"),
    *("microbatches", "unrolled", "bf16_logits", "bf16_weights", "bf16_momentum", "f32_layers"),
    *("no_constraint", "added_norm", "undonated", "update_apart", "added_constraint"),
    "other_flags",
)
"""The edits of `programs/steps.py`, which are kept beside those of `pairs`."""

PLANTED = (
    *("embedding", "embedding_clean", "constraint", "constraint_clean", "merged", "specs"),
    *("specs_clean", "undivided", "megatron_clean", "rolled_clean"),
    *(f"{waste}{end}" for waste in WASTES for end in ("", "_clean")),
    "stationary_clean",
)
"""The programs of `programs/plants.py`."""

KEPT = re.compile(
    r"""\.before_optimizations\.txt$
    | [._]after_optimizations\.hlo\.pb$
    | [._]after_optimizations
      (-buffer-assignment(-values)? | -live-range | -memory-usage-report)?\.txt$""",
    re.VERBOSE,
)

SETS = {PAIRS: EDITS, STEPS: STEP_EDITS, PLANTS: PLANTED}
KEPT_OF_SETS = {
    PAIRS: re.compile(r"[._]after_optimizations(-buffer-assignment | -live-range)?\.txt$", re.X),
    STEPS: re.compile(
        r"""[._](before_optimizations | after_optimizations(-buffer-assignment|-live-range)?)\.txt$
        | \.debug_options$""",
        re.VERBOSE,
    ),
    PLANTS: re.compile(
        r"[._](before_optimizations | after_optimizations(-buffer-assignment)?)\.txt$", re.X
    ),
}

COMPILED_TEXT = {("cpu", "tp_mlp"), ("cpu_jax_0_12_0", "tp_mlp")}
"""The compiles whose `Compiled.as_text()` is kept too."""

PROTOS = {("cpu", "tp_mlp"), ("gpu", "tp_mlp"), ("tpu", "tp_mlp")}
"""The compiles whose proto is kept too, compressed."""

GZIPPED = {
    ("tpu", "fsdp_transformer", "-buffer-assignment-values.txt"),
    *((backend, "fsdp_transformer", ".before_optimizations.txt") for backend in BACKENDS),
}
"""Files that are kept compressed: name, program, end of the file name."""

PASSES = {("tpu", "tp_mlp")}
"""The compiles of which the texts after every pass are kept too, as one archive."""

DUMP_FLAGS = "--xla_dump_to={dump_dir} --xla_dump_hlo_as_text"
PROTO_FLAG = " --xla_dump_hlo_as_proto"
EDIT_FLAGS = {"other_flags": " --xla_disable_hlo_passes=all-reduce-combiner"}
BACKEND_FLAGS = {"cpu": " --xla_force_host_platform_device_count=8", "tpu": "", "gpu": ""}


def environment(backend: str, dump_dir: Path, *, with_proto: bool) -> dict[str, str]:
    """Returns the environment of one compile; JAX's and XLA's own settings are not inherited."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAX_", "XLA_", "TPU_", "LIBTPU_", "PYTHON"))
    }
    return inherited | {
        "XLA_FLAGS": DUMP_FLAGS.format(dump_dir=dump_dir)
        + PROTO_FLAG * with_proto
        + BACKEND_FLAGS[backend],
        "JAX_PLATFORMS": "cpu",
        # Source paths in the dumps are made relative to this folder or to site-packages.
        "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": f"{re.escape(str(HERE))}/|.*/site-packages/",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def keep(source: Path, target: Path, *, compress: bool) -> None:
    """Copies one dump file, compressed without a time stamp if asked to."""
    if compress:
        packed = gzip.compress(source.read_bytes(), mtime=0)
        target.with_name(target.name + ".gz").write_bytes(packed)
    else:
        shutil.copyfile(source, target)


def make(backend: str, program: str, name: str, out: Path) -> None:
    """Compiles one program and replaces the folder `<out>/<name>/<program>`.

    Raises:
        subprocess.CalledProcessError: The compile failed; its messages are on stderr.
    """
    folder = out / name / program
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        dump_dir = Path(temporary)
        command = [sys.executable, str(HERE / "compile_program.py")]
        command += [program, backend, str(dump_dir), str(folder)]
        if (name, program) in COMPILED_TEXT:
            command.append("--compiled-text")
        settings = environment(backend, dump_dir, with_proto=(name, program) in PROTOS)
        subprocess.run(command, env=settings, check=True)
        for source in sorted(dump_dir.iterdir()):
            if KEPT.search(source.name):
                compress = source.suffix == ".pb" or any(
                    (name, program) == (where, what) and source.name.endswith(end)
                    for where, what, end in GZIPPED
                )
                keep(source, folder / source.name, compress=compress)


def make_set(backend: str, program: str, name: str, out: Path, edits: Iterable[str]) -> None:
    """Compiles programs of a set: `<out>/<set>/<name>/<edit>.tar.xz`; steps are in `pairs`.

    Raises:
        subprocess.CalledProcessError: A compile failed; its messages are on stderr.
    """
    folder = out / (PAIRS if program == STEPS else program) / name
    folder.mkdir(parents=True, exist_ok=True)
    for edit in edits:
        with tempfile.TemporaryDirectory() as temporary:
            dump_dir = Path(temporary)
            is_waste = edit.removesuffix("_clean") in (*WASTES, "stationary")
            module = "wastes" if is_waste else program
            command = [sys.executable, str(HERE / "compile_program.py"), module, backend]
            command += [str(dump_dir), str(folder), "--edit", edit]
            variables = environment(backend, dump_dir, with_proto=False)
            variables["XLA_FLAGS"] += EDIT_FLAGS.get(edit, "")
            variables["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "1"  # innermost lines: smaller files
            subprocess.run(command, env=variables, check=True)
            best = 9 | lzma.PRESET_EXTREME
            with tarfile.open(folder / f"{edit}.tar.xz", "w:xz", preset=best) as tar:
                for source in sorted(dump_dir.iterdir()):
                    if KEPT_OF_SETS[program].search(source.name):
                        info = tarfile.TarInfo(source.name)
                        info.size = source.stat().st_size
                        with source.open("rb") as file:
                            tar.addfile(info, file)


def make_passes(backend: str, program: str, out: Path) -> None:
    """Compiles one program with a dump after each pass: `<out>/passes/<backend>_<program>.tar.xz`.

    Raises:
        subprocess.CalledProcessError: The compile failed; its messages are on stderr.
    """
    with tempfile.TemporaryDirectory() as temporary:
        dump_dir = Path(temporary) / "dump"
        dump_dir.mkdir()
        variables = environment(backend, dump_dir, with_proto=False)
        variables["XLA_FLAGS"] += " --xla_dump_hlo_pass_re=.*"
        command = [sys.executable, str(HERE / "compile_program.py")]
        command += [program, backend, str(dump_dir), temporary]
        subprocess.run(command, env=variables, check=True)
        (out / "passes").mkdir(exist_ok=True)
        with tarfile.open(out / "passes" / f"{backend}_{program}.tar.xz", "w:xz") as tar:
            for path in sorted(dump_dir.rglob("*")):
                info = tarfile.TarInfo(str(path.relative_to(dump_dir.parent)))
                if path.is_file():
                    info.size = path.stat().st_size
                    with path.open("rb") as file:
                        tar.addfile(info, file)


def make_trace(out: Path) -> None:
    """Traces `programs/traced` and replaces `<out>/logs/traced_dtensor.txt`."""
    command = [sys.executable, str(HERE / "trace_calls.py")]
    tree = subprocess.run(command, check=True, capture_output=True)
    (out / "logs").mkdir(parents=True, exist_ok=True)
    (out / "logs" / "traced_dtensor.txt").write_bytes(tree.stdout)


def main() -> None:
    """Remakes the samples named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=(*BACKENDS, "trace", "all"), default="all")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--edits", nargs="+", help="programs of a set to remake, not all")
    parser.add_argument("--name", help="folder below OUT; the backend's name unless given")
    options = parser.parse_args()
    if options.backend in ("trace", "all"):
        make_trace(options.out.resolve())
    chosen = BACKENDS if options.backend == "all" else (options.backend,)
    for backend in (backend for backend in chosen if backend in BACKENDS):
        name, out = options.name or backend, options.out.resolve()
        for program in options.programs:
            if program in KEPT_OF_SETS:
                make_set(backend, program, name, out, options.edits or SETS[program])
                continue
            make(backend, program, name, out)
            if (name, program) in PASSES:
                make_passes(backend, program, out)


if __name__ == "__main__":
    main()
