"""Other ways to choose the next point, all behind one interface with DMS: a method takes a history, gives a point.

    method = make_method("logei")                    # one object a replication
    u = method(History(space, X, Y), seed=0)     # d, on the unit cube; `space.snap` makes it a point of the space

| name | file |
|---|---|
| pi, ei, logei, ucb, ts, pes, gibbon, jes | `bo.py`: BoTorch's acquisition functions on our surrogate |
| tpe, gpsampler, cmaes | `optuna_methods.py`: Optuna's samplers, as its users run them |
| sobol, dms-paper, dms, dms-fast | `own.py`: Sobol search and Algorithm 1 |
"""

from __future__ import annotations

from collections.abc import Callable

from modeseek.bench.methods import botorch_methods as bo
from modeseek.bench.methods import optuna_methods, own
from modeseek.bench.methods.method import History, Method
from modeseek.checks import did_you_mean
from modeseek.config import DMSConfig
from modeseek.errors import ConfigError

__all__ = ["History", "Method", "make_method", "method_names"]

_METHODS: dict[str, Callable[[DMSConfig | None, str], Method]] = {
    "sobol": lambda config, device: own.SobolSearch(),
    "pi": lambda config, device: bo.PI(device=device),
    "ei": lambda config, device: bo.EI(device=device),
    "logei": lambda config, device: bo.LogEI(device=device),
    "ucb": lambda config, device: bo.UCB(device=device),
    "ts": lambda config, device: bo.TS(device=device),
    "pes": lambda config, device: bo.PES(device=device),
    "gibbon": lambda config, device: bo.GIBBON(device=device),
    "jes": lambda config, device: bo.JES(device=device),
    "tpe": lambda config, device: optuna_methods.TPE(),
    "gpsampler": lambda config, device: optuna_methods.GPSampler(),
    "cmaes": lambda config, device: optuna_methods.CMAES(),
    "dms-paper": lambda config, device: own.DMS(config or DMSConfig.paper, device=device),
    "dms": lambda config, device: own.DMS(config or DMSConfig(), device=device),
    "dms-fast": lambda config, device: own.DMS(config or DMSConfig.fast(), device=device),
}


def method_names() -> list[str]:
    """What `make_method` knows."""
    return list(_METHODS)


def make_method(name: str, problem_config: DMSConfig | None = None, device: str = "cpu") -> Method:
    """A fresh method for one replication.

    Args:
        name: one of `method_names()`.
        problem_config: the settings of DMS; None: those that its name says.
        device: where the surrogate lives; Sobol search and Optuna's samplers stay on the CPU.
    """
    if name not in _METHODS:
        hint = did_you_mean(name, _METHODS) or "."
        raise ConfigError(f"unknown method {name!r}{hint} Known: {', '.join(_METHODS)}")
    return _METHODS[name](problem_config, device)
