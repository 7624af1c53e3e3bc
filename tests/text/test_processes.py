"""A second process: its result, its death, and where there is none."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hlo_lens.text.processes import SecondProcess, is_fork_safe, start_second
from tests.timing import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="fork is used on Linux only"),
    pytest.mark.filterwarnings("ignore:os.fork"),  # of JAX, if another test has imported it
]


def children() -> int:
    """Return how many child processes there are, ended ones included."""
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return len(listed.read_text().split())


def test_the_result_is_that_of_the_function() -> None:
    before = children()
    process = SecondProcess(lambda: ["x" * 1_000_000, os.getpid()])
    found = process.result()
    assert found is not None
    assert found[0] == "x" * 1_000_000
    assert found[1] != os.getpid()
    assert process.result() is None
    assert children() == before


@pytest.mark.parametrize(
    "function",
    [lambda: 1 / 0, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: lambda: 0, sys.exit],
    ids=["error", "killed", "cannot be pickled", "exit"],
)
def test_a_function_that_fails_has_no_result(
    function: object, capfd: pytest.CaptureFixture[str]
) -> None:
    before = children()
    assert SecondProcess(function).result() is None  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")
    assert children() == before


def test_a_process_that_nobody_waits_for_is_ended() -> None:
    before = children()
    process = SecondProcess(lambda: time.sleep(PATIENCE_SECONDS))
    assert children() == before + 1
    process.end()
    process.end()
    assert children() == before


@pytest.mark.parametrize("work", [f"time.sleep({2 * PATIENCE_SECONDS})", "bytes(1 << 26)"])
def test_a_process_ends_if_the_first_is_killed(work: str) -> None:
    code = (
        "import os, signal, time\n"
        "from hlo_lens.text.processes import SecondProcess\n"
        f"process = SecondProcess(lambda: {work})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    reading, writing = os.pipe()
    try:
        subprocess.run([sys.executable, "-c", code], pass_fds=[writing], check=False)
        os.close(writing)
        assert select.select([reading], [], [], PATIENCE_SECONDS)[0]  # no process has it open
    finally:
        os.close(reading)


@pytest.mark.parametrize("closed", [[0], [0, 1], [1, 2], [0, 1, 2]])
def test_the_result_is_sent_without_standard_streams(closed: list[int], tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from hlo_lens.text.processes import SecondProcess\n"
        f"for stream in {closed}: os.close(stream)\n"
        "found = SecondProcess(lambda: 7).result()\n"
        f"open({str(tmp_path / 'found')!r}, 'w').write(str(found))\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (tmp_path / "found").read_text() == "7"


def test_there_is_none_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", fail)
    with pytest.raises(BlockingIOError):
        SecondProcess(lambda: 1)
    assert start_second(lambda: 1) is None


def test_a_second_process_starts_no_third_one() -> None:
    process = SecondProcess(lambda: start_second(lambda: 1) is None)
    assert start_second(lambda: 1) is None
    assert process.result() is True
    again = start_second(lambda: 1)
    assert again is None or again.result() == 1


def test_fork_is_not_safe_with_a_second_thread() -> None:
    code = (
        "import threading\n"
        "from hlo_lens.text.processes import is_fork_safe\n"
        "alone = is_fork_safe()\n"
        "event = threading.Event()\n"
        "thread = threading.Thread(target=event.wait)\n"
        "thread.start()\n"
        "print(alone, is_fork_safe())\n"
        "event.set()\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]


def test_fork_is_not_safe_with_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib", pytest)
    assert not is_fork_safe()
