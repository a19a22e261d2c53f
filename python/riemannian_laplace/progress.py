"""A progress bar for terminals and notebooks; nothing elsewhere."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["watch"]

Watch = Callable[[int], None]

#: Seconds before a bar appears: short work shows none.
_PATIENCE = 0.5
_WIDTH = 30


def _notebook() -> Any:
    """The display function of a notebook, or None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    return importlib.import_module("IPython.display").display


class _Bar:
    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total = label, total
        self.began = time.monotonic()
        self.shown = ""
        self.handle: Any = None
        self.display = _notebook()

    def text(self, done: int) -> str:
        seconds = time.monotonic() - self.began
        if not self.total:
            return f"{self.label} … {seconds:.0f} s"
        share = min(done / self.total, 1.0)
        filled = int(share * _WIDTH)
        left = f", {seconds * (1 - share) / share:.0f} s left" if done else ""
        return f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{self.total}{left}"

    def __call__(self, done: int) -> None:
        if time.monotonic() - self.began < _PATIENCE:
            return
        text = self.text(done)
        if text == self.shown:
            return
        if self.display is not None:
            if self.handle is None:
                self.handle = self.display({"text/plain": text}, raw=True, display_id=True)
            else:
                self.handle.update({"text/plain": text}, raw=True)
        else:
            sys.stderr.write("\r" + text.ljust(len(self.shown)))
            sys.stderr.flush()
        self.shown = text

    def close(self) -> None:
        if self.shown and self.display is None:
            sys.stderr.write("\r" + " " * len(self.shown) + "\r")
            sys.stderr.flush()


@contextmanager
def watch(label: str, total: int | None = None, enabled: bool = True) -> Iterator[Watch | None]:
    """Something to tell how many pieces are done; None where nobody would see it."""
    if not enabled or not (sys.stderr is not None and (sys.stderr.isatty() or _notebook() is not None)):
        yield None
        return
    bar = _Bar(label, total)
    try:
        yield bar
    finally:
        bar.close()
