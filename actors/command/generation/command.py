"""`run-kcm manifests module:SPECS`: writes the manifests of an operator to stdout or into a directory.

Exit codes: 0; 1 with a line about the error; 2 for malformed arguments. Notes about what the manifests do not contain
are written to stderr.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcm.actors.app.arguments import read_options
from kcm.actors.command.generation.manifests import GenerationError, OperatorProgram, manifests_of, notes_on
from kcm.actors.command.generation.programs import NoSpecsError, load_specs
from kcm.actors.command.manifests import Manifest, ManifestError, check_manifests
from kcm.actors.options import InvalidOptionsError, Options, OtherProgram
from kcm.actors.reconciliation.specs import ControllerSpec, clusters_of
from kcm.protocols.objects import Object
from kcm.runtime.flags.declaration import FlagError

_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?")
WIDTH = 110
# Text that some reader of YAML takes for a number or a boolean when it is not quoted.
_AMBIGUOUS = re.compile(r"[-+]?\.?[0-9][0-9a-fA-FxXoO_.+:-]*|[yYnN]|[oO](n|N|ff|FF)")


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `manifests`."""
    own, flags = _split(argv)
    arguments = parser().parse_args(own)
    try:
        _, specs = load_specs(arguments.specs)
        name = arguments.name or _default_name(arguments.specs, specs)
        namespace = arguments.namespace or name
        program = OperatorProgram(
            name=name,
            namespace=namespace,
            image=arguments.image or f"{name}:latest",
            replicas=arguments.replicas,
            specs=specs,
            options=_options(name, namespace, specs, flags),
            arguments=flags,
            cluster=_cluster(arguments.cluster, specs),
        )
        files = manifests_of(program)
        check_manifests(Manifest(file, obj) for file, objects in files.items() for obj in objects)
        texts = {file: yaml_text(objects) for file, objects in files.items()}
        if arguments.output is None:
            sys.stdout.write("---\n".join(texts.values()))
        else:
            write_files(arguments.output, {**texts, "kustomization.yaml": _kustomization(texts)})
    except (NoSpecsError, GenerationError, ManifestError, FlagError, InvalidOptionsError, ValueError, OSError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    for note in notes_on(specs):
        print(f"Note: {note}", file=sys.stderr)
    if clusters := clusters_of(specs):
        needs = f"the program needs a kubeconfig with contexts for {', '.join(clusters)}: mount it into its pods"
        print(f"Note: {needs}", file=sys.stderr)
    return 0


def yaml_text(objects: Iterable[Object]) -> str:
    """Return the objects as YAML documents, the same text for the same objects."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def text(dumper: Dumper, value: str) -> Any:
        style = "'" if _AMBIGUOUS.fullmatch(value) else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files, and print their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)


def _kustomization(files: Iterable[str]) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return yaml_text([{**head, "resources": [*files]}])


def _options(name: str, namespace: str, specs: Sequence[ControllerSpec], flags: Sequence[str]) -> Options:
    """Return the options that the program has with these flags. Raises FlagError and InvalidOptionsError."""
    defaults = {"leader-elect-resource-name": name, "leader-elect-resource-namespace": namespace}
    return read_options(flags, controllers=specs, other=OtherProgram(name=name, defaults=defaults))


def _cluster(chosen: str, specs: Sequence[ControllerSpec]) -> str:
    """Return the cluster to generate for; "" for a program with one. Raises ValueError."""
    clusters = clusters_of(specs)
    if clusters and chosen not in clusters:
        raise ValueError(f"the controllers work on {', '.join(clusters)}: name one with --cluster, not {chosen!r}")
    if chosen and not clusters:
        raise ValueError(f"the controllers work on one cluster, without a name, not on {chosen!r}")
    return chosen


def _default_name(argument: str, specs: Sequence[ControllerSpec]) -> str:
    if len(specs) == 1:
        return specs[0].name
    return Path(argument.partition(":")[0]).name.removesuffix(".py").rpartition(".")[2].replace("_", "-").lower()


def _split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the arguments of the command, and after "--" the flags of the program."""
    where = list(argv).index("--") if "--" in argv else len(argv)
    return [*argv[:where]], tuple(argv[where + 1 :])


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a name of at most 50 of a-z, 0-9 and -: {text!r:.60}")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 100: {text!r:.20}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm manifests",
        usage="run-kcm manifests [options] module:SPECS [-- FLAG ...]",
        description="Write the manifests of an operator: CustomResourceDefinitions from the models of its resources, "
        "RBAC from its watches and permissions, its Deployment, and its webhook configurations. "
        "Flags of the operator follow after --.",
    )
    parser.add_argument("specs", metavar="module:SPECS", help="a ControllerSpec, or several in a tuple or list")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write files into DIR instead of stdout")
    parser.add_argument(
        "--name",
        type=_name,
        help="name of the program, as in main(name=…) (default: of its only controller, or of the module)",
    )
    parser.add_argument("--namespace", type=_name, help="namespace of its pods (default: its name)")
    parser.add_argument("--image", help="image of its container (default NAME:latest)")
    parser.add_argument(
        "--cluster", default="", help="the one to write for, if the controllers work on several (RESOURCE.on(…))"
    )
    parser.add_argument("--replicas", type=_count, default=2, help="number of pods (default %(default)s)")
    return parser
