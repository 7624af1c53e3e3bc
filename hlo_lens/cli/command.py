"""``hlo-lens help``: the handbook, one topic at a time."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TextIO

import click

from hlo_lens.cli.output import Output, open_output
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean

_EXAMPLE = """\b
Example:
  hlo-lens help memory
  hlo-lens help M003
  hlo-lens help glossary | grep -i wire
"""

_WIDEST = 100
_TOPICS_SHOWN = 4
_PICTURE = re.compile(r"^!\[.*\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]+)\]\((?:[\w./-]+\.md)?(?:#[\w-]*)?\)")
_SECTION = re.compile(r"^## ([a-z-]+)\n.*?(?=^## |^See also: |\Z)", re.MULTILINE | re.DOTALL)
"""A section whose heading is the name of a command or an older topic, which ``help`` prints."""
_CODE = re.compile(r"[A-Za-z]\d{3}")

_MERGED = {
    "blame": "source",
    "explain": "findings",
    "loops": "collectives",
    "shard": "sharding",
    "source-lines": "source",
}
"""Older names of topics, and the topic that has them now; others are headings of a section."""


@click.command(epilog=_EXAMPLE)
@click.argument("topic", metavar="[TOPIC|CODE]", default="help")
def help(topic: str) -> None:  # noqa: A001 # the command's name
    """Print a topic of the handbook, or the rule of a code; without TOPIC, where to begin.

    Topics are Markdown: rendered in a terminal, printed as they are into a pipe or file.
    """
    if _CODE.fullmatch(topic):
        from hlo_lens.questions.findings.page import rule_report
        from hlo_lens.questions.findings.rule import find_rule

        Output(format="text", path_out=None, rows=None, color="auto").write(
            rule_report(find_rule(topic))
        )
        return
    with open_output(None) as out:
        _print_topic(_text_of(_MERGED.get(topic, topic), _topics()), out)


def _topics() -> dict[str, str]:
    topics = {
        file.name.removesuffix(".md"): file.read_text("utf-8")
        for file in (files("hlo_lens") / "manual").iterdir()
        if file.name.endswith(".md")
    }
    sections = {m[1]: f"{m[0].rstrip()}\n" for t in topics.values() for m in _SECTION.finditer(t)}
    return sections | dict(sorted(topics.items()))


def _text_of(topic: str, topics: dict[str, str]) -> str:
    """Return the text of a topic; raises UnknownNameError with the nearest topics.

    Topics in which the word occurs are near too: the glossary, then by number of occurrences.
    """
    if topic in topics:
        return topics[topic]
    hint = did_you_mean(topic, topics)
    if not hint:
        having = sorted(topics, key=lambda name: (name != "glossary", -topics[name].count(topic)))
        names = ", ".join([name for name in having if topic in topics[name]][:_TOPICS_SHOWN])
        hint = f"; topics with this word: {names}" if names else "; hlo-lens help lists the topics"
    raise UnknownNameError(f"no topic {topic!r} in the handbook{hint}")


def _print_topic(text: str, out: TextIO) -> None:
    if not _is_terminal(out):
        click.echo(text, out, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.width = min(console.width, _WIDEST)
    shown = _LINK.sub(r"**\1**", _PICTURE.sub("", text))
    console.print(Markdown(shown, code_theme="ansi_dark"))


def _is_terminal(out: TextIO) -> bool:
    return out.isatty()
