"""N processes that open one storage at the same moment: `python start_together.py STORAGE N`.

For test_storage.py and test_database_server.py. They are forked, so that what they import is imported once and none is
ahead of the others. Each makes one trial.
"""

from __future__ import annotations

import os
import sys
import traceback

import modeseek as ms
from modeseek.commands.optimize import store
from modeseek.commands.optimize.own_trials import OwnTrials
from modeseek.commands.optimize.storage import open_storage
from modeseek.outcomes import Measured

SPACE = ms.Space({"x": ms.Float(0, 1)})


def work(location: str) -> int:
    study, seed = store.open_study(open_storage(location), "shared", None, SPACE)
    with OwnTrials(study, SPACE) as trials:
        trial, params = trials.begin()
        trial.set_user_attr("seed", seed)
        trials.finish(trial, Measured((params["x"],)))
    return 0


def main(location: str, n: int) -> int:
    open_storage("sqlite:///:memory:")  # what SQLAlchemy imports when it is first used is imported here
    start, started = os.pipe()
    children = []
    for _ in range(n):
        child = os.fork()
        if child == 0:
            os.close(started)
            os.read(start, 1)  # ends when the parent closes the other end, for all at once
            try:
                status = work(location)
            except BaseException:
                traceback.print_exc()
                status = 1
            os._exit(status)
        children.append(child)
    os.close(started)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
