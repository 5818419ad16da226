"""How well the score is learned for different scales of the time that is embedded, where the exact score is known.

    python -m studies.time_embedding

Data: x | y ~ N(y·a, s²) with m = 800 points and the paper's training (100 epochs). Printed is the error of the learned
conditional score relative to the exact one, averaged over labels and over times from 0.02 to 0.9.
"""

from __future__ import annotations

import torch

from modeseek.diffusion import network, training
from modeseek.diffusion.sde import VPSDE

SDE, HIDDEN, M = VPSDE(), 256, 800


def score_error(d: int, s: float, scale: float) -> float:
    """Mean relative error of the score that one training learns."""
    g = torch.Generator().manual_seed(0)
    a = torch.linspace(-0.4, 0.4, d)
    y = torch.randn(1, M, generator=g)
    x = y[..., None] * a + s * torch.randn(1, M, d, generator=g)
    errors = []
    theta, _ = training.train(
        network.initialize((1,), d, HIDDEN, g),
        x,
        y,
        sde=SDE,
        schedule=training.Schedule(),
        hidden=HIDDEN,
        t0=1e-3,
        p_drop=0.15,
        loss_weight="h",
        source=g,
        time_scale=scale,
    )
    for t in torch.tensor([0.02, 0.05, 0.2, 0.5, 0.9]):
        for label in torch.tensor([-1.0, 0.0, 1.0, 2.0]):
            variance = SDE.alpha(t) ** 2 * s**2 + SDE.h(t)
            mean = SDE.alpha(t) * label * a
            x_t = mean + variance.sqrt() * torch.randn(1, 2000, d, generator=g)
            features = network.condition_features(t[None, None], label[None, None], time_scale=scale)
            learned = -network.predict(theta, x_t, features, HIDDEN)[:, 0] / SDE.h(t).sqrt()
            exact = -(x_t - mean) / variance
            errors.append((learned - exact).norm() / exact.norm())
    return float(torch.stack(errors).mean())


def main() -> None:
    """Measure and print."""
    cases = [(d, s) for d in (2, 10) for s in (0.2, 0.02)]
    print("| scale | " + " | ".join(f"d={d}, s={s}" for d, s in cases) + " |")
    print("|---" * (len(cases) + 1) + "|")
    for scale in (1.0, 10.0, 30.0, 100.0, 1000.0):
        print(f"| {scale:g} | " + " | ".join(f"{score_error(d, s, scale):.3f}" for d, s in cases) + " |")


if __name__ == "__main__":
    main()
