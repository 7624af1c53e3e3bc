"""Functions applied to many modules by several processes, with errors and deaths of some."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hlo_lens import HloLensError, load
from hlo_lens.load.programs import map_modules
from hlo_lens.questions.dumps.listing import facts_of
from tests.corpus import ROOT
from tests.load.test_load import hlo, write
from tests.timing import PATIENCE_SECONDS

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


def many(folder: Path, count: int = 12) -> tuple[ModuleDump, ...]:
    """Return modules, each with one more parameter than the one before."""
    for k in range(count):
        parameters = "".join(f"  p{n} = f32[8] parameter({n + 1})\n" for n in range(k))
        name = f"module_{k:04}.jit_f{k}.before_optimizations.txt"
        write(folder, {name: hlo(f"jit_f{k}").replace("  p = ", f"{parameters}  p = ")})
    return load(folder).modules


def size(module: ModuleDump) -> int:
    assert module.hlo is not None
    return module.hlo.instruction_count


def size_or_death(module: ModuleDump) -> int:
    if module.number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return size(module)


def process(module: ModuleDump) -> int:
    return os.getpid()


def process_among_three(module: ModuleDump) -> int:
    """Return the number of this process once three processes are at work."""
    folder = Path(module.files[0]).parent / "processes"
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    end = time.monotonic() + PATIENCE_SECONDS
    while len(list(folder.iterdir())) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    return os.getpid()


def refuse(module: ModuleDump) -> int:
    message = f"no {module.name}"
    raise HloLensError(message)


@pytest.mark.parametrize("processes", [1, 3])
def test_results_are_in_the_order_of_the_modules(tmp_path: Path, processes: int) -> None:
    seen: list[tuple[int, int]] = []
    found = map_modules(
        size, many(tmp_path), processes=processes, progress=lambda *place: seen.append(place)
    )
    assert found == list(range(2, 14))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {count for _, count in seen} == {12}


def test_several_processes_work(tmp_path: Path) -> None:
    assert len(set(map_modules(process_among_three, many(tmp_path), processes=3))) == 3


def test_little_work_stays_in_this_process(tmp_path: Path) -> None:
    assert set(map_modules(process, many(tmp_path, 3))) == {os.getpid()}


def test_no_modules_are_no_work() -> None:
    assert map_modules(size, ()) == []


def test_death_of_a_process_loses_no_other_result(tmp_path: Path) -> None:
    found = map_modules(size_or_death, many(tmp_path), processes=2)
    assert found == [None if k == 5 else k + 2 for k in range(12)]


@pytest.mark.parametrize("processes", [1, 2])
def test_errors_are_raised_here(tmp_path: Path, processes: int) -> None:
    with pytest.raises(HloLensError, match="no module_0"):
        map_modules(refuse, many(tmp_path), processes=processes)


def test_interruption_ends_all_processes(tmp_path: Path) -> None:
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_modules(size, many(tmp_path), processes=2, progress=stop)
    assert not multiprocessing.active_children()


def test_bad_module_hides_no_other(tmp_path: Path) -> None:
    modules = many(tmp_path)
    Path(modules[3].files[0]).unlink()
    Path(modules[4].files[0]).write_text("HloModule jit_x\n\nENTRY e {\n  @@@\n")
    Path(modules[5].files[0]).write_text("words")
    facts = facts_of(modules, processes=2)
    assert [one.instructions for one in facts] == [
        {3: None, 4: 0, 5: None}.get(k, k + 2) for k in range(12)
    ]
    assert [bool(one.problem or one.gaps) for one in facts] == [k in (3, 4, 5) for k in range(12)]
    assert "no such file" in (facts[3].problem or "")


def test_facts_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    modules = many(tmp_path)
    assert facts_of(modules, processes=2) == facts_of(load(tmp_path).modules, processes=1)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_control_c_ends_all_processes_silently(tmp_path: Path) -> None:
    many(tmp_path, 20)
    reading, writing = os.pipe()
    code = (
        "import os, signal, time\n"
        # ignored where the tests were started in the background of a script
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import hlo_lens.questions.dumps.listing as facts\n"
        "def slow(*arguments):\n"
        f"    os.write({writing}, b'.')\n"
        f"    time.sleep({PATIENCE_SECONDS})\n"
        "facts._figures = slow\n"
        "from hlo_lens.cli import main\n"
        f"main(['ls', {str(tmp_path)!r}])\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(writing,),
    )
    os.close(writing)
    for _ in range(min(20, len(os.sched_getaffinity(0)))):
        assert os.read(reading, 1) == b"."  # a process has begun to work
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=PATIENCE_SECONDS / 2)
    os.close(reading)  # open until now: a process that writes to a closed pipe ends by itself
    assert (run.returncode, out, err) == (130, b"", b"hlo-lens: interrupted\n")
