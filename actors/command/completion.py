"""`run-kcm completion SHELL`: prints a script that completes subcommands, flags and names of controllers.

The script contains all words, from the parsers of the subcommands and the flag tables, so that completing is fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from kcm.actors.app.arguments import read_options
from kcm.actors.app.installed import installed_controllers
from kcm.actors.command import apiserver, ctl, new_project, snapshot, top, wait, why
from kcm.actors.command.development import command as development
from kcm.actors.command.envtest import command as envtest
from kcm.actors.command.generation import command as manifests
from kcm.actors.command.journal import command as journal
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.explanation.kinds import KINDS
from kcm.runtime.flags.declaration import Flag, spellings
from kcm.runtime.flags.values import BOOL

SHELLS = ("bash", "zsh", "fish")
CONTROLLER = "CONTROLLER"  # metavar of arguments that are names of controllers
OBJECT = "OBJECT"  # metavar of arguments that begin with the kind of an object
OTHERS = ("apiserver", "completion")  # subcommands without an argparse parser
FILES = "@files"  # in place of words: paths


class CompletedPlace(Struct):
    """Words that may follow a subcommand. values: by flag; FILES for paths."""

    words: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)


def main(argv: Sequence[str]) -> int:
    """Print the script for a shell, and return the exit code."""
    arguments = _parser().parse_args(argv)
    print(script(arguments.shell, places()))
    return 0


def places() -> dict[str, CompletedPlace]:
    """Return what may be typed, by subcommand: "" before the first one, "ctl pause" within one of ctl."""
    controllers = (*BUILT_IN, *installed_controllers().specs)
    names = sorted({name for spec in controllers for name in (spec.name, *spec.aliases)})
    parsers = {
        "ctl": ctl.parser(),
        "top": top.parser(),
        "why": why.parser(),
        "wait": wait.parser(),
        "snapshot": snapshot.parser(),
        "journal": journal.parser(),
        "new": new_project.parser(),
        "dev": development.parser(),
        "manifests": manifests.parser(),
        "envtest": envtest.parser(),
    }
    found = {"": CompletedPlace(words=sorted([*parsers, *OTHERS])), "completion": CompletedPlace(words=list(SHELLS))}
    _add_flags(found[""], read_options([], controllers=controllers).flags)
    found[""].values["--controllers"] = ["*", *names, *(f"-{name}" for name in names)]
    found["apiserver"] = CompletedPlace()
    _add_flags(found["apiserver"], apiserver.FLAGS)
    for name, parser in parsers.items():
        _add(found, name, parser, names)
    return found


def _add_flags(place: CompletedPlace, flags: Iterable[Flag]) -> None:
    """Add the flags of a flag table, without hidden and retired ones."""
    for flag in flags:
        if flag.hidden or flag.retired:
            continue
        takes_value = flag.kind is not BOOL
        place.flags += [f"{name}=" if takes_value and name.startswith("--") else name for name in spellings(flag)[:1]]
        if takes_value:
            place.values[f"--{flag.name}"] = [FILES]


def _add(found: dict[str, CompletedPlace], path: str, parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the place of a parser, and those of its subcommands."""
    place = found[path] = CompletedPlace()
    for action in parser._actions:
        if isinstance(action.choices, Mapping) and not action.option_strings:
            place.words += list(action.choices)
            for name, inner in action.choices.items():
                _add(found, f"{path} {name}", inner, names)
        elif action.option_strings:
            place.flags += action.option_strings
            if action.nargs != 0:
                values = list(map(str, action.choices)) if action.choices else [FILES]
                place.values |= dict.fromkeys(action.option_strings, values)
        elif action.choices:
            place.words += map(str, action.choices)
        elif action.metavar == CONTROLLER:
            place.words += names
        elif action.metavar == OBJECT:
            place.words += sorted(known.resource.kind.lower() for known in KINDS)
        elif not place.words:
            place.words.append(FILES)
    if len(place.words) > 1 and FILES in place.words:
        place.words.remove(FILES)


def script(shell: str, found: Mapping[str, CompletedPlace]) -> str:
    if shell == "fish":
        return _FISH.format(
            places=_fish_cases(((f"{a} {b}".strip(), f"set place {_quoted(place)}") for a, b, place in _steps(found))),
            values=_fish_cases((f"{place} {flag}", _fish_set(words)) for place, flag, words in _values(found)),
            words=_fish_cases((place, _fish_set(entry.words)) for place, entry in found.items()),
            flags=_fish_cases((place, _fish_set(entry.flags)) for place, entry in found.items()),
        )
    template = _BASH if shell == "bash" else _ZSH
    return template.format(
        places=_cases((f"{a} {b}".strip(), f"place={_quoted(place)}") for a, b, place in _steps(found)),
        values=_cases((f"{place} {flag}", f"found={_quoted(words)}") for place, flag, words in _values(found)),
        words=_cases((place, f"found={_quoted(' '.join(entry.words))}") for place, entry in found.items()),
        flags=_cases((place, f"found={_quoted(' '.join(entry.flags))}") for place, entry in found.items()),
    )


def _steps(found: Mapping[str, CompletedPlace]) -> Iterable[tuple[str, str, str]]:
    """Yield each place with the place and the word that lead to it."""
    for place in found:
        if place:
            before, _, word = place.rpartition(" ")
            yield before, word, place


def _values(found: Mapping[str, CompletedPlace]) -> Iterable[tuple[str, str, str]]:
    for place, entry in found.items():
        for flag, words in entry.values.items():
            yield place, flag, " ".join(words)


def _quoted(text: str) -> str:
    return f"'{text}'"


def _cases(entries: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"    {_quoted(pattern)}) {then} ;;" for pattern, then in entries)


def _fish_set(words: str | Sequence[str]) -> str:
    separate = words.split() if isinstance(words, str) else words
    return f"set found {' '.join(map(_quoted, separate))}".rstrip()


def _fish_cases(entries: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"        case {_quoted(pattern)}\n            {then}" for pattern, then in entries)


_CHOICES = """  case "$place $prev" in
{values}
  esac
  if [[ -z $found && $cur == -* ]]; then
    case "$place" in
{flags}
    esac
  elif [[ -z $found ]]; then
    case "$place" in
{words}
    esac
  fi
"""

_BASH = (
    """# Completion of run-kcm for bash: source <(run-kcm completion bash)
_run_kcm() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} place='' found='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{place:+$place }}${{COMP_WORDS[i]}}" in
{places}
    esac
  done
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  COMPREPLY=()
"""
    + _CHOICES
    + """  [[ $found == '@files' ]] && return
  local IFS=$' \\t\\n'
  local -
  set -f
  COMPREPLY=($(compgen -W "$found" -- "$cur"))
  if [[ ${{COMPREPLY[0]}} == *= ]]; then compopt -o nospace; fi
}}
complete -o default -F _run_kcm run-kcm bin/run-kcm"""
)

_ZSH = (
    """#compdef run-kcm
# Completion of run-kcm for zsh: source <(run-kcm completion zsh), after compinit
_run_kcm() {{
  local cur=${{words[CURRENT]}} prev=${{words[CURRENT-1]}} place='' found='' i
  for ((i = 2; i < CURRENT; i++)); do
    case "${{place:+$place }}${{words[i]}}" in
{places}
    esac
  done
  if [[ $cur == --*=* ]]; then prev=${{cur%%=*}}; compset -P '*='; cur=${{cur#*=}}; fi
"""
    + _CHOICES
    + """  if [[ -z $found || $found == '@files' ]]; then _files; return; fi
  local -a each=(${{=found}})
  compadd -S '' -- ${{(M)each:#*=}}
  compadd -- ${{each:#*=}}
}}
compdef _run_kcm run-kcm bin/run-kcm"""
)

_FISH = """# Completion of run-kcm for fish: run-kcm completion fish | source
function __run_kcm_complete
    set -l tokens (commandline -opc)
    set -l cur (commandline -ct)
    set -l prev $tokens[-1]
    set -l place ''
    set -l found
    for word in $tokens[2..-1]
        switch (string trim -- "$place $word")
{places}
        end
    end
    set -l prefix ''
    if string match -q -- '--*=*' $cur
        set prev (string split -m 1 = -- $cur)[1]
        set prefix "$prev="
        set cur (string split -m 1 = -- $cur)[2]
    end
    switch "$place $prev"
{values}
    end
    if test -z "$found"; and string match -q -- '-*' $cur
        switch "$place"
{flags}
        end
    else if test -z "$found"
        switch "$place"
{words}
        end
    end
    if test "$found" = '@files'
        __fish_complete_path $cur
        return
    end
    for word in $found
        echo $prefix$word
    end
end
complete -c run-kcm -f -a '(__run_kcm_complete)'"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm completion",
        description="Print a script that completes subcommands, flags and names of controllers: "
        "source <(run-kcm completion bash).",
    )
    parser.add_argument("shell", choices=SHELLS)
    return parser
