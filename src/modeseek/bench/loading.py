"""Problems and methods of your own: `my_file.py:name`, without a change to this package."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from modeseek.checks import did_you_mean
from modeseek.errors import ConfigError


def is_file_name(text: str) -> bool:
    """Whether this names something in a file, as my_file.py:name does."""
    return ".py:" in text


def load_object(text: str) -> Any:
    """What `path/to/my_file.py:name` names; ConfigError when the file or the name is not there."""
    path, _, name = text.rpartition(":")
    module = _module(Path(path).resolve())
    if not hasattr(module, name):
        raise ConfigError(f"{path} has no {name!r}{did_you_mean(name, dir(module))}")
    return getattr(module, name)


@lru_cache
def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"modeseek_file_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that what it defines can be pickled within this process
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
