"""The plugin in a project: the fixture, kept dumps, imports at start."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import hlo_lens

PLUGIN = ("-p", "no:hlo_lens", "-p", "hlo_lens.pytest_plugin", "-p", "no:cacheprovider")
needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="jax is not installed"
)


@needs_jax
def test_the_fixture_compiles_and_a_failure_says_where_the_dump_is(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import jax, jax.numpy as jnp
        from hlo_lens.pytest_plugin import assert_memory_below, assert_no_collectives

        def step(params, x):
            return params["w"] @ x

        ARGS = {"w": jax.ShapeDtypeStruct((64, 64), jnp.float32)}, jnp.ones((64, 4))

        def test_good(hlo):
            m = hlo(step, *ARGS)
            assert m.framework.arguments[0].name == "params['w']"
            assert_no_collectives(m)
            assert_memory_below(hlo(jax.jit(step), *ARGS), "1MiB")

        def test_bad(hlo):
            assert_memory_below(hlo(step, *ARGS), "1KiB")
        """
    )
    result = pytester.runpytest(*PLUGIN)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            '*assert_memory_below(hlo(step, *ARGS), "1KiB")',
            "E*AssertionError: jit_step takes *KiB of memory (total), limit 1.0KiB, *",
            "E*16.0KiB*argument*params*",
            "*- hlo-lens -*",
            "the compiled programs are kept; look at them with: hlo-lens report *test_bad*",
        ]
    )
    result.stdout.no_fnmatch_line("*raise AssertionError*")
    line = next(line for line in result.outlines if line.startswith("the compiled programs"))
    folder = line.partition("hlo-lens report ")[2]
    (dump,) = hlo_lens.load(folder).modules
    assert dump.title == "jit_step"
    assert dump.before is not None
    assert dump.stage == "cpu_after_optimizations"
    assert [p.name for p in (pytester.path / ".hlo-lens").iterdir() if p.is_dir()] == [
        "test_the_fixture_compiles_and_a_failure_says_where_the_dump_is.py_test_bad"
    ]


def test_any_dump_can_be_kept(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import hlo_lens

        def test_bad(hlo):
            hlo.add(hlo_lens.load("m.txt").modules[0])
            assert False
        """
    )
    (pytester.path / "m.txt").write_text(
        "HloModule m\n\nENTRY e { ROOT p = f32[8] parameter(0) }\n"
    )
    result = pytester.runpytest(*PLUGIN, "--hlo-lens-keep", "kept")
    result.assert_outcomes(failed=1)
    (file,) = (pytester.path / "kept").rglob("*.txt")
    assert "parameter(0)" in file.read_text()
    page = file.parent / "report.html"
    assert 'id="hlo-lens-data"' in page.read_text()
    result.stdout.fnmatch_lines(["or open *report.html"])


def test_without_jax_the_fixture_says_what_to_install(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it(hlo, monkeypatch):
            monkeypatch.setitem(sys.modules, "jax", None)
            hlo(lambda x: x, 1.0)
        """
    )
    result = pytester.runpytest(*PLUGIN)
    result.stdout.fnmatch_lines(["*MissingPackageError: jax is not installed: pip install*"])


def test_nothing_is_imported_before_a_test_asks() -> None:
    code = (
        "import sys, pytest, hlo_lens.pytest_plugin\n"
        "loaded = [m for m in sys.modules if m.startswith('hlo_lens')]\n"
        "heavy = set('jax pandas networkx lark numpy rich click google.protobuf'.split())\n"
        "print(sorted(loaded), sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    files = ["", ".pytest_plugin", ".text", ".text.version"]
    assert out.strip() == f"{[f'hlo_lens{file}' for file in files]} []"


def test_load_is_a_function_whoever_imports_first() -> None:
    for first in ("hlo_lens", "hlo_lens.load", "hlo_lens.load.folder", "hlo_lens.cli"):
        code = f"import {first}, hlo_lens; hlo_lens.load('no such file')"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "UnreadableError: no such file: no such file or folder" in done.stderr
