# SPDX-License-Identifier: Apache-2.0
"""The program cache under damage, foreign files, folders that do not take files, and other processes."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import struct
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from ms_custom_ops.cache import ProgramCache, content_key, file_name, pack, unpack
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


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


DAMAGES = {
    "empty": (lambda raw: b"", "no MCOC header"),
    "text": (lambda raw: b"hello, I am no cache file at all", "no MCOC header"),
    "truncated": (lambda raw: raw[:-1], "truncated"),
    "longer": (lambda raw: raw + b"x", "instead of"),
    "bit_of_program": (lambda raw: flipped(raw, len(raw) - 1), "SHA-256"),
    "bit_of_key": (lambda raw: flipped(raw, 60), "SHA-256"),
    "bit_of_length": (lambda raw: flipped(raw, 9), "instead of"),
    "other_version": (lambda raw: raw[:4] + b"\x63\0\0\0" + raw[8:], "version 99; this release reads version 2"),
    "other_program": (lambda raw: raw[: -len(PROGRAM)] + bytes(len(PROGRAM)), "SHA-256"),
    "no_program": (lambda raw: raw[:56], "truncated"),
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
    assert raw[:4] == b"MCOC"
    for at in range(56):
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


def test_rests_go_without_a_limit_too(tmp_path: Path) -> None:
    old = tmp_path / ".tmp-old"
    old.write_text("half a file")
    os.utime(old, (time.time() - 7200,) * 2)
    ProgramCache(tmp_path, limit_bytes=0).put("toy", KEY, PROGRAM)
    assert not old.exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_folder_and_files_are_the_user_s_alone(cache: ProgramCache, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = stored(cache)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(8 << 30)


def announced(path: Path) -> None:
    """A sparse file whose header announces its size."""
    with open(path, "wb") as file:
        file.write(b"MCOC" + struct.pack("<IIIQ", 2, len(KEY), 0, (8 << 30) - 56 - len(KEY)))
        file.truncate(8 << 30)


def linked(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(pack(KEY, PROGRAM))
    path.symlink_to("elsewhere")


def writable_by_others(path: Path) -> None:
    path.write_bytes(pack(KEY, PROGRAM))
    path.chmod(0o666)


def full_directory(path: Path) -> None:
    path.mkdir()
    (path / "somebody's").write_text("precious")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


STRANGERS = {
    "fifo": (os.mkfifo, "not a plain file"),
    "directory": (Path.mkdir, "not a plain file"),
    "full_directory": (full_directory, "not a plain file"),
    "socket": (listening, "not a plain file"),
    "endless_device": (lambda path: path.symlink_to("/dev/zero"), "not a plain file"),
    "link_to_an_entry": (linked, "not a plain file"),
    "link_to_itself": (lambda path: path.symlink_to(path), "not a plain file"),
    "sparse_8_GB": (sparse, "no MCOC header"),
    "announced_8_GB": (announced, "larger than any Program"),
    "writable_by_others": (writable_by_others, "other users may write to the file"),
}

# In a child, so that a read that waits or takes memory fails instead of stopping the tests.
READER = """
import resource, sys, warnings
from pathlib import Path
from ms_custom_ops.cache import ProgramCache
cache, key = ProgramCache(Path(sys.argv[1])), sys.argv[2]
cache.get("toy", "loads what it needs")
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert cache.get("toy", key) is None
    assert cache.put("toy", key, b"program") is not None
    assert cache.get("toy", key) == b"program"
print("said", [str(warning.message) for warning in caught])
"""


@pytest.mark.parametrize("name", STRANGERS)
def test_what_is_no_plain_file_of_ours_is_refused_and_replaced(tmp_path: Path, name: str) -> None:
    make, reason = STRANGERS[name]
    path = tmp_path / file_name("toy", KEY)
    make(path)
    command = [sys.executable, "-c", READER, str(tmp_path), KEY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ignoring the cache file") == 1 and reason in done.stdout
    assert path.is_file() and not path.is_symlink()
    if name == "full_directory":  # moved aside, not deleted
        (aside,) = tmp_path.glob(f"{path.name}.*")
        assert (aside / "somebody's").read_text() == "precious"
    if name == "link_to_an_entry":
        assert unpack((tmp_path / "elsewhere").read_bytes(), KEY) == PROGRAM


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(cache: ProgramCache) -> None:
    path = stored(cache)
    os.chown(path, 65534, 65534)
    with pytest.warns(RuntimeWarning, match="the file belongs to another user"):
        assert cache.get("toy", KEY) is None


def test_a_directory_among_the_entries_does_not_stop_trimming(tmp_path: Path) -> None:
    (tmp_path / "old.mcop").mkdir()
    os.utime(tmp_path / "old.mcop", (1, 1))
    cache = ProgramCache(tmp_path, limit_bytes=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.put("toy", KEY, PROGRAM) is not None and cache.put("toy", KEY + "1", PROGRAM) is not None
        assert cache.get("toy", KEY) is None and cache.get("toy", KEY + "1") == PROGRAM


@pytest.mark.parametrize("op", ["../../evil", "a/b", "", "x" * 300, "a.b", "a b", "ä"])
def test_an_op_that_is_no_name_is_refused(cache: ProgramCache, op: str) -> None:
    for call in (lambda: cache.put(op, KEY, PROGRAM), lambda: cache.get(op, KEY)):
        with pytest.raises(CacheError, match="program cache: op is '.*'; accepted: 1 to 128 letters, digits and '_'"):
            call()
    assert not cache.folder.exists()


@pytest.mark.parametrize(
    "op, key, accepted",
    [("a\0", KEY, "without a zero"), ("a", "k\0", "without a zero"), ("a", "k\ud800", "without lone surrogates")],
)
def test_text_that_c_cannot_take_is_refused(cache: ProgramCache, op: str, key: str, accepted: str) -> None:
    with pytest.raises(CacheError, match=f"op and key is .*; accepted: text {accepted}"):
        cache.put(op, key, PROGRAM)


def test_an_entry_that_could_not_be_read_back_is_not_written(cache: ProgramCache) -> None:
    with pytest.raises(CacheError, match="an entry of .* bytes; accepted: up to 268435456"):
        cache.put("toy", KEY, bytes((1 << 28) + 1))


def test_a_folder_with_a_zero_in_its_name(tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path / "a\0b")
    with pytest.warns(RuntimeWarning, match="cannot write the program cache folder.*null"):
        assert cache.put("toy", KEY, PROGRAM) is None and cache.get("toy", KEY) is None


def test_key_text() -> None:
    assert content_key("prefix", (((1, 2), "float16"), ((), "int32"), ((0,), "bool"))) == (
        "prefix|float16[1,2];int32[];bool[0]"
    )
    assert content_key("ä", ()) == "ä|"


@pytest.mark.parametrize("size", [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000])
def test_the_digest_is_sha256(size: int) -> None:
    key = "k" * size
    assert file_name("toy", key) == f"toy-{hashlib.sha256(key.encode()).hexdigest()[:40]}.mcop"
    raw = pack(key, PROGRAM)
    assert raw[24:56] == hashlib.sha256(raw[:24] + raw[56:]).digest()


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
