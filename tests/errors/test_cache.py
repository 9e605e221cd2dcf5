# SPDX-License-Identifier: Apache-2.0
"""The program cache under damage, foreign files, folders that do not take files, and other processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from ms_custom_ops.cache import MAGIC, ProgramCache, file_name, pack, unpack
from ms_custom_ops.errors import CacheError

KEY = '{"op":"toy"}|float16[1,17]'
PROGRAM = bytes(range(256)) * 5


@pytest.fixture
def cache(tmp_path: Path) -> ProgramCache:
    return ProgramCache(tmp_path / "made" / "on demand")


def stored(cache: ProgramCache) -> Path:
    path = cache.put("toy", KEY, PROGRAM)
    assert path is not None
    return path


def test_round_trip(cache: ProgramCache) -> None:
    assert cache.get("toy", KEY) is None
    path = stored(cache)
    assert path.name == file_name("toy", KEY) and path.parent == cache.folder
    assert cache.get("toy", KEY) == PROGRAM
    assert os.listdir(path.parent) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


DAMAGES = {
    "empty": (lambda raw: b"", "no MCOC header"),
    "text": (lambda raw: b"hello, I am no cache file at all", "no MCOC header"),
    "truncated": (lambda raw: raw[:-1], "truncated"),
    "longer": (lambda raw: raw + b"x", "instead of"),
    "bit_of_program": (lambda raw: flipped(raw, len(raw) - 1), "CRC-32"),
    "bit_of_key": (lambda raw: flipped(raw, 30), "CRC-32"),
    "bit_of_length": (lambda raw: flipped(raw, 9), "instead of"),
    "other_version": (lambda raw: raw[:4] + b"\x63\0\0\0" + raw[8:], "version 99; this release reads version 1"),
    "other_key": (lambda raw: pack(KEY + "0", PROGRAM), "another key"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_file_is_never_served_and_replaced(cache: ProgramCache, name: str) -> None:
    damage, reason = DAMAGES[name]
    path = stored(cache)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CacheError, match=reason):
        unpack(path.read_bytes(), KEY)
    with pytest.warns(RuntimeWarning, match="ignoring the cache file .*toy-.*written anew"):
        assert cache.get("toy", KEY) is None
    stored(cache)
    assert cache.get("toy", KEY) == PROGRAM


def test_every_bit_of_the_header_counts() -> None:
    raw = pack(KEY, PROGRAM)
    assert raw[:4] == MAGIC
    for at in range(24):
        with pytest.raises(CacheError):
            unpack(flipped(raw, at), KEY)


def test_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ProgramCache(tmp_path / "file")
    with pytest.warns(RuntimeWarning) as caught:
        assert cache.put("toy", KEY, PROGRAM) is None
        assert cache.get("toy", KEY) is None
        assert cache.put("toy", KEY, PROGRAM) is None
    assert len(caught) == 1  # said once
    text = str(caught[0].message)
    assert str(tmp_path / "file") in text and ("EEXIST" in text or "ENOTDIR" in text)
    assert "MS_CUSTOM_OPS_CACHE_DIR" in text


def failing(number: int):
    def fail(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    "number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT], ids=lambda n: errno.errorcode[n]
)
def test_folder_refuses_files(cache: ProgramCache, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    stored(cache)
    monkeypatch.setattr("tempfile.mkstemp", failing(number))
    with pytest.warns(RuntimeWarning, match=f"cannot write .*{errno.errorcode[number]}.*going on with programs in mem"):
        assert cache.put("toy", KEY + "1", PROGRAM) is None
    assert cache.get("toy", KEY) == PROGRAM  # what is there can still be read


def test_full_disk_leaves_the_old_file_and_no_rest(cache: ProgramCache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(cache)
    monkeypatch.setattr("os.replace", failing(errno.ENOSPC))
    with pytest.warns(RuntimeWarning, match="ENOSPC"):
        assert cache.put("toy", KEY, b"new") is None
    assert os.listdir(path.parent) == [path.name] and cache.get("toy", KEY) == PROGRAM


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into read-only folders")
def test_read_only_folder(cache: ProgramCache) -> None:
    path = stored(cache)
    path.parent.chmod(0o555)
    try:
        with pytest.warns(RuntimeWarning, match="EACCES"):
            assert cache.put("toy", KEY + "1", PROGRAM) is None
        assert cache.get("toy", KEY) == PROGRAM
    finally:
        path.parent.chmod(0o755)


def test_no_folder_is_silent() -> None:
    cache = ProgramCache(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.put("toy", KEY, PROGRAM) is None and cache.get("toy", KEY) is None
        assert cache.path("toy", KEY) is None


def test_limit_removes_the_least_recently_used(tmp_path: Path) -> None:
    size = len(pack(KEY + "0", PROGRAM))
    cache = ProgramCache(tmp_path, limit_bytes=3 * size)
    for i in range(3):
        path = cache.put("toy", f"{KEY}{i}", PROGRAM)
        assert path is not None
        os.utime(path, (i, i))
    assert cache.get("toy", KEY + "0") == PROGRAM  # used now, so entry 1 is the oldest
    cache.put("toy", KEY + "3", PROGRAM)
    assert [cache.get("toy", f"{KEY}{i}") is not None for i in range(4)] == [True, False, True, True]


def test_entry_larger_than_the_limit_stays(tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path, limit_bytes=10)
    assert cache.put("toy", KEY, PROGRAM) is not None and cache.get("toy", KEY) == PROGRAM


def test_rests_of_dead_writers_go(tmp_path: Path) -> None:
    old, young = tmp_path / ".tmp-old", tmp_path / ".tmp-young"
    for path in (old, young):
        path.write_text("half a file")
    os.utime(old, (time.time() - 7200,) * 2)
    ProgramCache(tmp_path, limit_bytes=1 << 20).put("toy", KEY, PROGRAM)
    assert not old.exists() and young.exists()


WRITER = """
import sys
from pathlib import Path
from ms_custom_ops.cache import ProgramCache
cache, key, program = ProgramCache(Path(sys.argv[1])), sys.argv[2], bytes([int(sys.argv[3])]) * 200_000
for _ in range(200):
    assert cache.put("toy", key, program) is not None
    seen = cache.get("toy", key)
    assert seen is not None and len(seen) == 200_000 and len(set(seen)) == 1
"""


def test_two_processes_write_the_same_entry(tmp_path: Path) -> None:
    commands = [[sys.executable, "-W", "error", "-c", WRITER, str(tmp_path), KEY, str(i)] for i in (1, 2)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert len(os.listdir(tmp_path)) == 1
