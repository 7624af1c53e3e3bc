"""Texts from bytes, parts removed from them, and places as in the file."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hlo_lens.text.source import clean, cut_log_prefixes, decode, decode_pieces

# ---- decode -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"HloModule m\n", "HloModule m\n"),
        ("caf\u00e9 \u4e2d".encode(), "caf\u00e9 \u4e2d"),
        (b"\xff\xfeH\0i\0", "Hi"),
        (b"\xfe\xff\0H\0i", "Hi"),
        ("\ufeffHi".encode(), "\ufeffHi"),
        (b'"a\xffb"', '"a\\xffb"'),
        (b"cut \xc3", "cut \\xc3"),
        (b"cut \xe4\xb8", "cut \\xe4\\xb8"),
        (b"\x80\x81", "\\x80\\x81"),
        (b"nul \0", "nul \0"),
    ],
)
def test_bytes_become_text_and_none_is_lost(data: bytes, text: str) -> None:
    assert decode(data) == text


@given(st.binary(max_size=200))
def test_any_bytes_can_be_decoded(data: bytes) -> None:
    assert isinstance(decode(data), str)


# ---- line ends, marks, colours ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\rb\r", "a\nb\n"),
        ("a\n\rb", "a\n\nb"),
        ("a\r\r\nb", "a\n\nb"),
        ("\ufeffa", "a"),
        ("a\ufeffb", "a\ufeffb"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[Ka\x1b[?25lb", "ab"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("lone \x1b escape", "lone \x1b escape"),
        ("\x1b[", "\x1b["),
    ],
)
def test_what_is_no_text_is_cut(text: str, cleaned: str) -> None:
    assert clean(text).text == cleaned


# ---- log prefixes -------------------------------------------------------------------------------

PREFIXES = {
    "glog": "I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
    "glog warning": "W1120 11:50:17.144151 1234567 some/dir/hlo-pass.cc:9] ",
    "absl before InitializeLog": "E0000 00:00:1795175081.402356   26392 cpu_compiler.cc:9] ",
    "tensorflow": "2024-05-20 12:34:56.789012: I external/xla/xla/service/dump.cc:123] ",
    "mpirun": "[1,3]<stdout>: ",
    "mpirun stderr": "[1]<stderr>: ",
    "kubernetes": "2024-05-20T12:34:56.789012345Z ",
    "kubernetes zone": "2024-05-20T12:34:56+02:00 ",
    "cri": "2024-05-20T12:34:56.789012345+00:00 stdout F ",
    "kubernetes and glog": "2024-05-20T12:34:56Z I1120 11:50:17.144151     619 a.cc:5] ",
    "mpirun and glog": "[1,3]<stdout>:I1120 11:50:17.144151     619 a.cc:5] ",
    "rank and glog": "[3]: I1120 11:50:17.144151     619 a.cc:5] ",
    "srun and glog": "3: I1120 11:50:17.144151     619 a.cc:5] ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_prefix_of_a_logger_is_cut_from_each_line(prefix: str) -> None:
    lines = ["HloModule m", "", "ENTRY e {", "  p = f32[] parameter(0)", "}"]
    source = clean("".join(f"{prefix}{line}\n" for line in lines))
    assert source.text == "".join(f"{line}\n" for line in lines)
    assert source.line_column(source.text.index("p =")) == (4, len(prefix) + 3)


@pytest.mark.parametrize(
    "line",
    [
        "I1120 is no prefix",
        "[1,3] = f32[]",
        "2024-05-20 was a Monday",
        "3: x",
        "x I1120 11:50:17.144151     619 a.cc:5] y",
        "I1120 11:50:17.144151     619 no place",
    ],
)
def test_what_only_looks_like_a_prefix_is_kept(line: str) -> None:
    assert clean(f"{line}\n").text == f"{line}\n"


def test_prefixes_that_begin_late_are_cut_when_asked_for() -> None:
    prefix = PREFIXES["glog"]
    text = "plain line\n" * 10_000 + f"{prefix}HloModule m\n"
    source = clean(text)
    assert source.text is text
    cut = cut_log_prefixes(source)
    assert cut is not None
    assert cut.text == "plain line\n" * 10_000 + "HloModule m\n"
    assert cut.line_column(len(cut.text) - 2) == (10_001, len(prefix) + 11)


# ---- places -------------------------------------------------------------------------------------


NOISE = ["\x1b[0m", "\x1b[1;32m", "\x1b]0;t\x07"]
PIECES = st.lists(
    st.tuples(st.booleans(), st.sampled_from(NOISE), st.text("ab =(){}", min_size=1, max_size=4)),
    max_size=4,
)
LINES = st.lists(st.tuples(st.booleans(), PIECES), min_size=1, max_size=6)


@given(
    lines=LINES,
    prefix=st.sampled_from(sorted(PREFIXES.values())),
    mark=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    data=st.data(),
)
def test_places_after_cutting_are_those_of_the_file(
    lines: list[tuple[bool, list[tuple[bool, str, str]]]],
    prefix: str,
    mark: bool,
    end: str,
    data: st.DataObject,
) -> None:
    file: list[str] = []
    kept: list[tuple[str, tuple[int, int]]] = []
    for number, (prefixed, pieces) in enumerate(lines, 1):
        line = "\ufeff" if mark and number == 1 else ""
        if prefixed:
            line += prefix
        for coloured, colour, word in pieces:
            if coloured:
                line += colour
            kept += [(char, (number, len(line) + 1 + k)) for k, char in enumerate(word)]
            line += word
        kept.append(("\n", (number, len(line) + 1)))
        file.append(line + end)
    source = clean("".join(file))
    assert source.text == "".join(char for char, _ in kept)
    for offset in data.draw(st.permutations(range(len(kept)))):
        assert source.line_column(offset) == kept[offset][1]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain",
        b"a" * 5_000_000 + b"\n" + b"b" * 5_000_000,
        "caf\u00e9 \U0001f600".encode() * 3,
        b"\xef\xbb\xbfHloModule m",
        "HloModule m".encode("utf-16"),
        b"a" * 4_999_999 + "\u00e9".encode() + b"\xff" + b"b" * 100,
    ],
    ids=["empty", "ascii", "long", "utf-8", "mark", "utf-16", "late"],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_pieces_are_decoded_as_the_whole(data: bytes, size: int) -> None:
    step = max(size, len(data) // 1000 + 1)
    pieces = [data[k : k + step] for k in range(0, len(data), step)]
    assert decode_pieces(pieces) == decode(data)
