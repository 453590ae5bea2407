"""Why a result directory cannot be read, and what to do."""

from pathlib import Path


class ResultError(Exception):
    """A directory that cannot be read; the other errors are of this kind."""


class NotResult(ResultError):
    """A path that is no result directory."""


class Damaged(ResultError):
    """A document that is not as niclab writes it."""

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        self.path, self.reason, self.line = path, reason, line
        place = f"{path}:{line}" if line else f"{path}"
        super().__init__(f"{place}: {reason}; restore the file from a copy")


class Newer(ResultError):
    """A document of a later version."""

    def __init__(self, path: Path, found: int, known: int, program: str) -> None:
        self.path, self.found, self.known, self.program = path, found, known, program
        super().__init__(
            f"{path} has schema {found}, this reader reads up to {known}: "
            f"use the niclab-results of {program}"
        )
