"""Tune a mixed space with DMSSampler, loaded from OptunaHub."""

from __future__ import annotations

import math

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    """A stand-in for a validation loss: best at a learning rate of 1e-3, 120 units and "relu"."""
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    units = trial.suggest_int("units", 50, 200)
    activation = trial.suggest_categorical("activation", ["relu", "tanh"])
    return (math.log10(lr) + 3) ** 2 + ((units - 120) / 50) ** 2 + 0.5 * (activation == "tanh")


if __name__ == "__main__":
    module = optunahub.load_module("samplers/dms")
    study = optuna.create_study(sampler=module.DMSSampler(seed=0))
    study.optimize(objective, n_trials=20)
    print(study.best_trial.params, study.best_value)
