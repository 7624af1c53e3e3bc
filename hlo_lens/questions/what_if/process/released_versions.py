"""Versions of a package that the package index has, and those of environments in the cache.

The index is that of pip: ``PIP_INDEX_URL``, ``pip config``, else PyPI, read as JSON (PEP 691).
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from functools import cache

from hlo_lens.questions.what_if.process.cache import ENVIRONMENTS, cache_folder

_PYPI = "https://pypi.org/simple"
_TYPE = "application/vnd.pypi.simple.v1+json"
_SECONDS = 30
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_MOST_BYTES = 1 << 26


class NoIndexError(Exception):
    """The package index cannot be reached, or has no such package."""


def version_key(version: str) -> tuple[int, ...]:
    """Return the key that orders releases: ``0.9.0.1`` is after ``0.9.0``, ``0.10`` after both."""
    return tuple(int(word) for word in re.findall(r"\d+", version))


def released_versions(package: str) -> tuple[str, ...]:
    """Return the releases of a package that have wheels and are not yanked, the oldest first.

    Raises:
        NoIndexError: If the index cannot be reached.
    """
    files = _listing(package)
    found = set()
    for file in files:
        name = str(file.get("filename", ""))
        parts = name.removesuffix(".whl").split("-")
        if name.endswith(".whl") and not file.get("yanked") and _RELEASE.fullmatch(parts[1]):
            found.add(parts[1])
    return tuple(sorted(found, key=version_key))


@cache
def _listing(package: str) -> tuple[dict[str, object], ...]:
    """Return the files of a package."""
    request = urllib.request.Request(
        f"{_index_url().rstrip('/')}/{package}/", headers={"Accept": _TYPE}
    )
    if not request.full_url.startswith(("https:", "http:")):
        raise NoIndexError(f"the package index {request.full_url} is not on the network")
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:
            data = json.loads(answer.read(_MOST_BYTES))
        return tuple(dict(one) for one in data["files"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NoIndexError(f"the package index cannot be read: {error}") from error


def _index_url() -> str:
    """Return the URL of pip's index."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return _PYPI
    return run.stdout.strip() or _PYPI


def cached_versions(package: str, backend: str) -> tuple[str, ...]:
    """Return the versions of a package in finished environments for a backend, the oldest first."""
    found = set()
    for file in cache_folder(ENVIRONMENTS).glob(f"*_{backend}/complete"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, version = line.strip().partition("==")
            if name == package and _RELEASE.fullmatch(version):
                found.add(version)
    return tuple(sorted(found, key=version_key))
