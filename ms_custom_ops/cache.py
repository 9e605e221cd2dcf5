# SPDX-License-Identifier: Apache-2.0
"""The on-disk cache of Programs: one file per content key, safe against crashes, other processes and foreign
files.

A file is ``magic "MCOC"``, ``u32 version``, ``u32 length of the key``, ``u32 CRC-32 of the rest``, ``u64
length of the program``, the key (UTF-8), the program (:mod:`ms_custom_ops.program.codec`).
``csrc/mindspore_glue.cc`` reads the same form.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import struct
import tempfile
import threading
import time
import warnings
import zlib
from pathlib import Path

from ms_custom_ops.errors import CacheError

MAGIC = b"MCOC"
VERSION = 1
SUFFIX = ".mcop"
_HEADER = struct.Struct("<4sIIIQ")
_NAME_DIGITS = 40
_TEMPORARY = ".tmp-"
_ABANDONED_SECONDS = 3600
_FILE_MODE = 0o644  # mkstemp's 0600 would make a shared folder useless to other users


def file_name(op: str, key: str) -> str:
    """Name of the cache file of ``key``: short whatever the shapes and attributes, and readable in a
    listing."""
    return f"{op}-{hashlib.sha256(key.encode()).hexdigest()[:_NAME_DIGITS]}{SUFFIX}"


def pack(key: str, program: bytes) -> bytes:
    """File content of one entry."""
    body = key.encode() + program
    return _HEADER.pack(MAGIC, VERSION, len(key.encode()), zlib.crc32(body), len(program)) + body


def unpack(raw: bytes, key: str) -> bytes:
    """Program of the file content ``raw``; CacheError says why it is not an intact entry of ``key``."""
    if len(raw) < _HEADER.size or raw[:4] != MAGIC:
        raise CacheError("not a program cache file (no MCOC header)")
    _, version, key_length, crc, program_length = _HEADER.unpack_from(raw)
    if version != VERSION:
        raise CacheError(f"cache file version {version}; this release reads version {VERSION}")
    body = raw[_HEADER.size :]
    if len(body) != key_length + program_length:
        raise CacheError(f"{len(body)} bytes after the header instead of {key_length + program_length}: truncated")
    if zlib.crc32(body) != crc:
        raise CacheError("the CRC-32 does not match: the file is corrupt")
    if body[:key_length] != key.encode():
        raise CacheError("the file belongs to another key")
    return body[key_length:]


class ProgramCache:
    """Programs in a folder. Nothing here raises because of the folder's state: it warns once and misses.

    Args:
        folder: where the files live, created at the first write; None makes every look-up a miss.
        limit_bytes: sum of file sizes above which the least recently used files go, 0 for no limit.
    """

    def __init__(self, folder: Path | None, limit_bytes: int = 0):
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._warned = False
        self._lock = threading.Lock()

    def path(self, op: str, key: str) -> Path | None:
        """Where the entry of ``key`` is or would be."""
        return None if self.folder is None else self.folder / file_name(op, key)

    def get(self, op: str, key: str) -> bytes | None:
        """Program of ``key``, or None when there is no intact file of exactly that key."""
        path = self.path(op, key)
        if path is None:
            return None
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error, "read")
            return None
        try:
            program = unpack(raw, key)
        except CacheError as error:
            warnings.warn(
                f"ms_custom_ops: ignoring the cache file {path}: {error}; it is written anew",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        self._touch(path)
        return program

    def put(self, op: str, key: str, program: bytes) -> Path | None:
        """Writes the entry atomically; None when the folder does not take it."""
        path = self.path(op, key)
        if path is None or self.folder is None:
            return None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(path, pack(key, program))
            self._trim(keep=path)
        except OSError as error:
            self._warn(error, "write")
            return None
        return path

    def _write(self, path: Path, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), _FILE_MODE)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def _touch(self, path: Path) -> None:
        try:
            os.utime(path)
        except OSError as error:
            # The file was just read: a folder that is read-only or trimmed by another process costs only
            # recency.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
                self._warn(error, "touch")

    def _trim(self, keep: Path) -> None:
        if not self.limit_bytes or self.folder is None:
            return
        files = self._files()
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit_bytes:
                return
            if path != str(keep):
                Path(path).unlink(missing_ok=True)
                total -= size

    def _files(self) -> list[tuple[float, int, str]]:
        """(time of last use, size, path) of every entry; drops what writers that died left behind."""
        assert self.folder is not None
        files = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:  # another process removed it since the listing
                    continue
                if entry.name.endswith(SUFFIX):
                    files.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.startswith(_TEMPORARY) and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                    Path(entry.path).unlink(missing_ok=True)
        return files

    def _warn(self, error: OSError, doing: str) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        number = errno.errorcode.get(error.errno or 0, "unknown errno")
        warnings.warn(
            f"ms_custom_ops: cannot {doing} the program cache folder {self.folder} ({number}: "
            f"{error.strerror}); going on with programs in memory. Set MS_CUSTOM_OPS_CACHE_DIR to a "
            "writable folder, or to 'off' to keep them in memory without this warning.",
            RuntimeWarning,
            stacklevel=3,
        )


@functools.cache
def default_cache() -> ProgramCache:
    """The cache that the configuration names."""
    from ms_custom_ops.config import config

    return ProgramCache(config().cache_dir, config().cache_limit_bytes)
