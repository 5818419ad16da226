"""Tune a scikit-learn pipeline with an Optuna study: cross-validated on the training data, judged once on the rest.

    python examples/sklearn_pipeline.py

The data are scikit-learn's handwritten digits, 1797 images of 8 x 8. Half of them are held out until the end.
"""

import argparse

import optuna
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from modeseek.integrations.optuna import DMSSampler

SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler}


def default():
    return make_pipeline(StandardScaler(), PCA(), SVC())


def tuned(params):
    return make_pipeline(
        SCALERS[params["scaler"]](),
        PCA(n_components=params["components"]),
        SVC(C=params["C"], gamma=params["gamma"]),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

    def objective(trial):
        trial.suggest_categorical("scaler", list(SCALERS))
        trial.suggest_int("components", 5, 60)
        trial.suggest_float("C", 1e-2, 1e3, log=True)
        trial.suggest_float("gamma", 1e-5, 1e1, log=True)
        return cross_val_score(tuned(trial.params), X_train, y_train, cv=5).mean()

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=DMSSampler(seed=args.seed))
    study.optimize(objective, n_trials=args.trials, show_progress_bar=True)
    print(f"best value {study.best_value:.4f} (accuracy, 5-fold cross-validation) with {study.best_params}")
    for name, pipeline in (("default", default()), ("tuned", tuned(study.best_params))):
        print(f"{name}: accuracy {pipeline.fit(X_train, y_train).score(X_test, y_test):.4f} on the test set")
