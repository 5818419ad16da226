"""Which choices come next: by expected improvement between combinations of them (branches.py)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import modeseek as ms
from modeseek.domain import Domain

CPU = torch.device("cpu")
FAST = ms.DMSConfig.fast()


def space_of(*counts: int) -> ms.Space:
    choices = {f"c{i}": ms.Categorical([f"{i}{k}" for k in range(count)]) for i, count in enumerate(counts)}
    return ms.Space({**choices, "n": ms.Int(0, 5), "x": ms.Float(0, 1)})


def test_choices_fork_and_numbers_do_not() -> None:
    space = space_of(3, 1, 4)
    domain = Domain.of(space, CPU)
    assert [space.coordinates[fork.coordinate] for fork in domain.forks] == ["c0", "c2"]  # one choice is none
    assert [len(fork.values) for fork in domain.forks] == [3, 4]


@given(st.integers(0, 2**30), st.booleans())
@settings(max_examples=30, deadline=None)
def test_changed_points_differ_in_one_choice_and_stay_in_the_region(seed: int, fixed: bool) -> None:
    space = ms.Space(
        {"a": ms.Categorical(list("uvw")), "b": ms.Categorical(list("st")), "x": ms.Float(0, 1)},
        constraints=[lambda params: params["a"] != "w" or params["x"] > 0.5],
    )
    region = space.region({"b": "s"} if fixed else None)
    assert region is not None
    domain = Domain.of(space, CPU, region)
    x = domain.snap(domain.sample(8, torch.Generator().manual_seed(seed), torch.zeros(1, 1, 3, dtype=torch.float64)))
    for fork in domain.forks:
        changed = domain.changed(x, [fork])
        assert bool(region.contains(changed).all())
        before = x.repeat_interleave(len(fork.values), -2)
        differs = (changed - before).abs() > 1e-12
        differs[..., fork.coordinate] = False
        assert not bool(differs.any())
        if fixed:
            assert {space.decode(u)["b"] for u in changed[0].numpy()} == {"s"}


@pytest.mark.parametrize("stretch", [False, True], ids=["as it is", "with a heavy tail"])
def test_a_run_does_not_stay_with_the_choices_that_looked_good_first(stretch: bool) -> None:
    """Sixty combinations of choices, of which labels alone leave most runs at a wrong one."""
    cost = [np.random.default_rng(seed).permutation(k) for seed, k in enumerate((5, 4, 3))]

    def f(params: dict[str, object]) -> float:
        wrong = sum(int(cost[i][int(str(params[f"c{i}"])[1:])]) for i in range(3))
        value = 0.15 * wrong + 2 * (float(str(params["x"])) - 0.3) ** 2 + 0.02 * (int(str(params["n"])) - 4) ** 2
        return 10**value if stretch else value

    space = space_of(5, 4, 3)
    right = {f"c{i}": f"{i}{int(np.argmin(cost[i]))}" for i in range(3)}
    found = 0
    for seed in range(3):
        best = ms.minimize(f, space, 35, seed=seed, config=FAST, progress=False).best
        assert best is not None
        found += all(best.params[name] == choice for name, choice in right.items())
    assert found == 3


def test_the_papers_preset_follows_its_labels() -> None:
    assert ms.DMSConfig.paper(3).choose_by == ms.DMSConfig.printed(3).choose_by == "label"
    with pytest.raises(ms.ConfigError, match="choose_by"):
        ms.DMSConfig(choose_by="luck")  # type: ignore[arg-type]
