"""Mean shift against scikit-learn's, and where scikit-learn has no answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.cluster import MeanShift, estimate_bandwidth
from torch import Tensor

from modeseek.modes import bandwidth, dominant_mode, modes


def mixture(seed: int, S: int, d: int) -> Tensor:
    """Samples from a few Gaussian clusters of different weight and width, clamped to the unit cube."""
    g = torch.Generator().manual_seed(seed)
    clusters = int(torch.randint(1, 6, (), generator=g))
    centres = torch.rand(clusters, d, dtype=torch.float64, generator=g)
    widths = 0.2 * torch.rand(clusters, dtype=torch.float64, generator=g)
    which = torch.multinomial(torch.rand(clusters, generator=g), S, replacement=True, generator=g)
    noise = torch.randn(S, d, dtype=torch.float64, generator=g)
    return (centres[which] + widths[which, None] * noise).clamp(0, 1)


def scikit_learns(x: Tensor) -> MeanShift:
    """Its mean shift, which takes a second for 200 samples: half of that goes into checks that are left out here."""
    h = estimate_bandwidth(x.numpy(), quantile=0.3)
    assert float(bandwidth(x)) == pytest.approx(h, rel=1e-12)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return MeanShift(bandwidth=h).fit(x.numpy())


@pytest.mark.parametrize("d", [1, 2, 5, 10, 20])
@pytest.mark.parametrize(("S", "seeds"), [(20, 4), (70, 2)])
def test_the_dominant_mode_is_scikit_learns(d: int, S: int, seeds: int) -> None:
    for seed in range(seeds):
        x = mixture(seed, S, d)
        theirs = scikit_learns(x)
        largest = np.bincount(theirs.labels_).argmax()
        np.testing.assert_allclose(dominant_mode(x).numpy(), theirs.cluster_centers_[largest], atol=1e-12)


def test_a_batch_gives_each_element_its_own_mode() -> None:
    x = torch.stack([mixture(seed, 80, 3) for seed in range(5)])
    together = dominant_mode(x)
    for i in range(5):
        torch.testing.assert_close(together[i], dominant_mode(x[i]), atol=1e-12, rtol=0)


def test_it_moves_with_the_samples() -> None:
    x = mixture(3, 100, 2)
    torch.testing.assert_close(dominant_mode(3 * x - 1), 3 * dominant_mode(x) - 1, atol=1e-9, rtol=0)


def test_identical_samples_are_their_own_mode() -> None:
    x = torch.tensor([0.1, 0.7, 1 / 3], dtype=torch.float64).expand(300, 3)
    torch.testing.assert_close(dominant_mode(x), x[0], atol=1e-12, rtol=0)


def test_one_sample_is_the_mode() -> None:
    x = torch.tensor([[0.2, 0.9]], dtype=torch.float64)
    assert dominant_mode(x).equal(x[0])


def test_the_larger_cluster_wins_over_the_denser_one() -> None:
    g = torch.Generator().manual_seed(0)
    wide = 0.2 + 0.05 * torch.randn(70, 2, dtype=torch.float64, generator=g)
    dense = 0.8 + 0.001 * torch.randn(30, 2, dtype=torch.float64, generator=g)
    assert (dominant_mode(torch.cat([dense, wide])) - 0.2).abs().max() < 0.05


@pytest.mark.parametrize(("d", "S", "seeds"), [(1, 60, 3), (3, 60, 3), (10, 60, 3), (2, 200, 1)])
def test_all_modes_and_the_samples_they_hold_are_scikit_learns(d: int, S: int, seeds: int) -> None:
    for seed in range(seeds):
        x = mixture(seed, S, d)
        theirs = scikit_learns(x)
        ours = modes(x)
        counts = np.bincount(theirs.labels_)
        np.testing.assert_allclose(ours.mass[: len(counts)], np.sort(counts)[::-1] / S)
        assert ours.mass.sum() == pytest.approx(1)
        centre_of_each = ours.centre[ours.label]  # whatever the order of clusters of equal mass
        np.testing.assert_allclose(centre_of_each, theirs.cluster_centers_[theirs.labels_], atol=1e-12)
        torch.testing.assert_close(ours.centre[0], dominant_mode(x))


def test_a_batch_gives_each_element_its_own_modes() -> None:
    x = torch.stack([mixture(seed, 60, 2) for seed in range(4)]).view(2, 2, 60, 2)
    together = modes(x)
    for i in range(2):
        for j in range(2):
            for ours, alone in zip(together, modes(x[i, j]), strict=True):
                torch.testing.assert_close(ours[i, j], alone, atol=1e-12, rtol=0)
