"""An earlier study on a related task: last month's data set, the older machine, the smaller model.

    python examples/transfer.py --trials 15

The same kind of process on a new machine: its optimum has moved a little, and it is measured on another scale.
"""

import argparse

import modeseek as ms

space = ms.Space(
    {"temperature": ms.Float(20, 90), "flow": ms.Float(0.1, 10, log=True), "valve": ms.Categorical(["A", "B"])}
)


def scrap(params, best_temperature, scale):
    off = ((params["temperature"] - best_temperature) / 20) ** 2 + abs(params["flow"] - 2) / 4
    return scale * (off + (0.3 if params["valve"] == "B" else 0.0))


def on_the_old_machine(params):
    return scrap(params, best_temperature=60, scale=7.0)


def on_the_new_machine(params):
    return scrap(params, best_temperature=64, scale=1.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=15)
    args = parser.parse_args()

    earlier = ms.minimize(on_the_old_machine, space, budget=2 * args.trials, seed=1, progress=False)
    for name, transfer in (("without", None), ("with", earlier)):
        result = ms.minimize(on_the_new_machine, space, budget=args.trials, seed=0, transfer=transfer, progress=False)
        print(f"{name} the earlier study: best value {result.best.value:.4g} at {result.best.params}")
