"""Follow a run in MLflow: one run for the optimization, one nested in it per trial.

python examples/mlflow_callback.py --trials 20

Needs `pip install mlflow` (it has run with 3.17.2); then `mlflow ui` shows the runs. Without it, this example prints
what it would log.
"""

import argparse
import contextlib
import math

import modeseek as ms

try:
    import mlflow
except ImportError:

    class _Printed:
        """Prints what MLflow would get."""

        @staticmethod
        @contextlib.contextmanager
        def start_run(run_name, nested=False):
            print(f"{'  ' * nested}run {run_name}")
            yield

        @staticmethod
        def log_params(params):
            print(f"    params {params}")

        @staticmethod
        def log_metric(key, value, step=None):
            print(f"    {key} = {value:.6g}" + ("" if step is None else f" at step {step}"))

        @staticmethod
        def set_tag(key, value):
            print(f"    {key}: {value}")

    mlflow = _Printed
    print("mlflow is not installed (pip install mlflow): this is what it would get")


def log(optimizer, trial):
    """A callback is called after every trial, in the process of `minimize`, whatever n_workers is."""
    with mlflow.start_run(run_name=f"trial {trial.number}", nested=True):
        mlflow.log_params(trial.params)
        mlflow.set_tag("state", trial.state.value)
        if trial.value is not None:
            mlflow.log_metric("value", trial.value)
        if trial.seconds is not None:
            mlflow.log_metric("seconds", trial.seconds)
    if optimizer.best is not None:
        mlflow.log_metric("best", optimizer.best.value, step=trial.number)


def loss(p):
    return (math.log10(p["lr"]) + 3) ** 2 + abs(p["units"] - 100) / 50


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    args = parser.parse_args()

    space = ms.Space({"lr": ms.Float(1e-5, 1e-1, log=True), "units": ms.Int(50, 200)})
    with mlflow.start_run(run_name="modeseek"):
        result = ms.minimize(loss, space, budget=args.trials, seed=0, callbacks=[log])
        mlflow.log_params({f"best {name}": value for name, value in result.best.params.items()})
    print(f"best value {result.best.value:.6g}")
