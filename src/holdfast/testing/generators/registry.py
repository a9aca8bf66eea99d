"""The table of generators: what `holdfast topology new` offers, read off the signatures.

Options arrive as text from the command line and as values from code; both end in the same call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from holdfast.errors import BadInputError
from holdfast.testing.generators import applications, ppa, shapes, thesis
from holdfast.testing.generators.common import Range, Seed
from holdfast.topology.graph import Topology

Kind = Literal["int", "float", "range", "ints", "choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One option of a generator."""

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def shown_default(self) -> str:
        """The default as it would be typed."""
        if isinstance(self.default, tuple):
            return ("-" if self.kind == "range" else ",").join(map(str, self.default))
        return str(self.default)

    def parse(self, text: str) -> Any:
        """The value that a command line means."""
        try:
            match self.kind:
                case "int":
                    return int(text)
                case "float":
                    return float(text)
                case "range":
                    low, dash, high = text.partition("-")
                    return (int(low), int(high)) if dash else int(low)
                case "ints":
                    return tuple(int(part) for part in text.split(","))
                case "choice":
                    if text in self.choices:
                        return text
        except ValueError:
            pass
        raise BadInputError(f"is {text!r}", where=self.option, hint=f"write {self._wanted}")

    @property
    def _wanted(self) -> str:
        match self.kind:
            case "int":
                return "a whole number"
            case "float":
                return "a number"
            case "range":
                return "N or MIN-MAX"
            case "ints":
                return "whole numbers separated by commas"
            case "choice":
                return " or ".join(self.choices)


@dataclass(frozen=True, kw_only=True)
class Generator:
    """A named generator with its options; call it like the function itself."""

    name: str
    function: Callable[..., Topology]

    def __call__(self, *args: Any, **options: Any) -> Topology:
        return self.function(*args, **options)

    @cached_property
    def help(self) -> str:
        """The first sentence of the function's description."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        given = inspect.signature(self.function).parameters.values()
        return tuple(_parameter(p.name, p.default, hints[p.name]) for p in given)

    def parse(self, options: Mapping[str, str]) -> Topology:
        """Make a topology from options given as text."""
        known = {parameter.name: parameter for parameter in self.parameters}
        values: dict[str, Any] = {}
        for name, text in options.items():
            parameter = known.get(name.lstrip("-").replace("-", "_"))
            if parameter is None:
                raise BadInputError(
                    f"{self.name} has no option {name!r}",
                    hint=f"its options are {', '.join(p.option for p in self.parameters)}",
                )
            values[parameter.name] = parameter.parse(text)
        return self.function(**values)


def _parameter(name: str, default: Any, hint: Any) -> Parameter:
    kind, text = typing.get_args(hint)
    if typing.get_origin(kind) is Literal:
        return Parameter(
            name=name, kind="choice", default=default, help=text, choices=typing.get_args(kind)
        )
    kinds: dict[Any, Kind] = {
        int: "int",
        Seed: "int",
        float: "float",
        Range: "range",
        tuple[int, ...]: "ints",
    }
    return Parameter(name=name, kind=kinds[kind], default=default, help=text)


_FUNCTIONS: Mapping[str, Callable[..., Topology]] = {
    "chain": shapes.chain,
    "parallel-lines": shapes.parallel_lines,
    "in-tree": shapes.in_tree,
    "out-tree": shapes.out_tree,
    "layered-dag": shapes.layered_dag,
    "random-dag": shapes.random_dag,
    "signalguru": applications.signalguru,
    "sentiment": applications.sentiment,
    "thesis-chain": thesis.thesis_chain,
    "thesis-tree": thesis.thesis_tree,
    "ppa-random": ppa.ppa_random,
}

GENERATORS: Mapping[str, Generator] = {
    name: Generator(name=name, function=function) for name, function in _FUNCTIONS.items()
}
"""Name on the command line to generator."""
