"""A directory that is held open: its files are read by their names in it, never through a link.

A result directory may come from anybody. A file counts only where it is a regular file, and no more
of it is read than niclab writes.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from niclab_results.errors import Damaged, NotResult, ResultError

#: Longest documents, bytes, as docs/result-directory.md has them.
LEN_MAX = {
    "run.toml": 16 << 20,
    "environment.json": 1 << 20,
    "samples.jsonl": 256 << 20,
    "summary.json": 64 << 20,
}
#: Longest line of samples.jsonl, bytes.
LINE_LEN_MAX = 16 << 20

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Folder:
    """A directory of documents."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            advice = "give the directory that `niclab run` printed as its result"
            raise NotResult(f"{self.path}: {error.strerror}; {advice}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)

    def open(self, name: str) -> BinaryIO | None:
        """The document, or None where there is none."""
        path = self.path / name
        try:
            # To open a device is to use it already: it is looked at before.
            self._check(name, os.stat(name, dir_fd=self._handle, follow_symlinks=False))
            handle = os.open(name, _FLAGS, dir_fd=self._handle)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Damaged(path, "a symbolic link, not a file") from error
            raise ResultError(f"{path}: {error.strerror}") from error
        file = os.fdopen(handle, "rb")
        try:
            self._check(name, os.fstat(handle))
        except ResultError:
            file.close()
            raise
        return file

    def read(self, name: str) -> bytes | None:
        """All of a document, or None where there is none."""
        file = self.open(name)
        if file is None:
            return None
        with file:
            content = file.read(LEN_MAX[name] + 1)
        if len(content) > LEN_MAX[name]:
            raise Damaged(self.path / name, f"longer than {LEN_MAX[name]} bytes")
        return content

    def lines(self, name: str) -> Iterator[tuple[int, bytes, bool]]:
        """Number, content and whether it has its end, of each line; only the last may lack it."""
        file = self.open(name)
        if file is None:
            return
        number, length = 0, 0
        with file:
            while line := file.readline(LINE_LEN_MAX + 1):
                number, length = number + 1, length + len(line)
                if len(line) > LINE_LEN_MAX:
                    raise Damaged(self.path / name, f"longer than {LINE_LEN_MAX} bytes", number)
                if length > LEN_MAX[name]:
                    raise Damaged(self.path / name, f"longer than {LEN_MAX[name]} bytes")
                yield number, line, line.endswith(b"\n")

    def _check(self, name: str, about: os.stat_result) -> None:
        kinds = {
            stat.S_IFLNK: "a symbolic link",
            stat.S_IFDIR: "a directory",
            stat.S_IFIFO: "a pipe",
            stat.S_IFSOCK: "a socket",
        }
        if not stat.S_ISREG(about.st_mode):
            kind = kinds.get(stat.S_IFMT(about.st_mode), "a device")
            raise Damaged(self.path / name, f"{kind}, not a file")
