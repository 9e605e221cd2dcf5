# SPDX-License-Identifier: Apache-2.0
"""Timing of several implementations side by side, and what a figure needs beside it to mean something."""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

OURS = "ms_custom_ops"
FORWARD, FORWARD_BACKWARD = "fwd", "fwd+bwd"
SLICE_SECONDS = 0.03  # of one contender in one round


@dataclass(frozen=True)
class Contender:
    """One implementation of one case.

    ``run`` does the work once, returns only when it is done, and hands back its outputs; ``to_numpy`` turns
    those into arrays and is not timed.
    """

    impl: str
    dtype: str
    passes: str
    run: Callable[[], object]
    to_numpy: Callable[[object], list[np.ndarray]]


@dataclass(frozen=True)
class Timing:
    """Wall time of one contender in ms over all rounds."""

    case: str
    impl: str
    dtype: str
    passes: str
    median_ms: float
    min_ms: float

    def record(self) -> dict[str, str | float]:
        return {
            "case": self.case,
            "impl": self.impl,
            "dtype": self.dtype,
            "pass": self.passes,
            "median_ms": round(self.median_ms, 4),
            "min_ms": round(self.min_ms, 4),
        }


def measure(run: Callable[[], object]) -> float:
    """Time of one call in ms: the median of the calls that fit into a slice of time, at least two.

    The first third is left out. What ran before has left caches, branch predictors and sleeping threads in its
    own state, from which a short call recovers only after several.
    """
    calls: list[float] = []
    end = time.perf_counter() + SLICE_SECONDS
    while len(calls) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        calls.append((time.perf_counter() - start) * 1e3)
    return statistics.median(calls[max(1, len(calls) // 3) :])


def interleave(case: str, contenders: Sequence[Contender], rounds: int, warm_up: int = 2) -> list[Timing]:
    """Times all contenders in turn, round after round: a slow spell of the machine meets every one."""
    for contender in contenders:
        for _ in range(warm_up):
            contender.run()
    samples: list[list[float]] = [[] for _ in contenders]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for contender, times in zip(contenders, samples, strict=True):
                times.append(measure(contender.run))
    finally:
        gc.enable()
    return [
        Timing(case, c.impl, c.dtype, c.passes, statistics.median(times), min(times))
        for c, times in zip(contenders, samples, strict=True)
    ]


def check_outputs(case: str, contender: Contender, expected: Sequence[np.ndarray], rms_limit: float) -> None:
    """Raises unless every output is within ``rms_limit`` of the float64 reference: wrong is not timed."""
    who = f"{case}, {contender.impl} {contender.dtype} {contender.passes}"
    outputs = contender.to_numpy(contender.run())
    if len(outputs) != len(expected):
        raise RuntimeError(f"{who}: gave {len(outputs)} outputs, expected {len(expected)}")
    for index, (got, want) in enumerate(zip(outputs, expected, strict=True)):
        error = np.sqrt(np.mean((got.astype(np.float64) - want) ** 2) / np.mean(want**2))
        if not error <= rms_limit:
            raise RuntimeError(
                f"{who}: output {index} has a relative rms error of {error:.2e} against "
                f"float64, accepted is {rms_limit:.0e}"
            )


def machine_line() -> str:
    """Processor, cores, load, versions and commit, as one printable line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    # aarch64 kernels give no model name.
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = ("ms_custom_ops", "mindspore", "torch", "numpy")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages if importlib.util.find_spec(name)]
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, {', '.join(versions)}, commit {commit()}"
    )


def commit() -> str:
    """The checkout's commit, marked when files differ from it; 'unknown' outside a git checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
