# SPDX-License-Identifier: Apache-2.0
"""The on-disk cache of Programs: one file per content key, safe against crashes, other processes and foreign
files.

Key, file name and file form are those of ``csrc/cache_file.h``, which MindSpore's glue reads too. Files and a folder
made here are the user's alone; what another user could have written is not read.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import json
import os
import secrets
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ms_custom_ops.engine.native import library_path
from ms_custom_ops.errors import CacheError, describe

SUFFIX = ".mcop"
_HEADER_BYTES, _NAME_BYTES, _ERROR_BYTES = 56, 192, 4096
_TEMPORARY = ".tmp-"
_ABANDONED_SECONDS = 600  # a writer takes milliseconds
FOLDER_MODE = 0o700


@functools.cache
def _library() -> ctypes.CDLL:
    """The functions of csrc/cache_file.h; EngineMissingError when the native engine was not built."""
    library = ctypes.CDLL(str(library_path()))
    text, size, pointer = ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER
    functions: dict[str, tuple[Any, list[Any]]] = {
        "mco_cache_key": (
            size,
            [text, ctypes.c_int, pointer(text), pointer(ctypes.c_int), pointer(pointer(ctypes.c_int64)), text, size],
        ),
        "mco_cache_name": (ctypes.c_int, [text, text, text, text, size]),
        "mco_cache_header": (ctypes.c_int, [text, text, size, text, text, size]),
        "mco_cache_unpack": (ctypes.c_int, [text, size, text, pointer(size), text, size]),
        "mco_cache_read": (ctypes.c_int, [text, text, pointer(ctypes.c_void_p), pointer(size), text, size]),
        "mco_cache_free": (None, [ctypes.c_void_p]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@functools.lru_cache(maxsize=4096)
def content_key(prefix: str, tensors: tuple[tuple[tuple[int, ...], str], ...]) -> str:
    """Key of a call: ``prefix`` and (shape, dtype) of its tensors, ``...|float16[1,2,16,64];float32[8]``."""
    count = len(tensors)
    shapes = [(ctypes.c_int64 * len(shape))(*shape) for shape, _ in tensors]
    pointer = ctypes.POINTER(ctypes.c_int64)
    arguments = (
        prefix.encode(),
        count,
        (ctypes.c_char_p * count)(*[dtype.encode() for _, dtype in tensors]),
        (ctypes.c_int * count)(*map(len, shapes)),
        (pointer * count)(*[ctypes.cast(shape, pointer) for shape in shapes]),
    )
    out = ctypes.create_string_buffer(_library().mco_cache_key(*arguments, None, 0) + 1)
    _library().mco_cache_key(*arguments, out, len(out))
    return out.value.decode()


def _encoded(op: str, key: str) -> tuple[bytes, bytes]:
    """Both as C takes them."""
    try:
        encoded = op.encode(), key.encode()
    except UnicodeEncodeError as error:
        raise CacheError(
            describe("program cache", "op and key", f"{error.object!r}", "text without lone surrogates")
        ) from error
    if b"\0" in encoded[0] + encoded[1]:
        raise CacheError(describe("program cache", "op and key", f"{op!r}, {key!r}", "text without a zero character"))
    return encoded


def file_name(op: str, key: str) -> str:
    """Name of the cache file of ``key``: short whatever the shapes and attributes, and readable in a listing.

    Raises:
        CacheError: ``op`` is no name (a path separator, say).
    """
    out, text = ctypes.create_string_buffer(_NAME_BYTES), ctypes.create_string_buffer(_ERROR_BYTES)
    if _library().mco_cache_name(*_encoded(op, key), out, text, _ERROR_BYTES):
        raise CacheError(text.value.decode(errors="replace"))
    return out.value.decode()


def pack(key: str, program: bytes) -> bytes:
    """File content of one entry; CacheError when it is too large."""
    out, text = ctypes.create_string_buffer(_HEADER_BYTES), ctypes.create_string_buffer(_ERROR_BYTES)
    encoded = _encoded("", key)[1]
    if _library().mco_cache_header(encoded, program, len(program), out, text, _ERROR_BYTES):
        raise CacheError(text.value.decode(errors="replace"))
    return out.raw + encoded + program


def unpack(raw: bytes, key: str) -> bytes:
    """Program of the file content ``raw``; CacheError says why it is not an intact entry of ``key``."""
    begin, text = ctypes.c_size_t(), ctypes.create_string_buffer(_ERROR_BYTES)
    if _library().mco_cache_unpack(raw, len(raw), _encoded("", key)[1], ctypes.byref(begin), text, _ERROR_BYTES):
        raise CacheError(text.value.decode(errors="replace"))
    return raw[begin.value :]


def read_entry(path: Path, key: str) -> bytes:
    """Program of the file at ``path``.

    Raises:
        OSError: it cannot be read.
        CacheError: it is not an intact entry of ``key`` that only this user can have written.
    """
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    encoded = _encoded("", key)[1]
    status = _library().mco_cache_read(
        os.fsencode(path), encoded, ctypes.byref(program), ctypes.byref(size), text, _ERROR_BYTES
    )
    if status < 0:
        raise OSError(-status, os.strerror(-status), str(path))
    if status > 0:
        raise CacheError(text.value.decode(errors="replace"))
    try:
        return ctypes.string_at(program, size.value)
    finally:
        _library().mco_cache_free(program)


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
        self._swept = False
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
            program = read_entry(path, key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:  # ValueError: a zero in the folder's name
            self._warn(error, "read")
            return None
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
        """Writes the entry atomically; None when the folder does not take it.

        Raises:
            CacheError: ``op`` is no name, ``key`` no text or the entry too large.
        """
        path = self.path(op, key)
        if path is None or self.folder is None:
            return None
        content = pack(key, program)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            self._write(path, content)
            self._trim(keep=path)
        except (OSError, ValueError) as error:
            self._warn(error, "write")
            return None
        return path

    def _write(self, path: Path, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.folder)  # of mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            try:
                os.replace(temporary, path)
            except IsADirectoryError:
                os.rename(path, f"{path}.{secrets.token_hex(4)}")  # somebody's folder in the entry's place
                os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def _touch(self, path: Path) -> None:
        try:
            os.utime(path, follow_symlinks=False)
        except OSError as error:
            # The file was just read: a folder that is read-only or trimmed by another process costs only
            # recency.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
                self._warn(error, "touch")

    def trim(self) -> None:
        """Keeps the folder below the limit now."""
        if self.folder is not None and self.folder.is_dir():
            self._trim(keep=None)

    def _trim(self, keep: Path | None) -> None:
        """Keeps the folder below the limit; drops, once at least, what writers that died left behind."""
        if self._swept and not self.limit_bytes:
            return
        self._swept = True
        files = []
        for name, status in self._plain_files():
            if name.endswith(SUFFIX):
                files.append((status.st_mtime, status.st_size, name))
            elif name.startswith(_TEMPORARY) and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                self._remove(name)
        total = sum(size for _, size, _ in files)
        for _, size, name in sorted(files):
            if not self.limit_bytes or total <= self.limit_bytes:
                return
            if keep is None or name != keep.name:
                self._remove(name)
                total -= size

    def _remove(self, name: str) -> None:
        assert self.folder is not None
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.unlink(self.folder / name)

    def _plain_files(self) -> Iterator[tuple[str, os.stat_result]]:
        assert self.folder is not None
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield entry.name, status

    def _warn(self, error: OSError | ValueError, doing: str) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        number = errno.errorcode.get(getattr(error, "errno", None) or 0, "no errno")
        reason = getattr(error, "strerror", None) or str(error)
        warnings.warn(
            f"ms_custom_ops: cannot {doing} the program cache folder {self.folder} ({number}: "
            f"{reason}); going on with programs in memory. Set MS_CUSTOM_OPS_CACHE_DIR to a "
            "writable folder, or to 'off' to keep them in memory without this warning.",
            RuntimeWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class Entry:
    """A file of the folder, of which the key alone was read; ``op``, ``soc``, ``tensors`` are "?" where it is none."""

    path: Path
    size: int
    used: datetime
    op: str
    soc: str
    tensors: str
    key: str


def entries(folder: Path) -> list[Entry]:
    """Every file of a cache folder, the last used first."""
    found = []
    for path in folder.glob(f"*{SUFFIX}") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            status = path.stat()
            with path.open("rb") as file:
                header = file.read(_HEADER_BYTES)
                count = int.from_bytes(header[8:12], "little") if len(header) == _HEADER_BYTES else 0
                key = file.read(min(count, status.st_size)).decode(errors="replace")
            about, _, tensors = key.rpartition("|")
            try:
                values = json.loads(about)
            except ValueError:
                values = {}
            known = values if isinstance(values, dict) else {}
            found.append(Entry(path, status.st_size, datetime.fromtimestamp(status.st_mtime), str(known.get("op", "?")),
                               str(known.get("soc", "?")), tensors or "?", key))  # fmt: skip
    return sorted(found, key=lambda entry: entry.used, reverse=True)


def damage(entry: Entry) -> str:
    """Why a file is no intact entry, "" for one that is."""
    try:
        read_entry(entry.path, entry.key)
        name = file_name(entry.op, entry.key)
    except (OSError, CacheError) as error:
        return str(error)
    return "" if name == entry.path.name else f"its key belongs into {name}"


@functools.cache
def default_cache() -> ProgramCache:
    """The cache that the configuration names."""
    from ms_custom_ops.config import config

    return ProgramCache(config().cache_dir, config().cache_limit_bytes)
