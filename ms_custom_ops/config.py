# SPDX-License-Identifier: Apache-2.0
"""Configuration: the only place that reads the environment. Read once, typed, described in
docs/configuration.md."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ms_custom_ops.errors import MsCustomOpsError, describe

PREFIX = "MS_CUSTOM_OPS_"
DEFAULT_SOC = "Ascend910B1"
DEFAULT_CACHE_LIMIT_MB = 1024
_MB = 1 << 20


class ConfigError(MsCustomOpsError, ValueError):
    """A variable of the environment holds a value of the wrong form."""


@dataclass(frozen=True)
class Config:
    """What the environment decides.

    Attributes:
        cache_dir: folder of the on-disk program cache, None to keep programs in memory only.
        cache_limit_bytes: size above which the least recently used programs are removed, 0 for no limit.
        soc: chip that kernels are traced for until ``set_soc`` says otherwise.
        num_threads: threads of the native engine, None for the number of cores this process may use.
        time_limit: seconds after which a kernel on the native engine ends with an error, None for no limit.
        ops_path: folders of users' ops, see docs/user_ops.md.
        cann: folder of an installed CANN toolkit, None where there is none.
        cxx: the C++ compiler of Ascend C kernels, None for the first of g++, c++ and clang++ that is there.
        check: whether ops run checked, see docs/sanitizer.md.
    """

    cache_dir: Path | None
    cache_limit_bytes: int
    soc: str
    num_threads: int | None
    time_limit: float | None
    ops_path: tuple[Path, ...] = ()
    cann: Path | None = None
    cxx: str | None = None
    check: bool = False


def _integer(environ: Mapping[str, str], name: str, default: int | None, minimum: int) -> int | None:
    text = environ.get(PREFIX + name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise ConfigError(describe("environment", PREFIX + name, repr(text), f"an integer of at least {minimum}"))
    return value


def _seconds(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(PREFIX + name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ConfigError(describe("environment", PREFIX + name, repr(text), "a number of seconds above 0"))
    return value


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(PREFIX + name, "").strip()
    if text not in ("", "0", "1"):
        raise ConfigError(describe("environment", PREFIX + name, repr(text), "0 or 1"))
    return text == "1"


def _cache_dir(environ: Mapping[str, str]) -> Path | None:
    text = environ.get(PREFIX + "CACHE_DIR", "").strip()
    if text.lower() == "off":
        return None
    if text:
        return Path(text).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME", "").strip()  # ignored unless absolute, as the XDG base directory rules say
    if base and os.path.isabs(base):
        return Path(base) / "ms_custom_ops"
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "ms_custom_ops" if os.path.isabs(home) else None


def _folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    parts = environ.get(PREFIX + "PATH", "").split(os.pathsep)
    return tuple(Path(part).expanduser().absolute() for part in parts if part.strip())


def _cann(environ: Mapping[str, str]) -> Path | None:
    """What CANN's own set_env.sh names."""
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        folder = environ.get(name, "").strip()
        if folder and Path(folder).is_dir():
            return Path(folder)
    return None


def read_config(environ: Mapping[str, str]) -> Config:
    """Config of an environment; ConfigError names the variable, its value and what is accepted."""
    limit_mb = _integer(environ, "CACHE_LIMIT_MB", DEFAULT_CACHE_LIMIT_MB, 0)
    assert limit_mb is not None
    return Config(
        cache_dir=_cache_dir(environ),
        cache_limit_bytes=limit_mb * _MB,
        soc=environ.get(PREFIX + "SOC", "").strip() or DEFAULT_SOC,
        num_threads=_integer(environ, "NUM_THREADS", None, 1),
        time_limit=_seconds(environ, "TIME_LIMIT"),
        ops_path=_folders(environ),
        cann=_cann(environ),
        cxx=environ.get(PREFIX + "CXX", "").strip() or None,
        check=_flag(environ, "CHECK"),
    )


@functools.cache
def config() -> Config:
    """Config of this process, read from the environment at the first call."""
    return read_config(os.environ)
