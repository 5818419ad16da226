"""Several objectives at once: a cantilever that is to be light and to bend little, and must not break.

    python examples/several_objectives.py
    python examples/several_objectives.py --plot front.png     # a picture of the front (extra "plots")

No beam is best in both. What comes back is the front: each of its beams is lighter than all that bend less. The mass is
minimized and the stiffness maximized, so that both directions are to be seen; stress is a black-box constraint.
"""

import argparse

import modeseek as ms

LOAD, LENGTH, YOUNG, DENSITY, STRENGTH = 2000.0, 1.0, 70e9, 2700.0, 120e6

space = ms.Space({"height": ms.Float(0.02, 0.2), "width": ms.Float(0.01, 0.1), "wall": ms.Float(0.1, 1.0)})


def beam(params):
    """A box section; `wall` is 1 for a solid one."""
    height, width, wall = params["height"], params["width"], params["wall"]
    hollow = 1 - wall
    area = height * width * (1 - hollow**2)
    inertia = width * height**3 / 12 * (1 - hollow**4)
    mass = DENSITY * area * LENGTH
    stiffness = 3 * YOUNG * inertia / LENGTH**3 / 1e6  # N per micrometre
    stress = LOAD * LENGTH * height / 2 / inertia
    return ms.Outcome([mass, stiffness], constraints=[stress / STRENGTH - 1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--plot", metavar="FILE")
    args = parser.parse_args()

    heavy = {"height": 0.15, "width": 0.05, "wall": 0.5}  # a beam that is known to hold
    result = ms.minimize(
        beam,
        space,
        budget=args.trials,
        directions=["minimize", "maximize"],
        reference=[20.0, 0.0],  # heavier than this, no beam is of interest
        known=[(heavy, beam(heavy))],
        seed=0,
    )
    print(result)  # has the best value of each objective
    for trial in result.front:
        mass, stiffness = trial.values
        print(f"  {mass:6.2f} kg  {stiffness:6.3f} N/um  {trial.params}")
    if args.plot:
        axes = result.plot()
        axes.set(xlabel="mass in kg", ylabel="stiffness in N/µm")
        axes.figure.savefig(args.plot, dpi=130)
