"""m and the number of epochs by how many hills the best pseudo-inputs are on, against the fixed values.

    python -m studies.hills --task styblinski-tang-2,griewank-3 --method dms-paper --enough 4 --reps 20

A hill is an input among the best quarter of the pseudo-dataset that has none with a better label within WIDTH, as the
largest difference of a coordinate. `--enough` hills are worth all of m and all epochs, one of four a quarter of both
(the first of the pseudo-inputs, so that they are as evenly spread). Every row of a batch is counted by itself, and
rows of a size are trained together, so that each gets what it would get alone. The records of the fixed values are
those in `--fixed`, of the same seeds. Printed are final regret of both and Wilcoxon's test, at the end and all along.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from modeseek import dms
from modeseek.bench.campaign.campaign import run_campaign
from modeseek.bench.campaign.records import Store
from modeseek.bench.report.curves import gather, p_value, paired, verdict
from modeseek.config import DMSConfig
from modeseek.diffusion.sde import VPSDE
from modeseek.domain import Domain
from modeseek.draws import Draws

WIDTH = 0.2  # of a hill, on the unit cube
learn_and_draw = dms._learn_and_draw
seen: Counter[int] = Counter()  # hills, over rows and iterations


def count_hills(x: Tensor, y_hat: Tensor, width: float = WIDTH) -> Tensor:
    """Of pseudo-inputs (b x m x d) with labels (b x m): b."""
    top = y_hat.argsort(dim=-1, descending=True, stable=True)[..., : -(-x.shape[-2] // 4), None]
    best = x.gather(-2, top.expand(*top.shape[:-1], x.shape[-1]))
    near = torch.cdist(best, best, p=torch.inf) < width
    return (~near.tril(-1).any(-1)).sum(-1)


def by_hills(
    enough: int,
    x: Tensor,
    y_hat: Tensor,
    start: Tensor,
    otherwise: dms._Drawn,
    sde: VPSDE,
    config: DMSConfig,
    noise: Draws,
    domain: Domain,
    clock: dms._Clock,
) -> dms._Drawn:
    """Lines 7 and 8 of Algorithm 1 (`dms._learn_and_draw`) with as much of the pseudo-dataset as hills are worth."""
    share = count_hills(x, y_hat).clamp_max(enough)
    seen.update(share.flatten().tolist())
    drawn = dms._Drawn(*(part.clone() for part in otherwise))
    for hills in sorted(set(share.flatten().tolist())):
        rows = share == hills
        m, epochs, hold = (-(-whole * hills // enough) for whole in (x.shape[-2], config.epochs, config.hold_epochs))
        numbers = [g for g, chosen in zip(noise.generators, rows.flatten().tolist(), strict=True) if chosen]
        of_these = learn_and_draw(
            x[rows][:, :m],
            y_hat[rows][:, :m],
            start[rows],
            dms._Drawn(*(part[rows] for part in otherwise)),
            sde,
            replace(config, epochs=epochs, hold_epochs=hold),
            Draws(numbers),
            domain,
            clock,
        )
        for all_of_them, part in zip(drawn, of_these, strict=True):
            all_of_them[rows] = part
    return drawn


def compare(task: str, method: str, adapted: Path, fixed: Path) -> str:
    """The adapted method beside the fixed one, on the replications that both have."""
    of_adapted, of_fixed = (
        gather(r for r in Store(at) if (r.task, r.method) == (task, method))[task][method] for at in (adapted, fixed)
    )
    x, y = paired(of_adapted, of_fixed)
    tests = ", ".join(
        f"{verdict(of_adapted, of_fixed, what)} {when} (p = {p_value(of_adapted, of_fixed, what):.2g})"
        for what, when in (("final", "at the end"), ("area", "all along"))
    )
    return (
        f"{task}, {method}, {len(x)} replications: mean {x.mean():.3g} against {y.mean():.3g}, "
        f"median {np.median(x):.3g} against {np.median(y):.3g}; {tests}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="styblinski-tang-2,griewank-3,shekel-4")
    parser.add_argument("--method", default="dms-paper")
    parser.add_argument("--enough", type=int, default=4)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fixed", type=Path, default=Path("results/paper.parquet"))
    parser.add_argument("--out", type=Path, default=Path("studies/runs/hills"))
    options = parser.parse_args()

    def of_these(*args: object, **rest: object) -> dms._Drawn:
        return by_hills(options.enough, *args, **rest)  # type: ignore[arg-type]

    dms._learn_and_draw = of_these  # type: ignore[assignment]
    out = options.out / str(options.enough)
    for task in options.task.split(","):
        seen.clear()
        run_campaign([task], [options.method], Store(out), reps=options.reps, engine="batch", device=options.device)
        print(f"{compare(task, options.method, out, options.fixed)}; hills {dict(sorted(seen.items()))}", flush=True)


if __name__ == "__main__":
    main()
