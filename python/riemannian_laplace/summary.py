"""A posterior in a few lines, as text and as HTML."""

from __future__ import annotations

from html import escape

import numpy as np

from riemannian_laplace import _core

__all__ = ["html", "rows", "text"]


def _numbers(values: object) -> str:
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.size > 6:
        return f"{array.size} values, {array.min():.4g} to {array.max():.4g}"
    return ", ".join(f"{value:.4g}" for value in array)


def rows(posterior: _core.Posterior) -> list[tuple[str, str]]:
    """What there is to say, line by line."""
    lines = [
        ("network", posterior.description),
        ("likelihood", posterior.likelihood),
        ("uncertain", f"{posterior.weights} ({posterior.n_params})"),
        ("structure", posterior.structure),
        ("data points", f"{posterior.n_data}"),
        ("prior precision", _numbers(posterior.prior_precision)),
    ]
    if posterior.sigma is not None:
        lines.append(("sigma", _numbers(posterior.sigma)))
    if posterior.temperature != 1.0:
        lines.append(("temperature", f"{posterior.temperature:.4g}"))
    lines += [
        ("log likelihood", f"{posterior.log_likelihood:.4f}"),
        ("log marginal likelihood", f"{posterior.log_marginal_likelihood:.4f}"),
        ("effective parameters", f"{posterior.effective_parameters:.2f}"),
    ]
    return lines


def text(posterior: _core.Posterior) -> str:
    """As lines of text."""
    lines = rows(posterior)
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in lines)


def html(posterior: _core.Posterior) -> str:
    """As an HTML table, for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in rows(posterior)
    )
    return f"<table><caption>Laplace posterior</caption>{cells}</table>"
