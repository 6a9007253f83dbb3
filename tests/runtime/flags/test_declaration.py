from __future__ import annotations

import pytest

from kcm.runtime.flags.declaration import FlagError, FlagStruct, fill, flag, flags_of, group, parse, usage
from kcm.runtime.flags.values import (
    DURATION,
    FILES,
    FLOAT32,
    LEVEL,
    VERSION,
)


class Engine(FlagStruct, frozen=True, kw_only=True):
    power: int = flag(90, "Power in kW.")
    turbo: bool = flag(True, "Use the turbo.")
    warm_up: float = flag(90.0, "How long to wait.", kind=DURATION, name="engine-warm-up", former=("warm-time",))
    ratio: float = flag(0.5, "Ratio.", kind=FLOAT32)
    choke: str = flag("", "Choke.", retired="nobody has one")


class Cabin(FlagStruct, frozen=True, kw_only=True):
    colours: tuple[str, ...] = flag(("red",), "Colours.")
    maps: tuple[str, ...] = flag((), "Map to load.", kind=FILES)
    verbosity: int = flag(0, "Talk.", name="v", short="v", kind=LEVEL)
    help: bool = flag(False, "Help.", short="h")
    version: str = flag("", "Version.", kind=VERSION)
    secret: str = flag("", "Secret.", hidden=True)


class Car(FlagStruct, frozen=True, kw_only=True):
    engine: Engine = group(Engine, "engine", config="Engine")
    cabin: Cabin = group(Cabin, "cabin")


FLAGS = flags_of(Car)


def car(*argv: str) -> Car:
    groups = fill(FLAGS, parse(FLAGS, argv).values)
    return Car(engine=groups[Engine], cabin=groups[Cabin])


@pytest.mark.parametrize(
    "argv, values",
    [
        ((), {}),
        (("--power=100",), {"power": 100}),
        (("--power", "100"), {"power": 100}),
        (("--power", "-5"), {"power": -5}),
        (("--turbo",), {"turbo": True}),
        (("--turbo=false",), {"turbo": False}),
        (("--turbo=F", "--turbo"), {"turbo": True}),
        (("--engine_warm_up=1m30s",), {"engine-warm-up": 90.0}),
        (("--warm-time", "2s"), {"engine-warm-up": 2.0}),
        (("--ratio=1e-2",), {"ratio": 0.01}),
        (("--choke=",), {"choke": ""}),
        (("--colours=blue,green",), {"colours": ("blue", "green")}),
        (("--colours=blue", "--colours", "green"), {"colours": ("blue", "green")}),
        (("--colours=",), {"colours": ()}),
        (("--maps=a,b", "--maps", "c"), {"maps": ("a,b", "c")}),
        (("-v2",), {"v": 2}),
        (("-v=2",), {"v": 2}),
        (("-v", "2"), {"v": 2}),
        (("--v=2",), {"v": 2}),
        (("-hv3",), {"help": True, "v": 3}),
        (("--version",), {"version": "true"}),
        (("--version=raw",), {"version": "raw"}),
    ],
)
def test_a_command_line_is_read_as_pflag_reads_it(argv: tuple[str, ...], values: dict[str, object]) -> None:
    assert parse(FLAGS, argv).values == values


@pytest.mark.parametrize(
    "argv, positional",
    [
        (("a", "--turbo", "b"), ("a", "b")),
        (("--turbo", "false"), ("false",)),  # a boolean flag does not consume the next argument
        (("--", "--turbo", "-v"), ("--turbo", "-v")),
        (("-",), ("-",)),
        (("",), ("",)),
    ],
)
def test_arguments_without_flag_are_positional(argv: tuple[str, ...], positional: tuple[str, ...]) -> None:
    assert parse(FLAGS, argv).positional == positional


@pytest.mark.parametrize(
    "argv, text",
    [
        (("--wheels=4",), "unknown flag: --wheels"),
        (("--big_wheels",), "unknown flag: --big_wheels"),
        (("-x",), "unknown shorthand flag: 'x' in -x"),
        (("-hx",), "unknown shorthand flag: 'x' in -hx"),
        (("--power",), "flag needs an argument: --power"),
        (("-v",), "flag needs an argument: 'v' in -v"),
        (("--=4",), "bad flag syntax: --=4"),
        (("---v",), "bad flag syntax: ---v"),
        (("--power=x",), 'invalid argument "x" for "--power" flag: strconv.ParseInt: parsing "x": invalid syntax'),
        (
            ("--power=2147483648",),
            (
                'invalid argument "2147483648" for "--power" flag: '
                'strconv.ParseInt: parsing "2147483648": value out of range'
            ),
        ),
        (
            ("--turbo=yes",),
            'invalid argument "yes" for "--turbo" flag: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (("-vx",), 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid syntax'),
        (
            ("--engine-warm-up=5",),
            'invalid argument "5" for "--engine-warm-up" flag: time: missing unit in duration "5"',
        ),
        (("--ratio=,",), 'invalid argument "," for "--ratio" flag: strconv.ParseFloat: parsing ",": invalid syntax'),
    ],
)
def test_invalid_command_line_is_one_line_of_error(argv: tuple[str, ...], text: str) -> None:
    with pytest.raises(FlagError) as error:
        parse(FLAGS, argv)
    assert str(error.value) == text


def test_ineffective_flags_and_old_names_are_warned_about_once() -> None:
    parsed = parse(FLAGS, ["--choke=1", "--choke=2", "--warm_time=1s", "--turbo"])
    assert parsed.warnings == (
        "Flag --choke has no effect: nobody has one",
        "Flag --warm-time has been deprecated, use --engine-warm-up",
    )


def test_options_without_flags_keep_their_defaults() -> None:
    assert car() == Car()
    assert Car().engine.power == 90
    assert car("--power=1", "-v", "4") == Car(engine=Engine(power=1), cabin=Cabin(verbosity=4))


def test_flag_has_its_path_in_the_configuration() -> None:
    class Wheels(FlagStruct, frozen=True, kw_only=True):
        count: int = flag(4, "Wheels.", config="Count")
        spare: bool = flag(True, "A spare one.")

    class Cart(FlagStruct, frozen=True, kw_only=True):
        wheels: Wheels = group(Wheels, "wheels", config="Wheels")

    assert [(flag.name, flag.config) for flag in flags_of(Cart)] == [("count", "Wheels.Count"), ("spare", "")]


def test_help_shows_flags_by_section_with_types_and_defaults() -> None:
    assert usage("car", "Drives.", FLAGS, columns=60) == (
        "Drives.\n\nUsage:\n  car [flags]\n\n"
        "Engine flags:\n\n"
        "      --engine-warm-up duration\n                How long to wait. (default 1m30s)\n"
        "      --power int32\n                Power in kW. (default 90)\n"
        "      --ratio float32\n                Ratio. (default 0.5)\n"
        "      --turbo\n                Use the turbo. (default true)\n\n"
        "Cabin flags:\n\n"
        "      --colours strings\n                Colours. (default [red])\n"
        "  -h, --help\n                Help.\n"
        "      --maps file\n                Map to load.\n"
        "  -v, --v Level\n                Talk.\n"
        "      --version version[=true]\n                Version.\n\n"
        "Ineffective flags:\n\n"
        "      --choke string\n                Choke. (no effect: nobody has one)\n"
    )


def test_help_begins_with_the_sections_named_first() -> None:
    shown = usage("car", "Drives.", FLAGS, columns=60, first=("cabin", "none"))
    assert [line for line in shown.splitlines() if line.endswith(" flags:")] == [
        "Cabin flags:",
        "Engine flags:",
        "Ineffective flags:",
    ]
