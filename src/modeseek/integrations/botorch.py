"""BoTorch: `dms_candidates(model, bounds)` in the place of `optimize_acqf(acquisition, bounds)`.

Notation: m, n, d as in surrogate.py; p pending points; x and "taken" on the unit cube, inputs in the model's own space.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from botorch.models.model import Model, ModelList
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from modeseek.checks import whole_number
from modeseek.computing import computing
from modeseek.config import DMSConfig
from modeseek.design import sobol
from modeseek.dms import Found, seek
from modeseek.errors import CollapseWarning, ConfigError, ModeseekError
from modeseek.integrations.botorch_models import PosteriorSurrogate, as_it_was, batch_shape, closed_form
from modeseek.notices import warn
from modeseek.proposer import choose
from modeseek.settings import Settings
from modeseek.surrogate import GP

_log = logging.getLogger(__name__)

SAME_CANDIDATE = 1e-6  # float32 bounds do not tell points of the cube apart that are closer than this
SAMPLE = 256  # new points to choose from where all others are taken


def dms_candidates(
    model: Model,
    bounds: Tensor,
    q: int = 1,
    X_pending: Tensor | None = None,  # noqa: N803 - BoTorch's name
    config: DMSConfig | None = None,
    generator: torch.Generator | None = None,
    threads: int = 1,
) -> Tensor:
    """The next q points to evaluate, by diffusion-based mode seeking on a fitted model: q x d.

    Points are chosen one after the other; each one, like each of `X_pending`, enters the model at its posterior mean
    before the next is sought. A model whose posterior has no gradients (trees, for instance) is labelled where it is
    sampled, without refinement. The model is left as it was found.

    Args:
        model: of one outcome, to be maximized, without batch dimensions other than an ensemble's.
        bounds: 2 x d, lower and upper, in the model's own input space; the result has their type and device.
        q: how many points; more than one needs a model with `condition_on_observations`.
        X_pending: p x d, points whose outcomes are still to come; needs the same.
        config: the settings of DMS; None is `DMSConfig()`.
        generator: on the CPU; None takes a seed from torch's global generator.
        threads: of the CPU that a candidate uses.
    """
    settings = Settings.of(config=config, threads=threads)
    config = settings.config
    q = whole_number("q", q, 1)
    lower, upper = _checked_bounds(bounds)
    pending = _checked_pending(X_pending, bounds)
    generator = _checked_generator(generator)
    _check_outputs(model)
    with as_it_was(model), computing(bounds.device, settings.threads):
        surrogate = closed_form(model, bounds) or PosteriorSurrogate.of(model, bounds)
        if config.train_on == "observed" and not surrogate.y.numel():
            raise ConfigError(f'train_on="observed" needs training data, and {type(model).__name__} has none')
        taken = ((pending - lower) / (upper - lower)).to(surrogate.X)
        if len(taken):
            surrogate = surrogate.condition(taken[None])
        network = None
        for chosen in range(q):
            found = seek(surrogate, config, generator, network)
            _check_found(model, found)
            x = _choose(found, surrogate, taken, generator)
            taken, network = torch.cat([taken, x]), found.network
            if chosen + 1 < q:
                surrogate = surrogate.condition(x[None])
    candidates = (lower + taken[-q:].to(lower.device) * (upper - lower)).to(bounds)
    return torch.minimum(torch.maximum(candidates, bounds[0]), bounds[1])


def _choose(found: Found, surrogate: GP | PosteriorSurrogate, taken: Tensor, generator: torch.Generator) -> Tensor:
    """x_next, or where that is taken (p x d), the best-labelled of the points at hand, else of new ones: 1 x d."""
    point = choose(
        found,
        surrogate,
        taken.cpu().numpy(),
        pending=taken.cpu().numpy(),
        snap=lambda points: points,
        others=lambda: sobol(SAMPLE, taken.shape[-1], generator).numpy(),
        tolerance=SAME_CANDIDATE,
    )
    return torch.from_numpy(point)[None].to(taken)


def _check_found(model: Model, found: Found) -> None:
    if not bool(found.pseudo_y.isfinite().any()):
        raise ModeseekError(f"the posterior of {type(model).__name__} is not finite anywhere within the bounds")
    if bool(found.fell_back.any()):
        if bool(found.diverged.any()):
            warn("the diffusion model diverged; the best pseudo-labelled input was proposed", CollapseWarning)
        _log.debug("diffusion model skipped for this candidate")


def _checked_bounds(bounds: Any) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds, d each, as float64."""
    if not isinstance(bounds, Tensor) or bounds.ndim != 2 or bounds.shape[0] != 2 or not bounds.is_floating_point():
        what = f"of shape {tuple(bounds.shape)} and {bounds.dtype}" if isinstance(bounds, Tensor) else repr(bounds)
        raise ConfigError(f"bounds must be a 2 x d tensor of floats (lower, upper), not {what}")
    if not bool(bounds.isfinite().all()):
        raise ConfigError(f"bounds must be finite, not {bounds.tolist()}")
    if not bool((bounds[0] < bounds[1]).all()):
        raise ConfigError(f"each lower bound must be under its upper bound, not {bounds.tolist()}")
    lower, upper = bounds.detach().double()
    return lower, upper


def _checked_pending(X_pending: Any, bounds: Tensor) -> Tensor:  # noqa: N803
    d = bounds.shape[-1]
    if X_pending is None:
        return bounds.new_zeros(0, d).double()
    if not isinstance(X_pending, Tensor) or X_pending.ndim != 2 or X_pending.shape[-1] != d:
        what = f"of shape {tuple(X_pending.shape)}" if isinstance(X_pending, Tensor) else repr(X_pending)
        raise ConfigError(f"X_pending must be a p x {d} tensor, as wide as the bounds, not {what}")
    if not bool(X_pending.isfinite().all()):
        raise ConfigError("X_pending must be finite")
    return X_pending.detach().to(bounds).double()


def _checked_generator(generator: Any) -> torch.Generator:
    if generator is None:
        return torch.Generator().manual_seed(int(torch.randint(2**62, ())))
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise ConfigError(f"generator must be a torch.Generator on the CPU, not {generator!r}")
    return generator


def _check_outputs(model: Model) -> None:
    name = type(model).__name__
    if not isinstance(model, Model):
        raise ConfigError(f"model must be a BoTorch Model, not {model!r}")
    if isinstance(model, ModelList):
        raise ConfigError(f"{name} is a list of models, and DMS seeks one outcome; pass the model of that outcome")
    if model.num_outputs != 1:
        raise ConfigError(f"{name} has {model.num_outputs} outputs, and DMS seeks one; pass model.subset_output([i])")
    if not is_ensemble(model) and batch_shape(model):
        raise ConfigError(f"{name} is a batch of models, of shape {batch_shape(model)}; pass them one at a time")
