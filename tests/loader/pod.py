"""Runs ``load_in_pod`` as a pod would: as a random user, without network, tools or a place to write to.

Needs root, namespaces and strace, which shows every system call; ``skip_reason`` says what is lacking.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.loader.python_process import ROOT

RANDOM_USER = 1000800000
#: Nothing of this machine: no home that exists, no tools, no caches.
EMPTY = {"PATH": "", "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}

_SITE_PACKAGES = sysconfig.get_path("platlib")
_EXECUTABLE = f"python{sys.version_info.major}.{sys.version_info.minor}"
_WRITING_CALLS = re.compile(
    r"^(mkdir|mkdirat|rename\w*|link|linkat|symlink\w*|unlink\w*|rmdir|\w*chmod\w*|\w*chown\w*|truncate|mknod\w*|creat"
    r"|utime\w*|\w*setxattr|mount)\("
)
_WRITING_FLAGS = re.compile(r"^open(at|at2)?\(.*O_(WRONLY|RDWR|CREAT|TRUNC)")


@dataclass(frozen=True)
class Seen:
    """Outcome of ``load_in_pod`` and its system calls."""

    outcome: dict[str, Any]
    calls: tuple[str, ...]

    @property
    def writes(self) -> list[str]:
        """Calls that make, change or remove something in a file system, or try to."""
        return [call for call in self.calls if _WRITING_CALLS.match(call) or _WRITING_FLAGS.match(call)]

    @property
    def programs(self) -> list[str]:
        """Programs that were started, or looked for."""
        return [call for call in self.calls if call.startswith("exec")]

    @property
    def network(self) -> list[str]:
        """Sockets that lead out of the machine."""
        return [call for call in self.calls if call.startswith("socket(AF_INET")]


class Pod:
    """This machine's file system, read-only, with Python below ``folder`` where every user may read it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._binds = {folder / "python": sys.base_prefix, folder / "site": _SITE_PACKAGES, folder / "project": ROOT}
        for inside in self._binds:
            inside.mkdir()
        environment = {**EMPTY, "PYTHONHOME": str(folder / "python"), "PYTHONPATH": f"{folder}/project:{folder}/site"}
        user = ("--reuid", str(RANDOM_USER), "--regid", "0", "--clear-groups")
        variables = (f"{name}={value}" for name, value in environment.items())
        self._python = [*("setpriv", *user, "env", "-i", *variables), str(folder / "python" / "bin" / _EXECUTABLE)]

    def skip_reason(self) -> str:
        """Why there can be no pod here; empty where there can."""
        if os.geteuid() != 0:
            return "needs root to become another user"
        lacking = [tool for tool in ("unshare", "setpriv", "strace") if shutil.which(tool) is None]
        if lacking:
            return f"needs {', '.join(lacking)}"
        done = self._run([], "-c", "import kernelforge, tvm_ffi, tests")
        return f"no pod can be made here: {done.stderr.strip()[-300:]}" if done.returncode else ""

    def load(self, lock: Path, **options: Any) -> Seen:
        """Run ``load_in_pod`` with these options of ``load``, traced."""
        log = self._folder / "strace.log"
        strace = ["strace", "-f", "-qq", "-s", "300", "-o", str(log)]
        done = self._run(strace, "-m", "tests.loader.load_in_pod", str(lock), json.dumps(options))
        assert done.returncode == 0, done.stderr
        return Seen(json.loads(done.stdout), _calls_of_program(log.read_text()))

    def _run(self, tracer: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        prepare = ["mount --make-rprivate /", "mount -o remount,bind,ro /"]
        for inside, outside in self._binds.items():
            prepare += [f"mount --bind '{outside}' '{inside}'", f"mount -o remount,bind,ro '{inside}'"]
        script = " && ".join([*prepare, 'exec "$@"'])
        command = [*tracer, "unshare", "--mount", "--net", "sh", "-c", script, "sh", *self._python, *arguments]
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


def _calls_of_program(log: str) -> tuple[str, ...]:
    """The calls after the last program took over: what came before made the pod."""
    calls = [line.split(maxsplit=1)[1] for line in log.splitlines() if " " in line]
    start = max(number for number, call in enumerate(calls) if call.startswith("execve(") and call.endswith("= 0"))
    return tuple(calls[start + 1 :])
