"""Other optimizers as methods of a campaign, each as its users run it: by its own ask and tell, with its defaults.

| name | what | module |
|---|---|---|
| hebo | HEBO: three acquisition functions on a GP with warped outcomes | `hebo.py` |
| smac-bb, smac-hpo | SMAC3: facades BlackBox (GP) and HyperparameterOptimization (random forest) | `smac.py` |
| ax | Ax: the strategy that its `Client` chooses | `ax.py` |
| vizier | Google Vizier: GP-UCB-PE | `vizier.py` |
| turbo | TuRBO-1 | `turbo.py` |
| qlognei | BoTorch's `SingleTaskGP` and qLogNEI | `noisy_ei.py` |
| cma | pycma: CMA-ES, restarted with twice the population | `pycma.py` |
| nevergrad | Nevergrad: NGOpt | `nevergrad.py` |
| tpe-multivariate | Optuna's TPE with joint densities | `../optuna_methods.py` |
| random | uniform points | `random_search.py` |

Most need packages of their own, in an environment of their own: `make peers`.
"""

from __future__ import annotations

from importlib import import_module

from modeseek.bench.methods.method import Method
from modeseek.space import Space

# By the method's name: the module, and the class in it.
PEERS = {
    "hebo": ("peers.hebo", "HEBO"),
    "smac-bb": ("peers.smac", "BlackBox"),
    "smac-hpo": ("peers.smac", "HyperparameterOptimization"),
    "ax": ("peers.ax", "Ax"),
    "vizier": ("peers.vizier", "Vizier"),
    "turbo": ("peers.turbo", "TuRBO"),
    "qlognei": ("peers.noisy_ei", "NoisyEI"),
    "cma": ("peers.pycma", "CMA"),
    "nevergrad": ("peers.nevergrad", "NGOpt"),
    "tpe-multivariate": ("optuna_methods", "MultivariateTPE"),
    "random": ("peers.random_search", "RandomSearch"),
}


def make_peer(name: str, space: Space, seed: int) -> Method:
    """A fresh peer; MissingExtraError where its package is not installed."""
    module, kind = PEERS[name]
    peer: Method = getattr(import_module(f"modeseek.bench.methods.{module}"), kind)(space, seed)
    return peer
