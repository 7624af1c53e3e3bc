"""Run of a user's script by an environment with other versions of jax, its dump in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hlo_lens.questions.what_if.process.process import Compilation, Limits, last_words, wait


def scripted(command: Sequence[str], *, python: str, folder: Path, limits: Limits) -> Compilation:
    """Run a command that compiles programs and return its dump.

    ``python`` of the command is that of the environment; ``XLA_FLAGS`` of the user are kept.

    Args:
        command: The command and its arguments.
        python: Interpreter of the environment.
        folder: Empty folder for the dump and the log.
        limits: Limits of the run.
    """
    dump, log = folder / "dump", folder / "log.txt"
    dump.mkdir(parents=True)
    flags = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"
    home = str(Path(python).parent)
    env = {
        **os.environ,
        "PATH": os.pathsep.join([home, os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(Path(home).parent),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
    }
    env.pop("PYTHONHOME", None)
    program = shutil.which(command[0], path=env["PATH"]) or command[0]
    began = time.monotonic()
    try:
        with log.open("wb") as out:
            process = subprocess.Popen(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
            reason = wait(process, limits)
    except OSError as error:
        return Compilation(dump=dump, versions={}, step="import", error=f"{program}: {error}")
    seconds = round(time.monotonic() - began, 3)
    problem = reason
    if not problem and process.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        problem = last_words(text) or f"exit code {process.returncode}"
    if not problem and not any(dump.iterdir()):
        problem = "it wrote no dump; it may have found its programs in the compilation cache of jax"
    step = "command" if problem else ""
    return Compilation(dump=dump, versions={}, seconds=seconds, step=step, error=problem)
