"""The machine that is free, and the day's temperature, are set by the outside world; the speed is ours to choose.

python examples/context.py --trials 30

Each trial is asked for what is given that day, and learns from all days before, on either machine.
"""

import argparse

import modeseek as ms

space = ms.Space(
    {
        "machine": ms.Categorical(["A", "B"]),
        "temperature": ms.Float(10, 30),
        "speed": ms.Float(0, 10),
        "pressure": ms.Float(1, 5),
    }
)


def scrap(machine, temperature, speed, pressure):
    best_speed = 0.2 * temperature + (1.0 if machine == "B" else 0.0)
    return (speed - best_speed) ** 2 + (pressure - 2.5) ** 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()

    opt = ms.Optimizer(space, seed=0)
    for day in range(args.trials):
        given = {"machine": "AB"[day % 2], "temperature": 12.0 + 7 * day % 16}
        trial = opt.ask(fixed=given)
        opt.tell(trial, scrap(**trial.params))

    tomorrow = {"machine": "B", "temperature": 21.5}
    advice = opt.best_for(tomorrow)
    print(f"for {tomorrow}: speed {advice.params['speed']:.2f}, pressure {advice.params['pressure']:.2f}")
    print(f"expected scrap {advice.value:.2f} ± {advice.std:.2f}, really {scrap(**advice.params):.2f}")
    print(f"best value {opt.best.value:.4g} at {opt.best.params}")
