"""Virtual environments with other versions of jax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from hlo_lens.questions.what_if.environments import environment_python, requirements
from hlo_lens.text.errors import MissingPackageError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_packages_depend_on_the_backend() -> None:
    assert requirements("jax==0.9.2", "cpu") == ("jax==0.9.2", "jaxlib==0.9.2")
    assert requirements("jax==0.9.2", "tpu")[2:] == ("jax[tpu]==0.9.2",)
    assert "jax-cuda12-pjrt==0.9.2" in requirements("jax==0.9.2 jaxlib==0.9.1", "gpu")


@pytest.mark.parametrize("text", ["0.9.2", "numpy==2", "libtpu==0.0.51", "jax==0.9.2; rm x"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--with"):
        requirements(text, "cpu")


def test_usage_is_checked_before_the_first_compile() -> None:
    run = CliRunner().invoke(main, ["what-if", "sample_dumps/cpu/wasteful", "--with", "latest"])
    assert run.exit_code == 2


def test_index_out_of_reach_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HLO_LENS_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(MissingPackageError, match="cannot be reached"):
        environment_python("jax==0.9.2", "cpu")
    assert not any((tmp_path / "environments").iterdir())
