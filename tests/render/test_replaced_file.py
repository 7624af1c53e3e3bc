"""Files that are replaced only when all is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_lens.render.replaced_file import replaced_file
from hlo_lens.text.errors import OutputError


def test_the_file_has_its_old_content_until_all_is_written(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with replaced_file(target) as new:
        new.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")

    def write_half() -> None:
        with replaced_file(target) as new:
            new.write_text("half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_mode_and_link_of_the_old_file_stay(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    with replaced_file(link) as new:
        new.write_text("new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_devices_are_written_in_place() -> None:
    with replaced_file("/dev/null") as new:
        assert new == Path("/dev/null")


@pytest.mark.parametrize("name", ["no/such/folder", "."])
def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(OutputError, match="cannot be written"),
        replaced_file(tmp_path / name) as new,
    ):
        new.write_text("x")
