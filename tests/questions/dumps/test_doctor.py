"""``hlo-lens doctor``: this machine, flags, a dump, and a folder with nothing to read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.questions.dumps.doctor import check_debug_options, check_variables
from tests.corpus import ROOT, SAMPLES
from tests.load.test_archive import PACKED
from tests.load.test_load import STAGES, hlo, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Result:
    """Run ``hlo-lens doctor``."""
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "XLA_FLAGS": None, **(env or {})})
    return runner.invoke(main, ["doctor", *map(str, arguments)], catch_exceptions=False)


def findings(path: Path) -> list[tuple[str, str]]:
    """Return level and text of the findings on a folder."""
    data = json.loads(run(path, "-f", "json").stdout)
    return [(one["level"], one["what"]) for one in data["findings"]]


def test_machine_has_versions_flags_and_recipes() -> None:
    result = run(env={"XLA_FLAGS": "--xla_dump_hlo_as_proto --xla_dump_to=/tmp/d"})
    assert result.exit_code == 0
    assert f"hlo-lens  {hlo_lens.__version__}" in result.stdout
    assert "add --xla_dump_hlo_as_text" in result.stdout
    assert "PyTorch/XLA" in result.stdout
    data = json.loads(run("-f", "json").stdout)
    assert set(data["versions"]) >= {"hlo-lens", "Python", "system", "jax", "jaxlib"}
    assert [one["level"] for one in data["variables"]] == ["note"]


def test_whole_dump_is_fine() -> None:
    path = SAMPLES / "tpu" / "tp_mlp"
    assert findings(path) == [("fine", "every module has the texts that hlo-lens reads")]
    data = json.loads(run(path, "-f", "json").stdout)
    texts = {row["text"]: (row["modules"], row["of"]) for row in data["texts"]}
    assert texts["live-range"] == (1, 1)
    assert texts["texts of passes"] == (0, 1)


def test_missing_texts_are_reported(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **STAGES,
            "module_0001.jit_g.before_optimizations.txt": hlo("jit_g"),
            "module_0001.jit_h.before_optimizations.txt": hlo("jit_h"),
            "module_0000.jit_f.debug_options": "xla_dump_max_hlo_modules: 2\n",
            "x.tar": b"PK\3\4",
        },
    )
    texts = " | ".join(what for _, what in findings(tmp_path))
    assert "2 of 3 modules have no final text, such as module_0001.jit_g" in texts
    assert "1 of 1 modules have no buffer assignment" in texts
    assert "made with --xla_dump_max_hlo_modules=2: XLA stops dumping" in texts
    assert "1 archives inside cannot be read" in texts


@pytest.mark.parametrize("pack", ["zip", "tar", "tar.gz"])
def test_options_of_a_dump_in_an_archive_are_reported(tmp_path: Path, pack: str) -> None:
    options = {"d/module_0000.jit_f.debug_options": "xla_dump_max_hlo_modules: 2\n"}
    texts = {f"d/{name}": text for name, text in STAGES.items()}
    (tmp_path / "a").write_bytes(PACKED[pack]({**texts, **options}))
    found = " | ".join(what for _, what in findings(tmp_path / "a"))
    assert "made with --xla_dump_max_hlo_modules=2: XLA stops dumping" in found


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({}, "XLA reads XLA_FLAGS once"),
        ({"module_0000.jit_f/module.mlir": "module @jit_f {\n}\n"}, "no module matched"),
        ({"module_0000.jit_f.after_optimizations.pb": b"\0\1" * 99}, "binary files: protos"),
        ({"a.zip": b"PK\3\4"}, "it holds 1 archives that cannot be read"),
    ],
)
def test_folder_without_dumps_has_reasons(
    tmp_path: Path, files: Mapping[str, str | bytes], what: str
) -> None:
    result = run(write(tmp_path, files))
    assert result.exit_code == 3
    assert any(what in text for _, text in findings(tmp_path)), findings(tmp_path)
    assert "nothing to read" in result.stderr
    assert "no run at all" in result.stdout


def test_missing_path_is_reported(tmp_path: Path) -> None:
    assert findings(tmp_path / "none")[0] == (
        "error",
        "it does not exist; XLA makes it at the first compile",
    )
    (tmp_path / "a.txt").write_text("words")
    assert findings(tmp_path / "a.txt")[0][0] == "error"


def test_jax_is_not_imported() -> None:
    code = (
        "import sys\nfrom hlo_lens.cli import main\n"
        "try:\n    main(['doctor'])\nfinally:\n"
        "    heavy = {'jax', 'jaxlib', 'lark', 'pandas'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (None, "note"),
        ("--xla_dump_to=/tmp/d --xla_dump_hlo_as_text", "fine"),
        ("--xla_dump_to=/tmp/d --xla_dump_hlo_as_proto", "error"),
        ("--xla_force_host_platform_device_count=8", "note"),
    ],
)
def test_flags_are_printed_or_missing_ones_named(flags: str | None, level: str) -> None:
    (found,) = check_variables({} if flags is None else {"XLA_FLAGS": flags})
    assert found.level == level
    assert (found.remedy == "") == (level == "fine")


def test_losses_by_the_options_of_a_dump_are_found() -> None:
    text = 'xla_dump_to: "/tmp/d"\nxla_cpu_x: true\nxla_dump_max_hlo_modules: 3\n'
    (found,) = check_debug_options(text)
    assert found.level == "warning"
    assert found.what.startswith("made with --xla_dump_max_hlo_modules=3: XLA stops dumping")
    assert check_debug_options("xla_cpu_x: true\n") == []
