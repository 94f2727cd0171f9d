"""Models by name in a directory, with the habits of the Hub.

Names are imported when first used: the command line does not wait for huggingface_hub.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import HubError
    from .places import default_hub, resolve_model
    from .revisions import Revision
    from .store import LocalHub

_MODULES = {
    "HubError": "errors",
    "LocalHub": "store",
    "Revision": "revisions",
    "default_hub": "places",
    "resolve_model": "places",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


__all__ = ["HubError", "LocalHub", "Revision", "default_hub", "resolve_model"]
