"""Commands that documents show: found in their shell blocks, and held against the commands that there are."""

import re
import shlex

import click

from aggregator.cli.main import main


def shown_commands(text: str) -> list[list[str]]:
    """Every `aggregator …` line of a shell block, without its comment and where its output goes."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    blocks = [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in blocks]  # a list may indent them
    lines = [shlex.split(line.partition(">")[0], comments=True) for block in blocks for line in block.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["aggregator"]]


def check_command(words: list[str]) -> None:
    """There is such a command, and it takes the options that it is shown with."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]}"
        command, words = found, words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.split("=")[0] for word in words if word.startswith("-")} <= known
