"""One safetensors file on disk: replaced in one step, with the permissions it had, sealed by a checksum.

The seal is an entry of the file's metadata, "sha256": the digest of all bytes of the file, with 64 zeros in the place
of the digest itself. So it covers the header, the metadata and the tensors, and other programs still read the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat

SEAL = "sha256"
UNSEALED = "0" * 64  # what the seal is before it is known

# Larger than any checkpoint of ours: safetensors allows a header of 100 MB, the largest network takes some 200 MB.
MOST_BYTES = 2**30

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # never through a link


def seal(data: bytes) -> bytes:
    """The file's bytes with the digest in the place of UNSEALED."""
    start = _seal_at(data)
    if start is None:
        raise ValueError(f"the file has no {SEAL!r} in its metadata")
    return data[:start] + _digest(data, start) + data[start + len(UNSEALED) :]


def is_sealed(data: bytes) -> bool:
    """True when the seal is right, False when there is none; ValueError when a bit has changed since it was made."""
    start = _seal_at(data)
    if start is None:
        return False
    if data[start : start + len(UNSEALED)] != _digest(data, start):
        raise ValueError("it is damaged or cut short: its checksum does not match")
    return True


def _seal_at(data: bytes) -> int | None:
    mark = f'"{SEAL}":"'.encode()  # quotes within a value are escaped, so no text in the metadata can look like this
    start = data.find(mark, 8, 8 + header_size(data))
    return None if start < 0 else start + len(mark)


def header_size(data: bytes) -> int:
    """Length of the header, which begins after the first 8 bytes."""
    return int.from_bytes(data[:8], "little")


def _digest(data: bytes, start: int) -> bytes:
    digest = hashlib.sha256(memoryview(data)[:start])
    digest.update(UNSEALED.encode())
    digest.update(memoryview(data)[start + len(UNSEALED) :])
    return digest.hexdigest().encode()


def read(path: str) -> bytes:
    """The whole file; OSError when it is none, or larger than any of ours."""
    known = regular_file(path)
    if known is None:
        raise FileNotFoundError("there is no such checkpoint")
    if known.st_size > MOST_BYTES:
        raise OSError(f"its {known.st_size} bytes are more than a checkpoint has ({MOST_BYTES} at most)")
    with open(path, "rb") as file:
        return file.read(MOST_BYTES + 1)


def replace(path: str, data: bytes) -> None:
    """Put data in the place of the file in one step; the file before it stays as `<path>.bak`.

    OSError leaves the old file whole and no litter. Permissions, owner and group stay as they were; the temporary file
    never has wider ones.
    """
    temporary, spare = path + ".tmp", path + ".bak.tmp"
    if len(data) > MOST_BYTES:
        raise OSError(f"{len(data)} bytes are more than a checkpoint may have ({MOST_BYTES})")
    before = regular_file(path)
    like = before or regular_file(path + ".bak")
    try:
        _remove(temporary, spare)  # left by a process that was killed; a link there would not be ours to follow
        with os.fdopen(_create(temporary, like), "wb") as file:
            file.write(data)
            file.flush()
            _keep_permissions(file.fileno(), like)
            os.fsync(file.fileno())
        if before is not None:
            _link(path, spare, before)
            os.replace(spare, path + ".bak")
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            _remove(temporary, spare)
        raise
    _sync_folder(os.path.dirname(path))


def regular_file(path: str) -> os.stat_result | None:
    """What is known of the file, or None when there is none; OSError for a folder, a pipe or a device."""
    try:
        known = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(known.st_mode):
        raise OSError("it is a folder" if stat.S_ISDIR(known.st_mode) else "it is a pipe or a device, not a file")
    return known


def _create(path: str, like: os.stat_result | None) -> int:
    """A new file: ours alone until `_keep_permissions`, or as the umask has it where there is nothing to keep."""
    return os.open(path, _NEW, 0o666 if like is None else 0o600)


def _keep_permissions(file: int, like: os.stat_result | None) -> None:
    if like is None or os.name != "posix":
        return
    mode, own = stat.S_IMODE(like.st_mode) & 0o777, os.fstat(file)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(file, like.st_uid, like.st_gid)
        except OSError:  # only a superuser may give files away
            try:
                os.fchown(file, -1, like.st_gid)
            except OSError:
                mode &= ~0o070  # what was for one group is not for another
    os.fchmod(file, mode)


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _link(path: str, other: str, known: os.stat_result) -> None:
    try:
        os.link(path, other)
    except OSError:  # a file system without hard links
        with open(path, "rb") as source, os.fdopen(_create(other, known), "wb") as copy:
            shutil.copyfileobj(source, copy)
            _keep_permissions(copy.fileno(), known)


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):  # not every system can open or sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
