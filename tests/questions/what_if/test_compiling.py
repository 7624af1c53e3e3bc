"""Programs compiled again by the jax that is installed, on CPU; requests, outcomes, the cache."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.load.devices import CPU, gpu_config, parse_target
from hlo_lens.load.module import already_read
from hlo_lens.questions.what_if.compiling import (
    Compilation,
    CompileRequest,
    Means,
    SourceProgram,
    compile_threads,
    compiled,
    dumped_flags,
    needed_memory,
    request_of,
    run_process,
    source_program,
    written,
)
from hlo_lens.questions.what_if.recompiling import Compiler, compiled_again
from hlo_lens.questions.what_if.shardings import mesh_splits
from hlo_lens.questions.what_if.worker import (
    with_chlo,
    without_attribute,
    without_field,
    without_frames,
)
from hlo_lens.testing.assertions import assert_fits
from hlo_lens.text.errors import MissingPackageError, OutputError, UsageError
from hlo_lens.text.user_cache import bound_compiles, cache_state, clear_cache
from tests.timing import PATIENCE_SECONDS

_JAXLIB = "0" if importlib.util.find_spec("jaxlib") is None else version("jaxlib")
needs_jax = pytest.mark.skipif(
    tuple(map(int, _JAXLIB.split(".")[:2])) < (0, 6),
    reason="no jaxlib of 0.6 or newer: older ones lose donations on the way to the compiler",
)

PROGRAM = """\
HloModule jit_f, entry_computation_layout={(f32[64,64]{1,0})->f32[64,64]{1,0}}

ENTRY main {
  x = f32[64,64]{1,0} parameter(0), metadata={op_name="x"}
  y = f32[64,64]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[64,64]{1,0} sine(y)
}
"""
BYTES = 64 * 64 * 4
COMPILING = "hlo_lens.questions.what_if.compiling"


def before(text: str = PROGRAM) -> hlo_lens.ModuleDump:
    """Return the module of a text from before optimizations."""
    (dump,) = hlo_lens.modules_of(text)
    return replace(dump, stage="before_optimizations")


def program(text: str, backend: str = "cpu") -> SourceProgram:
    return SourceProgram(module=hlo_lens.parse_hlo(text), backend=backend)


def compiled_header(request: CompileRequest) -> tuple[hlo_lens.HloModule, Compilation]:
    """Return the text that XLA got, and the outcome."""
    made = compiled(request, Means(is_full=True))
    (file,) = made.dump.glob("*.before_optimizations.txt")
    return hlo_lens.parse_hlo(file.read_text("utf-8")), made


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_sample_is_reproduced_and_kept(tmp_path: Path) -> None:
    path, new = "sample_dumps/cpu/wasteful", tmp_path / "new"
    run = CliRunner().invoke(main, ["what-if", path, "-f", "json", "-o", str(new)])
    assert run.exit_code == 0, run.output
    (module,) = json.loads(run.stdout)["modules"]
    assert module["name"] == "jit_wasteful_step"
    assert module["versions"]["jaxlib"]
    if module["versions"]["jaxlib"] == "0.10.2":  # that of the sample
        assert module["reproduced"] is True
        assert module["base"] == module["own"]
    assert hlo_lens.memory(str(new)).statement.argument_bytes == module["base"]["argument_bytes"]


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_flag_reaches_the_compiler_and_an_unknown_one_is_an_answer() -> None:
    flags = {"xla_cpu_enable_fast_math": True, "xla_no_such_flag": 1}
    with_flag, unknown = (
        hlo_lens.what_if(before(), target="cpu", flags={name: value}).modules[0]
        for name, value in flags.items()
    )
    assert with_flag.predicted is not None
    assert with_flag.predicted.argument_bytes == BYTES
    assert with_flag.known.reproduction.is_equal is None  # the text has no buffer assignment
    options = next(Path(str(with_flag.dump)).glob("*debug_options")).read_text("utf-8")
    assert "xla_cpu_enable_fast_math: true" in options
    assert unknown.predicted is None
    assert "xla_no_such_flag" in unknown.refusal


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_donation_is_compiled_and_a_pattern_without_argument_is_named() -> None:
    (row,) = hlo_lens.what_if(before(), target="cpu", donate=["x", "none"], each=True).modules
    assert row.predicted is not None
    assert (row.base.alias_bytes, row.predicted.alias_bytes) == (0, BYTES)
    donate, none = row.changes[1:]
    assert [part.target for part in donate.parts] == ["x"]
    assert "'none'" in (none.why_not or "")
    assert row.alone[1:] == (row.predicted, None)


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_broadcast_of_a_dimension_of_size_one_is_compiled_as_it_was() -> None:
    text = """\
HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8,64]{1,0}}

ENTRY main {
  x = f32[8]{0} parameter(0)
  a = f32[8,1]{1,0} reshape(x)
  b = f32[8,1]{1,0} broadcast(a), dimensions={0,1}
  c = f32[8]{0} reshape(b)
  d = f32[8,64]{1,0} broadcast(c), dimensions={0}
  ROOT e = f32[8,64]{1,0} sine(d)
}
"""
    module, _ = compiled_header(request_of(program(text), CPU))
    opcodes = [one.opcode for one in module.instructions]
    assert opcodes == ["parameter", "reshape", "broadcast", "reshape", "broadcast", "sine"]


@needs_jax
@pytest.mark.usefixtures("compiles")
@pytest.mark.parametrize("alias", ["", "input_output_alias={ {}: (0, {}, may-alias) }, "])
def test_memory_that_any_result_may_have_is_donated(alias: str) -> None:
    layout = "entry_computation_layout={("
    text = PROGRAM.replace(
        layout, f"{alias}buffer_donor={{ (1, {{}}) }}, {layout}f32[64,64]{{1,0}}, "
    )
    text = text.replace("  y = ", "  w = f32[64,64]{1,0} parameter(1)\n  y = ")
    request = request_of(program(text.replace("dot(x, x)", "dot(x, w)")), CPU)
    assert request["donors"] == (1,)
    module, made = compiled_header(request)
    assert module.header["buffer_donor"] == "{ (1, {}) }"
    assert ("input_output_alias" in module.header) == bool(alias)
    assert made.memory_analysis["alias_size_in_bytes"] == BYTES


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_part_of_a_tuple_is_donated() -> None:
    text = """\
HloModule jit_f, buffer_donor={ (1, {1}) }, entry_computation_layout={LAYOUT}

ENTRY main {
  a = f32[] parameter(0)
  p = (f32[8]{0}, f32[64,64]{1,0}) parameter(1)
  x = f32[64,64]{1,0} get-tuple-element(p), index=1
  ROOT z = f32[64,64]{1,0} sine(x)
}
"""
    layout = "(f32[], (f32[8]{0}, f32[64,64]{1,0}))->f32[64,64]{1,0}"
    request = request_of(program(text.replace("LAYOUT", layout)), CPU)
    assert request["donors"] == (2,)
    assert compiled(request, Means(is_full=True)).memory_analysis["alias_size_in_bytes"] == BYTES


@needs_jax
def test_outcomes_are_cached_unless_a_limit_ended_them(cache: Path) -> None:
    request = request_of(program(PROGRAM), CPU)
    late = compiled(request, Means(minutes=1e-4))
    assert late.step == "stopped"
    assert "minutes" in late.error
    assert cache_state().compiles == 0
    assert [compiled(request, Means()).is_cached for _ in range(2)] == [False, True]
    assert clear_cache().compiles == 1
    assert cache_state().compiles == 0
    assert cache.is_dir()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An interpreter that writes a dump at once and goes on, unless there is a file `short`."""
    python = tmp_path / "python"
    python.write_text(
        'cd "$(dirname "$3")"\n'
        """echo '{"versions": {"jax": "1"}, "step": "stopped"}' > result.json\n"""
        "for end in after_optimizations.txt after_optimizations-buffer-assignment.txt "
        "debug_options; do echo text > dump/m.$end; done\n"
        f"test -e {tmp_path}/short || sleep 300\n"
        """echo '{"versions": {}, "memory_analysis": {"temp_size_in_bytes": 8}}' > result.json\n"""
    )
    python.write_text(f"#!/bin/sh\n{python.read_text()}")
    python.chmod(0o755)
    monkeypatch.setattr(f"{COMPILING}.toolchain_of", lambda _: "jaxlib 1")
    return str(python)


@pytest.mark.parametrize("name", ["*buffer-assignment.txt", "../outcome.json"])
def test_damaged_entries_of_the_cache_are_compiled_again(
    cache: Path, compiler: str, name: str
) -> None:
    request, means = request_of(program(PROGRAM), CPU), Means(python=compiler)
    (file,) = compiled(request, means).dump.glob(name)
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-5] + b"00000"):
        file.write_bytes(damaged)
        assert [compiled(request, means).is_cached for _ in range(2)] == [False, True]
    assert cache_state().compiles == 1


def test_entries_of_the_cache_without_digests_are_compiled_again(
    cache: Path, compiler: str
) -> None:
    request, means = request_of(program(PROGRAM), CPU), Means(python=compiler)
    outcome = compiled(request, means).dump.parent / "outcome.json"
    fields = json.loads(outcome.read_text())
    sizes = {name: size for name, (size, _) in fields["files"].items()}
    outcome.write_text(json.dumps({**fields, "files": sizes}))
    assert [compiled(request, means).is_cached for _ in range(2)] == [False, True]


def test_full_disk_is_a_message_and_exit_code_5(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"{COMPILING}.toolchain_of", lambda _: "jaxlib 1")
    monkeypatch.setattr(f"{COMPILING}.run_process", full)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        compiled(request_of(program(PROGRAM), CPU), Means())
    assert caught.value.exit_code == 5
    assert [*(cache / "compiles").iterdir()] == []


def test_dump_that_a_full_disk_cut_is_not_cached(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Could not write: No space left on device'\n")
    python.chmod(0o755)
    monkeypatch.setattr(f"{COMPILING}.toolchain_of", lambda _: "jaxlib 1")
    with pytest.raises(OutputError, match="no space left"):
        compiled(request_of(program(PROGRAM), CPU), Means(python=str(python)))
    assert [*(cache / "compiles").iterdir()] == []


def test_an_interrupt_ends_compiles_in_other_threads(tmp_path: Path) -> None:
    began, runs = time.monotonic(), []

    def interrupted() -> None:
        with compile_threads() as threads:
            log = tmp_path / "log"
            runs.append(threads.submit(run_process, ["sleep", "300"], {**os.environ}, log, 5))
            while not runs[0].running():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert runs[0].result().limit == "it was interrupted"
    assert time.monotonic() < began + PATIENCE_SECONDS


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_text_that_xla_refuses_is_an_answer() -> None:
    request = {**request_of(program(PROGRAM), CPU), "text": "HloModule x\n\nENTRY e {\n"}
    made = compiled(request, Means())
    assert (made.step, bool(made.error)) == ("parse", True)


@needs_jax
def test_interpreter_with_a_relative_path_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HLO_LENS_CACHE", "cache")
    python = os.path.relpath(sys.executable, tmp_path)
    (row,) = hlo_lens.what_if(before(), target="cpu", python=python).modules
    assert row.base.argument_bytes == BYTES, row.refusal


@pytest.mark.parametrize("name", ["none", "env/bin/none", "no-such-python"])
def test_interpreter_that_cannot_be_run_is_an_error(tmp_path: Path, name: str) -> None:
    python = str(tmp_path / name) if name == "none" else name
    run = CliRunner().invoke(main, ["what-if", "sample_dumps/cpu/wasteful", "--python", python])
    assert run.exit_code == 3
    assert f"{name}: cannot be run: No such file or directory" in run.stderr


def test_callbacks_and_custom_partitioning_are_refused() -> None:
    call = 'custom-call(y), custom_call_target="xla_ffi_python_cpu_callback"'
    dump = before(PROGRAM.replace("sine(y)", call))
    made = source_program(dump)
    assert made is not None
    assert "calls back into Python" in made.obstacle
    (row,) = hlo_lens.what_if(dump, target="cpu", donate="x").modules
    assert not any(change.applies for change in row.changes)
    assert "calls back into Python" in row.refusal
    with pytest.raises(AssertionError, match="calls back into Python"):
        assert_fits(dump, target="v5e:1x1")


def test_root_sharding_is_left_out_where_some_results_have_their_own() -> None:
    call = 'custom-call(x), custom_call_target="xla.sdy.FuncResultSharding"'
    text = (
        "HloModule m\n\nENTRY main {\n  x = f32[8]{0} parameter(0)\n"
        f"  y = f32[8]{{0}} {call}\n"
        "  ROOT t = (f32[8]{0}, f32[8]{0}) tuple(x, y), "
        "sharding={{devices=[2]<=[2]}, {replicated}}\n}\n"
    )
    assert "tuple(x, y)\n}" in request_of(program(text), CPU)["text"]
    every = text.replace("tuple(x, y)", "tuple(y, y)")
    assert request_of(program(every), CPU)["text"] == every


NEWER = """\
HloModule jit_f, entry_computation_layout={(f32[64,64]{1,0})->f32[64,64]{1,0}}

ENTRY main {
  x = f32[64,64]{1,0} parameter(0), sharding={mesh['d'=1], [{'d'}, {}]}
  t = (f32[64,64]{1,0}, (f32[64,64]{1,0}, f32[])) custom-call(x), custom_call_target="Sharding"
  ROOT z = f32[64,64]{1,0} add(t#0, t#1#0)
}
"""


def test_older_parsers_get_elements_by_instructions_and_devices_by_number() -> None:
    assert request_of(program(PROGRAM), CPU)["older_text"] == ""
    text = request_of(program(NEWER.replace("'d'=1", "'d'=2")), CPU)["older_text"]
    module = hlo_lens.parse_hlo(text)
    assert [one.opcode for one in module.entry.instructions[2:5]] == ["get-tuple-element"] * 3
    assert module.entry.instructions[0].attributes["sharding"] == "{devices=[2,1]<=[2]}"
    assert "#" not in text


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_text_of_a_newer_version_is_compiled_and_its_axes_keep_their_names() -> None:
    text = PROGRAM.replace("  y = ", "  t = (f32[64,64]{1,0}) tuple(x)\n  y = ")
    text = text.replace("dot(x, x)", "dot(t#0, x)").replace(
        "}\n\nENTRY", "}, num_partitions=2\n\nENTRY"
    )
    text = text.replace("parameter(0), ", "parameter(0), sharding={mesh['d'=2], [{}, {'d'}]}, ")
    (row,) = hlo_lens.what_if(before(text), target="cpu").modules
    assert row.base.argument_bytes == BYTES // 2, row.refusal
    assert set(row.base.wire_by_axis) == {"d"}


def test_header_becomes_options_of_the_compile() -> None:
    flags = "allow_spmd_sharding_propagation_to_output={true,false}, num_partitions=4"
    request = request_of(program(PROGRAM.replace("}}\n", f"}}}}, {flags}\n", 1)), CPU)
    assert (request["partitions"], request["uses_shardy"]) == (4, False)
    assert request["propagates_to_output"] == (True, False)
    assert request["propagates_to_parameters"] is None


@pytest.mark.parametrize(
    ("result", "places"), [("(f32[8]{0}, f32[8]{0:S(5)})", (1,)), ("f32[8,8]{1,0:S(5)}", (0,))]
)
def test_arrays_in_host_memory_are_those_of_the_entry_layout(
    result: str, places: tuple[int, ...]
) -> None:
    layout = f"(bf16[8,8]{{1,0:T(8,128)(2,1)}}, /*index=1*/f32[8]{{0:S(5)}}, f32[8]{{0}})->{result}"
    text = (
        "HloModule m, entry_computation_layout={LAYOUT}\n\nENTRY e {\n  x = f32[] parameter(0)\n}\n"
    )
    request = request_of(program(text.replace("LAYOUT", layout)), CPU)
    assert (request["host_parameters"], request["host_results"]) == ((1,), places)
    plain = request_of(program(text.replace("LAYOUT", layout.replace("S(5)", ""))), CPU)
    assert (plain["host_parameters"], plain["host_results"]) == ((), ())


def test_every_split_of_the_devices_is_a_mesh() -> None:
    meshes = '#sdy.mesh<["a"=2, "b"=2]>'
    header = f"num_partitions=4, frontend_attributes={{xla.sdy.meshes={{mesh = {meshes}}}}}"
    text = PROGRAM.replace("}}\n", f"}}}}, {header}\n", 1)
    assert mesh_splits(hlo_lens.parse_hlo(text)) == ("a=4,b=1", "a=2,b=2", "a=1,b=4")
    with pytest.raises(UsageError, match="this has 0"):
        mesh_splits(hlo_lens.parse_hlo(PROGRAM))


def test_flags_that_the_new_compile_lacks_are_those_of_the_dump() -> None:
    dump, again = (hlo_lens.ModuleDump(name="m", kind=before().kind) for _ in "ab")
    shared = 'xla_dump_to: "DIR"\nxla_a: false\nxla_b: X\nxla_b: Y\n'
    dump.settings = {"debug_options": already_read(f'{shared}xla_tpu_c: 5\nxla_d: "x"\n')}
    again.settings = {"debug_options": already_read(shared.replace("DIR", "OTHER"))}
    assert dumped_flags(dump, again) == {"xla_tpu_c": "5", "xla_d": "x"}


def test_missing_package_is_named_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{COMPILING}.toolchain_of", lambda _: "jaxlib 1")
    monkeypatch.setattr(f"{COMPILING}.run_process", None)
    for target, package in (("v5e:2x4", "libtpu"), ("h100_sxm", "the CUDA plugin")):
        with pytest.raises(MissingPackageError, match=f"{package} is not installed"):
            hlo_lens.what_if(before(), target=target)


def test_change_that_does_not_apply_is_known_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{COMPILING}.toolchain_of", lambda _: "jaxlib 1")
    monkeypatch.setattr(f"{COMPILING}.run_process", None)
    made = hlo_lens.what_if("sample_dumps/cpu/wasteful", donate="nothing")
    assert made.is_undecided
    assert "'nothing'" in (made.modules[0].changes[0].why_not or "")


def test_memory_is_known_once_the_options_are_written_again(tmp_path: Path) -> None:
    def write(end: str, time: int) -> None:
        (tmp_path / f"module_0001.jit_f.{end}").write_text("text")
        os.utime(tmp_path / f"module_0001.jit_f.{end}", (time, time))

    write("debug_options", 1)
    write("after_optimizations.txt", 2)
    write("after_optimizations-buffer-assignment.txt", 2)
    assert not written(tmp_path, "cpu")
    write("debug_options", 3)
    assert len(written(tmp_path, "cpu")) == 2
    assert not written(tmp_path, "tpu")  # which may try again with less memory
    write("after_optimizations_after_buffer_assignment.txt", 3)
    assert len(written(tmp_path, "tpu")) == 3
    write("after_optimizations-live-range.txt", 4)
    assert not written(tmp_path, "tpu")


def test_compile_ends_once_memory_is_known(cache: Path, compiler: str, tmp_path: Path) -> None:
    request = request_of(program(PROGRAM), CPU)
    early, again = (compiled(request, Means(python=compiler)) for _ in range(2))
    assert (early.refusal, early.is_full, early.memory_analysis) == (
        "the new dump has no optimized text",
        False,
        {},
    )
    assert (early.versions, again.is_cached) == ({"jax": "1"}, True)
    (tmp_path / "short").touch()
    whole = compiled(request, Means(python=compiler, is_full=True))
    assert (whole.is_cached, whole.memory_analysis) == (False, {"temp_size_in_bytes": 8})
    assert compiled(request, Means()).is_full
    assert [one.name for one in (cache / "compiles").iterdir()] == [whole.dump.parent.name]


OUT_OF_MEMORY = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    "required for HLO temporaries (25.74G) exceeds available HBM (15.75G). HLO module: jit_f. "
    "See https://openxla.org/xla/errors/error_1000 for more details.\n"
)


def test_message_of_a_program_that_does_not_fit_is_read() -> None:
    error = OUT_OF_MEMORY
    facts, needed = needed_memory(Compilation(dump=Path(), step="compile", error=error))
    assert dict(facts) == {"hbm HLO temporaries": "25.74G", "available": "15.75G"}
    assert needed is not None
    assert 25.74 <= needed / (1 << 30) < 25.75
    assert needed_memory(Compilation(dump=Path(), step="parse", error=error)) == ((), None)


@pytest.mark.parametrize(("needed", "is_known"), [("152.80M", True), ("140.80M", False)])
def test_program_that_does_not_fit_has_the_figures_of_its_dump(needed: str, is_known: bool) -> None:
    folder = Path("sample_dumps/tpu/tp_mlp")
    error = OUT_OF_MEMORY.replace("25.74G", needed)

    class Refusing(Compiler):
        def compiled(self, request: CompileRequest, versions: str = "") -> Compilation:
            return Compilation(dump=folder, step="compile", error=error)

    (module,) = hlo_lens.load(folder).modules
    program = source_program(module)
    assert program is not None
    made = compiled_again(program, parse_target("v5e:2x4"), {}, Refusing(Means()))
    assert made.needed_bytes is not None
    assert (made.module is not None, made.refusal == "") == (is_known, is_known)


def test_worker_leaves_out_attributes_and_fields() -> None:
    text = "a = s32[] sort(b), is_stable=true, to_apply=c\nd = s32[] e(f), x={{1},{2,3}}, y=1\n"
    assert ", is_stable" not in without_attribute(text, "is_stable")
    assert "e(f), y=1" in without_attribute(text, "x")
    config = gpu_config("h100_sxm")
    without = without_field(without_field(config, "scalar_unit_description"), "clock_rate_ghz")
    assert "scalar_unit_description" in config
    assert "scalar_unit_description" not in without
    assert without.count("{") == without.count("}")


def test_tables_of_stack_frames_are_left_out_for_old_parsers() -> None:
    text = (
        'HloModule m\n\nFileNames\n1 "a.py"\n\nStackFrames\n1 {file_location_id=1}\n\n\n'
        "%f (x: f32[]) -> f32[] {\n  ROOT %x = f32[] parameter(0), "
        'metadata={op_name="x" stack_frame_id=1}\n}\n'
    )
    without = without_frames(text)
    assert without.startswith("HloModule m\n\n%f (x")
    assert 'metadata={op_name="x"}' in without


def test_ragged_dots_are_given_to_compilers_in_the_dialect_of_jax() -> None:
    text = (
        '%1 = "mhlo.ragged_dot"(%a, %b, %c) <{precision_config = [#mhlo<precision DEFAULT>], '
        "ragged_dot_dimension_numbers = #mhlo.ragged_dot<dot_dimension_numbers = "
        "#mhlo.dot<lhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0]>}>\n"
        '%2 = "mhlo.other"(%1)'
    )
    assert with_chlo(text).splitlines() == [
        '%1 = "chlo.ragged_dot"(%a, %b, %c) <{precision_config = [#chlo<precision DEFAULT>], '
        "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], "
        "lhs_ragged_dimensions = [0]>}>",
        '%2 = "mhlo.other"(%1)',
    ]


def test_compiles_used_least_recently_are_deleted(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv("HLO_LENS_CACHE_SIZE", "2.5KiB")
    for place, name in enumerate(("used", "old", "new")):
        (cache / "compiles" / name).mkdir(parents=True)
        (cache / "compiles" / name / "outcome.json").write_text("x" * 1024)
        os.utime(cache / "compiles" / name / "outcome.json", (place, place))
    (cache / "compiles" / "new-1").mkdir()  # of another process
    os.utime(cache / "compiles" / "used" / "outcome.json")
    bound_compiles(cache / "compiles" / "new")
    assert sorted(one.name for one in (cache / "compiles").iterdir()) == ["new", "new-1", "used"]
    monkeypatch.setenv("HLO_LENS_CACHE_SIZE", "1")
    bound_compiles(cache / "compiles" / "new")
    assert sorted(one.name for one in (cache / "compiles").iterdir()) == ["new", "new-1"]
    assert (cache_state().compiles_bytes, cache_state().most_bytes) == (1024, 1)
