"""DMS under Ray Tune: the sampler for Optuna within Ray's OptunaSearch, two trials at a time.

pip install -c constraints.txt ".[ray]"
python examples/ray_tune.py --trials 30

A learning rate over 3e-2 diverges to NaN. FiniteOptunaSearch makes that a failed trial, where Ray's own OptunaSearch
would leave one that seems to run forever. The least loss is 0, at a learning rate of 1e-3, 120 units and "relu".
"""

import argparse
import math
import tempfile

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter

from modeseek.integrations.optuna import DMSSampler
from modeseek.integrations.ray import FiniteOptunaSearch

space = {
    "lr": tune.loguniform(1e-5, 1e-1),
    "units": tune.randint(50, 201),
    "act": tune.choice(["relu", "tanh"]),
}


def train(config):
    off = math.log10(config["lr"]) + 3
    loss = off**2 + ((config["units"] - 120) / 75) ** 2 + (0.0 if config["act"] == "relu" else 0.3)
    return {"loss": math.nan if config["lr"] > 3e-2 else loss}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()

    search = ConcurrencyLimiter(FiniteOptunaSearch(sampler=DMSSampler(seed=0)), max_concurrent=2)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", search_alg=search, num_samples=args.trials, reuse_actors=True
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        best = tuner.fit().get_best_result()
    print(f"best value {best.metrics['loss']:.4g} at {best.config}")
