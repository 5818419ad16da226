"""What the peers share: the space in plain kinds that every package has, and a history told by the row."""

from __future__ import annotations

import io
import logging
import random
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from modeseek.bench.methods.method import check_history, continues
from modeseek.errors import ConfigError, MissingExtraError
from modeseek.history import SAME_POINT, History
from modeseek.parameters import Categorical, Float, Int
from modeseek.settings import Stream, generator
from modeseek.space import Space
from modeseek.typing import Array

Value = float | int | str


@dataclass(frozen=True)
class Kind:
    """A parameter as peers know it: a real number, a whole number, or one of some texts."""

    name: str
    kind: Literal["float", "int", "choice"]
    low: float = 0
    high: float = 0
    log: bool = False
    choices: tuple[str, ...] = ()
    by_index: bool = False  # whether the value is an index, as of choices and of numbers with a step


class Kinds:
    """A space in these kinds, and points of the cube to and from their values.

    A choice is the text of its index, since not every package takes every type of choice. Numbers with a step are the
    index of their value.
    """

    def __init__(self, space: Space) -> None:
        if space.conditions or space.constraints:
            raise ConfigError("peers search spaces without conditions and constraints")
        self.space = space
        self.kinds = [self._kind(name) for name in space.coordinates]

    def _kind(self, name: str) -> Kind:
        match self.space[name]:
            case Categorical(choices=choices):
                return Kind(name, "choice", choices=tuple(map(str, range(len(choices)))), by_index=True)
            case Float(low=low, high=high, log=log, step=None):
                return Kind(name, "float", low, high, log)
            case Int(low=low, high=high, log=log, step=1):
                return Kind(name, "int", low, high, log)
            case stepped:
                return Kind(name, "int", 0, int(stepped.size) - 1, by_index=True)

    def of_point(self, u: Array) -> dict[str, Value]:
        """The values at u (d)."""
        return {kind.name: self._value(kind, float(u_i)) for kind, u_i in zip(self.kinds, u, strict=True)}

    def _value(self, kind: Kind, u: float) -> Value:
        parameter = self.space[kind.name]
        if kind.by_index:
            index = min(int(u * parameter.size), int(parameter.size) - 1)
            return str(index) if kind.kind == "choice" else index
        value: Any = parameter.decode(u)  # a number
        return float(value) if kind.kind == "float" else int(value)

    def to_point(self, values: Mapping[str, Any]) -> Array:
        """The point of the cube, d; numbers a rounding error outside of their bounds are moved onto them."""
        u = np.empty(len(self.kinds))
        for i, kind in enumerate(self.kinds):
            parameter: Any = self.space[kind.name]
            value = values[kind.name]
            if kind.by_index:
                u[i] = (int(value) + 0.5) / int(parameter.size)
            else:
                number = min(max(float(value), kind.low), kind.high)
                u[i] = parameter.encode(number if kind.kind == "float" else round(number))
        return np.asarray(self.space.snap(u[None])[0])


class Peer(ABC):
    """An optimizer of another package, minimizing; one object per replication.

    Rows of the history that it asked for are told as the answer, others (an initial design) as known before. A history
    that does not continue the one before starts anew. What the package draws from global generators is seeded by the
    replication and the iteration, and these are as before afterwards.
    """

    package: ClassVar[str]  # as it is imported

    def __init__(self, space: Space, seed: int) -> None:
        require(self.package)
        self.space, self.seed, self.kinds = space, seed % 2**31, Kinds(space)
        self.seconds: dict[str, float] = {}
        self._told: History | None = None
        self._asked: tuple[Any, Array] | None = None

    @abstractmethod
    def start(self, left: int | None) -> None:
        """Make the optimizer, which is to be asked `left` times, where that is known."""

    @abstractmethod
    def add(self, values: dict[str, Value], loss: float) -> None:
        """Tell what was not asked for."""

    @abstractmethod
    def ask(self) -> tuple[Any, Mapping[str, Any]]:
        """Something that tells the trial apart, and its values."""

    @abstractmethod
    def tell(self, trial: Any, values: dict[str, Value], loss: float) -> None:
        """Tell what was asked for."""

    def __call__(self, history: History, left: int | None = None) -> Array:
        """The next point, d."""
        check_history(history, self.space)
        began, began_cpu = time.perf_counter(), time.process_time()
        with _contained(generator(self.seed, Stream.MODEL, len(history.Y)).initial_seed()):
            if self._told is None or not continues(self._told, history):
                self._told = self._asked = None
                self.start(left)
            self._tell(history)
            trial, values = self.ask()
            point = self.kinds.to_point(values)
        self._asked = trial, point
        self.seconds = {"acquire": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}
        return point

    def _tell(self, history: History) -> None:
        known = 0 if self._told is None else len(self._told.Y)
        for x, y in zip(history.X[known:], history.Y[known:].tolist(), strict=True):
            values = self.kinds.of_point(x)
            if self._asked is not None and np.abs(self._asked[1] - x).max() <= SAME_POINT:
                self.tell(self._asked[0], values, -y)
                self._asked = None
            else:
                self.add(values, -y)
        self._told = history


def require(package: str) -> None:
    """MissingExtraError, with what builds the peers' environment, where a package is not installed."""
    if find_spec(package) is None:
        raise MissingExtraError(
            f"this peer needs {package}: `make peers` in a clone of modeseek builds .venv-peers, and "
            "`.venv-peers/bin/modeseek bench scoreboard` runs it"
        )


@contextmanager
def _contained(seed: int) -> Iterator[None]:
    """Global generators seeded, no output, no warnings and no log below errors; all as before afterwards."""
    before = random.getstate(), np.random.get_state(), logging.root.manager.disable  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    logging.disable(logging.WARNING)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            torch.default_generator.manual_seed(seed)
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        logging.disable(before[2])
