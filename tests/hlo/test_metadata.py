"""Origin of an instruction: metadata and stack frames."""

from __future__ import annotations

from hlo_lens.hlo.metadata import (
    FileLocation,
    SourceLocation,
    StackFrame,
    StackFrames,
    file_locations,
    stack_frames,
)
from tests.hlo_texts import E3, E4, one, read


def test_metadata_of_every_year_is_parsed() -> None:
    metadata = one(
        'r = f32[8] add(p, q), metadata={op_type="add" op_name="jit(f)/add" '
        'source_file="/a/b.py" source_line=7 source_end_line=8 source_column=3 '
        'source_end_column=9 profile_type={1,2} deduplicated_name="d" preserve_layout=true '
        'scheduling_name="s" stack_frame_id=2}'
    ).metadata
    assert metadata is not None
    assert (metadata.op_type, metadata.op_name) == ("add", "jit(f)/add")
    assert (metadata.source_file, metadata.source_line) == ("/a/b.py", 7)
    assert (metadata.source_end_line, metadata.source_column, metadata.source_end_column) == (
        8,
        3,
        9,
    )
    assert (metadata.stack_frame_id, metadata.deduplicated_name) == (2, "d")
    assert metadata.scheduling_name == "s"
    assert metadata.other == {"profile_type": "{1,2}", "preserve_layout": "true"}


def test_metadata_is_none_if_not_printed() -> None:
    assert one("r = f32[8] add(p, q)").metadata is None
    metadata = one("r = f32[8] add(p, q), metadata={}").metadata
    assert metadata is not None
    assert (metadata.op_name, metadata.source_line, metadata.stack_frame_id) == (None, None, None)


def test_source_may_be_in_the_metadata() -> None:
    root = read(E3).entry.root
    assert root is not None
    assert root.source_location == SourceLocation(file="/home/me/h.py", line=7, column=4)
    assert str(root.source_location) == "/home/me/h.py:7"


def test_source_may_be_in_the_stack_frames() -> None:
    root = read(E4).entry.root
    assert root is not None
    assert root.source_location == SourceLocation(
        file="/home/me/k.py", line=9, function="layer.<locals>.step", column=11
    )


def test_parent_of_a_frame_is_printed_plus_one() -> None:
    frames = read(E4).stack_frames
    assert frames.frames == (
        StackFrame(file_location_id=1, parent_frame_id=0),
        StackFrame(file_location_id=2, parent_frame_id=1),
    )
    assert [place.line for place in frames.stack(2)] == [9, 30]
    assert [place.line for place in frames.stack(1)] == [30]


def test_tables_are_read_whole() -> None:
    frames = read(E4).stack_frames
    assert frames.file_names == ("/home/me/k.py",)
    assert frames.function_names == ("main", "layer.<locals>.step")
    assert frames.file_locations[1] == FileLocation(
        file_name_id=1, function_name_id=2, line=9, end_line=11, column=11, end_column=40
    )


def test_unknown_frame_has_no_place() -> None:
    frames = read(E4).stack_frames
    assert frames.location(0) is None
    assert frames.location(3) is None
    assert frames.stack(3) == ()
    root = read(E4.replace("stack_frame_id=2", "stack_frame_id=9")).entry.root
    assert root is not None
    assert root.source_location is None


def test_frames_in_a_cycle_are_followed_once() -> None:
    frames = read(E4.replace("parent_frame_id=1}", "parent_frame_id=3}")).stack_frames
    assert [place.line for place in frames.stack(2)] == [9, 30]


def test_tables_may_have_commas_between_fields() -> None:
    text = E4.replace("file_location_id=2 parent", "file_location_id=2, parent")
    assert read(text).stack_frames == read(E4).stack_frames


def _frames(*places: str) -> StackFrames:
    """Return tables with one stack: ``function file:line``, outermost first."""
    files = dict.fromkeys(place.split(" ")[1].rpartition(":")[0] for place in places)
    functions = dict.fromkeys(place.split(" ")[0] for place in places)
    locations: list[int] = []
    for place in places:
        function, where = place.split(" ")
        file, _, line = where.rpartition(":")
        numbers = list(files).index(file) + 1, list(functions).index(function) + 1
        locations += (*numbers, int(line), 0, 0, 0)
    return StackFrames(
        file_names=tuple(files),
        function_names=tuple(functions),
        file_locations=file_locations(locations),
        frames=stack_frames([number for k in range(len(places)) for number in (k + 1, k)]),
    )


def _functions(frames: StackFrames) -> list[str | None]:
    return [place.function for place in frames.stack(len(frames.frames))]


def test_frames_that_the_inliner_repeats_are_there_once() -> None:
    around = ("step a.py:9", "loss a.py:7", "scan /v/site-packages/flax/core/axes_scan.py:200")
    frames = _frames("main a.py:20", *around, *around, *around, "block a.py:3")
    assert _functions(frames) == ["block", "scan", "loss", "step", "main"]


def test_user_location_is_the_innermost_frame_outside_libraries() -> None:
    frames = _frames(
        "main a.py:20", "block a.py:3", "dense /v/site-packages/flax/linen/linear.py:5"
    )
    place = frames.user_location(3)
    assert place is not None
    assert str(place) == "a.py:3"
    assert str(frames.location(3)) == "/v/site-packages/flax/linen/linear.py:5"


def test_user_location_of_library_frames_only_is_the_innermost() -> None:
    frames = _frames("run /v/site-packages/b.py:1", "dense /v/site-packages/a.py:5")
    assert str(frames.user_location(2)) == "/v/site-packages/a.py:5"
    assert frames.user_location(3) is None
