"""The surrogate as the settings have it: outcomes shaped, noise known or fitted, earlier studies and beliefs (line 4).

What a Gaussian process is, is in surrogate.py, and how its hyperparameters are found in map_fit.py; the shapes of
outcomes are in outcome_transforms.py. Here is which of them a proposal uses. Notation as in dms.py.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from modeseek.config import DMSConfig, Warping
from modeseek.domain import Domain
from modeseek.embedding import PLAIN, Embedding
from modeseek.improvement import ImprovementGP
from modeseek.informed import Conviction, InformedGP
from modeseek.kernels import KERNELS
from modeseek.map_fit import evidence, fit
from modeseek.objectives import improve
from modeseek.outcome_transforms import OutcomeMap, mapped_by_power, mapped_by_standardize, mapped_by_warp
from modeseek.priors import PRIORS, Hyperparameters
from modeseek.stacking import Stack
from modeseek.surrogate import GP, Given, least_noise

EVIDENCE_SIZE = 200  # observations that decide on the power transform, evenly from first to last


def fit_surrogate(
    X: Tensor,
    Y: Tensor,
    config: DMSConfig,
    warm: Hyperparameters | None = None,
    pending: Tensor | None = None,
    embedding: Embedding = PLAIN,
    sem: Tensor | None = None,
    stack: Stack | None = None,
) -> GP:
    """The GP on the outcomes as the settings have them; pending inputs enter at their posterior mean."""
    gp, _ = fit_mapped(X, Y, config, warm, embedding, sem)
    gp = gp if stack is None else fit_rest(gp, stack)
    return gp if pending is None or pending.shape[-2] == 0 else gp.condition(pending)


def fit_rest(gp: GP, stack: Stack) -> GP:
    """The GP with earlier studies for its mean, and fitted to the rest; itself where they say nothing."""
    shares, scale = stack.explain(gp)
    if not bool((shares > 0).any()):
        return gp
    y, known = (gp.y - stack.mean(gp.X, shares)) / scale[..., None], gp.given.known_noise
    known = None if known is None else known / scale[..., None].square()
    rest = fit(gp.X, y, gp.hyperparameters, given=gp.given._replace(known_noise=known))
    return InformedGP.on(replace(rest, evaluations=gp.evaluations + rest.evaluations), gp.y, stack, shares, scale)


def fit_mapped(
    X: Tensor,
    Y: Tensor,
    config: DMSConfig,
    warm: Hyperparameters | None = None,
    embedding: Embedding = PLAIN,
    sem: Tensor | None = None,
) -> tuple[GP, OutcomeMap]:
    """The GP on the outcomes as the settings have them, and the map between its units and theirs."""
    given = _given(config, embedding, X.shape[-2])
    y, outcomes = _shaped(X, Y, config.warp, given)
    known = None if sem is None else outcomes.variance(Y, sem)
    return fit(X, y, warm, given=given._replace(known_noise=known)), outcomes


def _given(config: DMSConfig, embedding: Embedding, n: int) -> Given:
    prior = PRIORS[config.noise_prior]
    prior = prior._replace(least=least_noise(n, prior.least))
    return Given(embedding.with_kernel(KERNELS[config.kernel]), prior)


def _shaped(X: Tensor, Y: Tensor, warping: Warping, given: Given) -> tuple[Tensor, OutcomeMap]:
    """The outcomes as the surrogate sees them, b x n, and the map to them."""
    if warping == "never":
        return mapped_by_standardize(Y)
    if warping == "always":
        return mapped_by_warp(Y)
    n = X.shape[-2]
    some = torch.linspace(0, n - 1, min(n, EVIDENCE_SIZE), dtype=torch.float64, device=X.device).long()

    def explained(y: Tensor, log_slope: Tensor) -> Tensor:
        return evidence(X[..., some, :], y[..., some], given) + log_slope[..., some].sum(-1)

    return mapped_by_power(Y, explained) if warping == "power" else mapped_by_warp(Y, explained)


def fit_several(
    X: Tensor,
    Y: Tensor,
    config: DMSConfig,
    warm: Hyperparameters | None,
    pending: Tensor | None,
    constraints: Tensor | None,
    domain: Domain,
    reference: Tensor | None,
    sem: Tensor | None,
    lost: Tensor | None,
) -> ImprovementGP:
    """The GPs of several objectives (Y: b x n x M); arguments as in `dms.suggest`."""
    return improve(
        X,
        Y,
        constraints=constraints,
        reference=reference,
        warm=warm,
        pending=pending,
        lost=lost,
        given=_given(config, domain.embedding, X.shape[-2]),
        sem=sem,
    )


def informed(gp: GP | ImprovementGP, conviction: Conviction) -> GP | ImprovementGP:
    """The surrogate with labels that know of a belief."""
    if isinstance(gp, ImprovementGP):
        return replace(gp, conviction=conviction).with_top()
    return replace(gp, conviction=conviction) if isinstance(gp, InformedGP) else InformedGP.of(gp, conviction)
