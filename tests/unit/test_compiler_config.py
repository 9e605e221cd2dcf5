# SPDX-License-Identifier: Apache-2.0
"""The configuration: defaults, every variable, and values of the wrong form."""

from __future__ import annotations

from pathlib import Path

import pytest

from ms_custom_ops.config import DEFAULT_SOC, ConfigError, read_config


def test_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = read_config({})
    assert config.cache_dir == tmp_path / ".cache" / "ms_custom_ops"
    assert (config.cache_limit_bytes, config.soc, config.num_threads) == (1 << 30, DEFAULT_SOC, None)
    assert config.time_limit is None


def test_every_variable(tmp_path: Path) -> None:
    config = read_config(
        {
            "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path),
            "MS_CUSTOM_OPS_CACHE_LIMIT_MB": "3",
            "MS_CUSTOM_OPS_SOC": "Ascend310P3",
            "MS_CUSTOM_OPS_NUM_THREADS": "2",
            "MS_CUSTOM_OPS_TIME_LIMIT": "1.5",
        }
    )
    assert config.cache_dir == tmp_path
    assert (config.cache_limit_bytes, config.soc, config.num_threads) == (3 << 20, "Ascend310P3", 2)
    assert config.time_limit == 1.5


@pytest.mark.parametrize(
    "environ, wanted",
    [
        ({"XDG_CACHE_HOME": "/xdg"}, Path("/xdg/ms_custom_ops")),
        ({"MS_CUSTOM_OPS_CACHE_DIR": "off"}, None),
        ({"MS_CUSTOM_OPS_CACHE_DIR": "relative"}, Path.cwd() / "relative"),
    ],
    ids=["xdg", "off", "relative"],
)
def test_cache_folder(environ: dict[str, str], wanted: Path | None) -> None:
    assert read_config(environ).cache_dir == wanted


def test_relative_xdg_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_config({"XDG_CACHE_HOME": "relative"}).cache_dir == tmp_path / ".cache" / "ms_custom_ops"


@pytest.mark.parametrize(
    "name, value, accepted",
    [
        ("NUM_THREADS", "0", "an integer of at least 1"),
        ("NUM_THREADS", "two", "an integer of at least 1"),
        ("NUM_THREADS", "1.5", "an integer of at least 1"),
        ("TIME_LIMIT", "0", "a number of seconds above 0"),
        ("TIME_LIMIT", "soon", "a number of seconds above 0"),
        ("TIME_LIMIT", "inf", "a number of seconds above 0"),
        ("CHECK", "yes", "0 or 1"),
        ("CACHE_LIMIT_MB", "-1", "an integer of at least 0"),
        ("CACHE_LIMIT_MB", "big", "an integer of at least 0"),
    ],
)
def test_wrong_values_name_the_variable(name: str, value: str, accepted: str) -> None:
    with pytest.raises(ConfigError, match=f"MS_CUSTOM_OPS_{name} is '{value}'; accepted: {accepted}"):
        read_config({f"MS_CUSTOM_OPS_{name}": value})
