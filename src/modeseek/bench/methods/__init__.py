"""Ways to choose the next point, all behind one interface: a method takes a history and gives a point.

    method = make_method("logei", space, seed=0)     # one object per replication
    u = method(History.of(X, Y))                     # d, on the unit cube; `space.snap` makes it a point of the space

| name | file |
|---|---|
| dms and its presets | `dms_method.py`: Algorithm 1 through the one proposer, alone or side by side |
| pi, ei, logei, ucb, ts | `acquisitions.py`: batched, alone or side by side |
| pes, gibbon, jes | `information.py`: the same |
| all of these with -botorch | `botorch_methods.py`: BoTorch's functions and `optimize_acqf` |
| tpe, gpsampler, cmaes | `optuna_methods.py`: Optuna's samplers, as its users run them |
| sobol | `sobol_search.py` |
| hebo, smac-bb, ax, turbo, qlognei, ... | `peers/`: what the scoreboard has besides |
| my_file.py:name | a class or function of your own, called as name(space, seed) |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from modeseek.bench.loading import is_file_name, load_object
from modeseek.bench.methods import botorch_methods, optuna_methods
from modeseek.bench.methods.acquisitions import ACQUISITIONS, Acquisition
from modeseek.bench.methods.dms_method import DMS
from modeseek.bench.methods.method import Alone, Method, SideBySide
from modeseek.bench.methods.peers import PEERS, make_peer
from modeseek.bench.methods.sobol_search import SobolSearch
from modeseek.checks import did_you_mean
from modeseek.config import PRESETS as BY_NAME
from modeseek.config import DMSConfig
from modeseek.errors import ConfigError
from modeseek.space import Space

__all__ = [
    "EARLIER",
    "OF_THE_PAPER",
    "PRESETS",
    "Method",
    "SideBySide",
    "make_method",
    "make_side_by_side",
    "method_names",
    "peer_names",
]


# The default as it was: `dms-v3` until less noise was believed in and `local_after` followed d, `dms-v2` until
# `kernel`, `choose_by` and `local_after` came and the model became smaller, `dms-v1` until `rho_stalled`, `noise_prior`
# and `one_hill` came. Many records are of them.
_THIRD = replace(DMSConfig(), name="dms-v3", noise_prior="gamma", local_after=1000)
_THIRD_FAST = replace(DMSConfig.fast(), name="dms-v3-fast", noise_prior="gamma", local_after=1000)
_SECOND = replace(
    _THIRD,
    name="dms-v2",
    kernel="se",
    choose_by="label",
    local_after=None,
    m=None,
    S=None,
    epochs=30,
    hold_epochs=20,
    steps=25,
)
_FIRST = replace(_SECOND, name="dms-v1", rho=1.0, rho_stalled=None, noise_prior="log-normal", one_hill=0.0)
_FIRST_FAST = replace(_FIRST, name="dms-v1-fast", m=500, S=200, epochs=20, hold_epochs=5, steps=15)


def _whatever(config: DMSConfig, d: int) -> DMSConfig:
    return config


EARLIER = {config.name: config for config in (_THIRD, _THIRD_FAST, _SECOND, _FIRST, _FIRST_FAST)}
# The presets of DMS by their methods' names, for d parameters; reports list them in this order.
PRESETS: dict[str, Callable[[int], DMSConfig]] = {
    **{"dms" if name == "default" else f"dms-{name}": preset for name, preset in BY_NAME.items()},
    **{name: partial(_whatever, config) for name, config in EARLIER.items()},
}
OF_THE_PAPER = ("dms-paper", "dms-printed")  # those with the paper's sizes for each of its tasks


def _botorch(kind: Callable[..., Method], space: Space, seed: int, device: str) -> Method:
    return kind(space, seed, device=device)


_ALONE: dict[str, Callable[[Space, int, str], Method]] = {
    "sobol": lambda space, seed, device: SobolSearch(space, seed),
    "tpe": lambda space, seed, device: optuna_methods.TPE(space, seed),
    "gpsampler": lambda space, seed, device: optuna_methods.GPSampler(space, seed),
    "cmaes": lambda space, seed, device: optuna_methods.CMAES(space, seed),
    **{
        f"{name}-botorch": partial(_botorch, kind)
        for name, kind in {
            "pi": botorch_methods.PI,
            "ei": botorch_methods.EI,
            "logei": botorch_methods.LogEI,
            "ucb": botorch_methods.UCB,
            "ts": botorch_methods.TS,
            "pes": botorch_methods.PES,
            "gibbon": botorch_methods.GIBBON,
            "jes": botorch_methods.JES,
        }.items()
    },
}
_OF_THE_PAPER = ("pi", "ei", "logei", "ucb", "ts", "pes", "gibbon", "jes")
_NAMES = tuple(dict.fromkeys((*PRESETS, *_OF_THE_PAPER, *_ALONE)))


def method_names() -> list[str]:
    """What `make_method` knows besides files and peers."""
    return list(_NAMES)


def peer_names() -> list[str]:
    """Other optimizers that the scoreboard has; most need packages of `make peers`."""
    return list(PEERS)


def side_by_side_names() -> list[str]:
    """The methods that run several replications in the same tensors."""
    return [*PRESETS, *ACQUISITIONS]


def make_method(name: str, space: Space, seed: int, *, config: DMSConfig | None = None, device: str = "cpu") -> Method:
    """A fresh method for one replication.

    Args:
        name: one of `method_names()`, or `my_file.py:name` for a class or function of your own, which is called as
            name(space, seed) and gives a `Method`.
        space: what is searched.
        seed: of the replication.
        config: the settings of DMS; None: those that its name says.
        device: where the surrogate lives; Sobol search and Optuna's samplers stay on the CPU.
    """
    if is_file_name(name):
        own: Method = load_object(name)(space, seed)
        return own
    check_method_name(name)
    if name in PEERS:
        return make_peer(name, space, seed)
    if name in _ALONE:
        return _ALONE[name](space, seed, device)
    return Alone(make_side_by_side(name, [space], [seed], config=config, device=device))


def make_side_by_side(
    name: str, spaces: Sequence[Space], seeds: Sequence[int], *, config: DMSConfig | None = None, device: str = "cpu"
) -> SideBySide:
    """A fresh method for several replications, one of `side_by_side_names()`; arguments as in `make_method`."""
    if name in ACQUISITIONS:
        return Acquisition(name, spaces, seeds, device)
    if name not in PRESETS:
        raise ConfigError(f"{name!r} cannot run side by side; {', '.join(side_by_side_names())} can")
    return DMS(spaces, seeds, PRESETS[name](spaces[0].d) if config is None else config, device)


def check_method_name(name: str) -> None:
    """ConfigError, with the nearest name, for one that is not known; a file is looked into."""
    if is_file_name(name):
        load_object(name)
    elif name not in (known := [*_NAMES, *PEERS]):
        hint = did_you_mean(name, known) or "."
        raise ConfigError(f"unknown method {name!r}{hint} Known: {', '.join(known)}, and my_file.py:name")
