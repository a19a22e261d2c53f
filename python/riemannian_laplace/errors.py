"""Exceptions and warnings: a small family, with the engine's messages.

Each exception is also one of Python's own, so that ``except ValueError`` catches what a caller got wrong.

>>> issubclass(InputError, LaplaceError) and issubclass(InputError, ValueError)
True
"""

from __future__ import annotations

__all__ = [
    "FileError",
    "InputError",
    "LaplaceError",
    "LaplaceWarning",
    "MemoryLimitError",
    "MissingKeyError",
    "NotFittedError",
    "NumericalError",
    "UnsupportedError",
]


class LaplaceError(Exception):
    """Everything that this package raises."""


class InputError(LaplaceError, ValueError):
    """A model, data or a setting that cannot be used; the message says which and why."""


class MissingKeyError(InputError, KeyError):
    """A dictionary of data without the key that was named."""

    __str__ = Exception.__str__


class UnsupportedError(LaplaceError, NotImplementedError):
    """Something that is well-formed but not offered, such as a layer that the engine does not know."""


class FileError(LaplaceError, OSError):
    """A file that cannot be read or written."""


class MemoryLimitError(LaplaceError, MemoryError):
    """The work would need more memory than there is; the message says what would fit."""


class NumericalError(LaplaceError, ArithmeticError):
    """The work failed: a matrix that is not positive definite, too many samples without a certificate…"""


class NotFittedError(LaplaceError, AttributeError, ValueError):
    """The posterior is asked for before :meth:`~riemannian_laplace.Laplace.fit`."""


class LaplaceWarning(UserWarning):
    """What a person should know about a result."""
