"""The one progress bar: on standard error, or as a widget in a notebook."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm


def progress_bar(total: int, *, done: int = 0, show: bool = True, unit: str = "it", name: str | None = None) -> Any:
    """A bar of `total` steps of which some are done; a context manager with `update`, `write` and `set_postfix_str`."""
    return tqdm(total=total, initial=done, disable=not show, unit=unit, desc=name)
