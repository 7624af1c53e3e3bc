"""Output of commands that is cut short, refused or replaces a file; the progress bar."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_lens.cli import output as progress

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_dumps/cpu/tp_mlp"
FULL = Path("/dev/full")


def _run(*arguments: str, out: int | None = None, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "hlo_lens", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL if out is None else out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("report", str(SAMPLE)), ("--help",), ("report", "--help")])
def test_a_full_disk_is_noticed(arguments: tuple[str, ...], unbuffered: str) -> None:
    with FULL.open("wb") as out:
        code, err = _run(*arguments, out=out.fileno(), PYTHONUNBUFFERED=unbuffered)
    assert (code, err) == (5, "hlo-lens: error: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_limit_of_file_size_is_noticed_and_the_old_file_stays(
    tmp_path: Path, unbuffered: str
) -> None:
    resource = pytest.importorskip("resource")
    target = tmp_path / "out.json"
    target.write_text("old")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512));"
        "from hlo_lens.cli import main; main(sys.argv[1:])"
    )
    assert resource.RLIMIT_FSIZE is not None
    for destination in (["-o", str(target)], []):
        with (tmp_path / "stdout").open("wb") as out:
            done = subprocess.run(
                [sys.executable, "-c", code, "report", str(SAMPLE), *destination],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            )
        assert done.returncode == 5
        assert "File too large" in done.stderr
    assert target.read_text() == "old"


@pytest.mark.parametrize("option", ["-o", "--plot"])
def test_a_file_that_is_read_is_not_written(tmp_path: Path, option: str) -> None:
    dump = tmp_path / "module_0000.jit_f.cpu_after_optimizations.txt"
    text = "HloModule f\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n"
    dump.write_text(text)
    for given in (dump, tmp_path):
        code, err = _run("memory", str(given), option, str(dump))
        assert code == 2
        assert "is an input of this command" in err
    assert dump.read_text() == text


CLOSED = "hlo-lens: error: standard output is closed; write to a file with -o FILE\n"


def _closed(descriptors: tuple[int, ...], *arguments: str) -> tuple[int, str, str]:
    """Run a command some of whose standard streams are closed, as with ``<&-``."""
    code = f"import os, sys\nfor n in {descriptors}: os.close(n)\n"
    code += "os.execv(sys.executable, sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, sys.executable, "-m", "hlo_lens", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [("report", str(SAMPLE)), ("help",), ("help", "lint")])
def test_closed_standard_output_is_an_output_error(arguments: tuple[str, ...]) -> None:
    assert _closed((1,), *arguments) == (5, "", CLOSED)


def test_a_file_is_written_while_standard_output_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    assert _closed((1,), "report", str(SAMPLE), "-o", str(file)) == (0, "", "")
    assert file.read_text() == _closed((), "report", str(SAMPLE))[1]


@pytest.mark.parametrize("descriptors", [(0,), (2,), (0, 2)])
def test_closed_input_and_error_streams_change_no_output(descriptors: tuple[int, ...]) -> None:
    assert _closed(descriptors, "report", str(SAMPLE)) == _closed((), "report", str(SAMPLE))


@pytest.mark.parametrize("descriptors", [(2,), (0, 2), (0, 1, 2)])
def test_errors_without_a_stream_for_messages_keep_their_exit_code(
    descriptors: tuple[int, ...], tmp_path: Path
) -> None:
    assert _closed(descriptors, "report", str(tmp_path / "missing")) == (3, "", "")
    assert _closed(descriptors, "report") == (2, "", "")


def test_closed_standard_input_that_is_asked_for_is_unreadable() -> None:
    message = "hlo-lens: error: standard input is closed; name a file\n"
    assert _closed((0,), "report", "-") == (3, "", message)
    assert _closed((0, 2), "report", "-") == (3, "", "")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_bar_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress.progress_bar("reading") as report:
        assert report is None


def test_long_work_shows_a_bar_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress_bar("reading") as report:
        assert report is not None
        report(1, 2)
        report(2, 2)
    assert "reading" in terminal.getvalue()
