"""How alike the outcomes of two points are, and the matrices of it.

q      squared distance of two points, sum over dimensions of w (x - x')²; for a choice the
difference is 0 or 1 (Hamming)
w      inverse squared length scales, one per dimension
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Array = NDArray[np.float64]


def matern(q: Array) -> tuple[Array, Array]:
    """Matern-5/2 correlation at squared distance q, and its derivative by q."""
    a = np.sqrt(5.0 * q)
    decay = np.exp(-a)
    slope = (-5.0 / 6.0) * (1.0 + a) * decay
    return (1.0 + a + (a * a) / 3.0) * decay, slope


def weighted_distances(a: Array, b: Array, weights: Array, choices: NDArray[np.bool_]) -> Array:
    """Squared distances q between points, (len(a), len(b)).

    Numbers go through one matrix product; what it loses to rounding, about 1e-15, is
    below the jitter.
    """
    numeric = ~choices
    roots = np.sqrt(weights[numeric])
    u, v = a[:, numeric] * roots, b[:, numeric] * roots
    q = (u * u).sum(axis=1)[:, None] + (v * v).sum(axis=1)[None, :] - 2.0 * (u @ v.T)
    for column in np.flatnonzero(choices):
        q += weights[column] * (a[:, [column]] != b[None, :, column])
    return np.maximum(q, 0.0)


def pair_differences(points: Array, choices: NDArray[np.bool_]) -> Array:
    """Squared differences of every pair by dimension: lower triangle by rows, (d, n(n-1)/2)."""
    rows, columns = np.tril_indices(len(points), -1)
    pairs = (points.T[:, rows] - points.T[:, columns]) ** 2
    pairs[choices] = pairs[choices] != 0.0
    return np.asarray(pairs)


def cholesky(matrix: Array) -> tuple[Array, float]:
    """Lower factor of a covariance and the jitter it took, raised until there is one."""
    size = float(np.mean(np.diagonal(matrix))) or 1.0
    jitter = 0.0
    for power in range(-12, 1):
        root, problem = lapack.dpotrf(matrix + jitter * np.eye(len(matrix)), lower=1, clean=1)
        if not problem and np.isfinite(root).all():
            return np.asarray(root), jitter
        jitter = size * 10.0**power
    raise ArithmeticError("a covariance has no Cholesky factor; look for NaN among the points")
