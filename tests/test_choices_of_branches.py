"""Which choices come next: by expected improvement between combinations of them (branches.py)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import modeseek as ms
from modeseek.bench.campaign.replication import Work
from modeseek.branches import Branches
from modeseek.domain import Domain, has_steps
from modeseek.fitting import fit_surrogate

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


def test_choices_with_an_order_are_searched_as_whole_numbers_are() -> None:
    """The same run as with the choices' indices, beside choices without order."""
    sizes = [16, 32, 64, 128, 256]

    def f(size: int, kind: str, x: float) -> float:
        return (np.log2(size) - 6) ** 2 + (kind == "b") + (x - 0.4) ** 2

    others = {"kind": ms.Categorical(list("abc")), "x": ms.Float(0, 1)}
    ordered = ms.Space({"size": ms.Categorical(sizes, ordered=True), **others})
    numbers = ms.Space({"size": ms.Int(0, 4), **others})
    assert [fork.coordinate for fork in Domain.of(ordered, CPU).forks] == [0]  # "kind", the first by name
    runs = [
        ms.minimize(of, space, budget=16, n_initial=6, seed=0, config=FAST, progress=False)
        for space, of in ((ordered, lambda p: f(**p)), (numbers, lambda p: f(**{**p, "size": sizes[p["size"]]})))
    ]
    first, second = ([trial.params for trial in run.trials] for run in runs)
    assert first == [{**params, "size": sizes[params["size"]]} for params in second]


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


@pytest.mark.parametrize(
    "stretch", [pytest.param(False, id="as it is"), pytest.param(True, id="with a heavy tail", marks=pytest.mark.slow)]
)
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
    for seed in range(2):
        best = ms.minimize(f, space, 35, seed=seed, config=FAST, progress=False).best
        assert best is not None
        found += all(best.params[name] == choice for name, choice in right.items())
    assert found == 2


def test_the_papers_preset_follows_its_labels() -> None:
    assert ms.DMSConfig.paper(3).choose_by == ms.DMSConfig.printed(3).choose_by == "label"
    with pytest.raises(ms.ConfigError, match="choose_by"):
        ms.DMSConfig(choose_by="luck")  # type: ignore[arg-type]


def test_whole_numbers_with_few_values_are_steps() -> None:
    space = ms.Space(
        {
            "c": ms.Categorical(["a", "b"]),
            "few": ms.Int(1, 32),
            "grid": ms.Float(0, 1, step=0.25),
            "many": ms.Int(0, 32),
            "one": ms.Int(3, 3),
            "parent": ms.Int(0, 1),
            "child": ms.Float(0, 1, when={"parent": 1}),
        }
    )
    domain = Domain.of(space, CPU)
    assert [space.coordinates[step.coordinate] for step in domain.steps] == ["few", "grid"]
    assert [len(step.values) for step in domain.steps] == [32, 5]
    assert not has_steps(ms.Space({"c": ms.Categorical(["a", "b"]), "x": ms.Float(0, 1)}))


def test_a_run_that_has_stalled_one_whole_number_off_looks_at_the_next() -> None:
    """A bowl around n = 4, k = 1, known well at n = 3 alone: side by side with itself, of which one has stalled."""
    space = ms.Space({"k": ms.Int(0, 3), "n": ms.Int(0, 7), "x": ms.Float(0, 1)})
    domain = Domain.of(space, CPU)
    rng = np.random.default_rng(0)
    points = [{"k": int(rng.integers(4)), "n": int(rng.integers(8)), "x": float(rng.random())} for _ in range(12)]
    points += [{"k": 1, "n": 3, "x": 0.5 + 0.01 * i} for i in range(-4, 5)]
    X = torch.from_numpy(np.stack([space.encode(p) for p in points])).expand(2, -1, -1)
    Y = torch.tensor([-((p["k"] - 1) ** 2) - (p["n"] - 4) ** 2 - 10 * (p["x"] - 0.5) ** 2 for p in points])
    gp = fit_surrogate(X, Y.double().expand(2, -1), FAST)
    at = torch.from_numpy(space.encode({"k": 1, "n": 3, "x": 0.5})).expand(2, -1)
    branches = Branches(gp, (), steps=domain.steps, stalled=torch.tensor([True, False]))
    stepped, settled = branches.choose(at, X, gp, domain)
    assert space.decode(stepped.numpy())["n"] == 4
    assert space.decode(stepped.numpy())["k"] == 1
    assert torch.equal(settled, at[1])


def test_steps_are_for_those_who_ask() -> None:
    plain, steps = (Work("mixint-f01-i1-d5", method, 0).config for method in ("dms", "dms[choose_by=steps]"))
    assert plain is not None
    assert steps is not None
    assert (plain.choose_by, steps.choose_by) == ("label", "steps")
    boxed = Work("levy-10", "dms[choose_by=steps]", 0).config
    assert boxed is not None
    assert boxed.choose_by == "label"
