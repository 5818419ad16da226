"""Constraints that only an evaluation can tell: a welded beam that must not break.

    python examples/black_box_constraints.py

The cost of a welded beam (Coello 2002, simplified) is to be small, while stress, bending and buckling stay below their
limits. Each evaluation measures all of them; a beam is feasible where every constraint is at most 0.
"""

import argparse

import modeseek as ms

LOAD, LENGTH, YOUNG = 6000.0, 14.0, 30e6

space = ms.Space(
    {
        "weld": ms.Float(0.125, 2.0),  # inches
        "joint": ms.Float(0.1, 10.0),
        "height": ms.Float(1.0, 10.0),
        "width": ms.Float(0.1, 2.0),
    }
)


def beam(params):
    weld, joint, height, width = params["weld"], params["joint"], params["height"], params["width"]
    cost = 1.10471 * weld**2 * joint + 0.04811 * height * width * (LENGTH + joint)
    shear = LOAD / (2**0.5 * weld * joint)
    bending = 6 * LOAD * LENGTH / (width * height**2)
    deflection = 4 * LOAD * LENGTH**3 / (YOUNG * width * height**3)
    constraints = [shear / 13600 - 1, bending / 30000 - 1, deflection / 0.25 - 1, weld - width]
    return ms.Outcome(cost, constraints=constraints)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    args = parser.parse_args()

    heavy = {"weld": 0.5, "joint": 5.0, "height": 9.0, "width": 1.0}  # a beam that is known to hold
    result = ms.minimize(beam, space, budget=args.trials, seed=0, known=[(heavy, beam(heavy))])
    print(result)  # has the best value of a beam that holds
