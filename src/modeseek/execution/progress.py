"""The one progress bar: on standard error, or as a widget in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm


def progress_bar(
    total: int,
    *,
    over: Iterable[Any] | None = None,
    done: int = 0,
    show: bool = True,
    unit: str = "it",
    name: str | None = None,
    keep: bool = True,
) -> Any:
    """A bar of `total` steps of which some are done; a context manager with `update`, `write` and `set_postfix_str`.

    Given what to go `over`, it is that, with a step of the bar for each item; `keep` leaves the bar there at the end.
    """
    return tqdm(over, total=total, initial=done, disable=not show, unit=unit, desc=name, leave=keep)
