"""Keeps compiling processes busy: one template per target, at most ``workers`` children at a time over all of them.

A child gets a few keys of one kernel, fewer towards the end: a fork and what it has to touch cost as much as a third of
a small key.

Knows jobs and processes, no stores and no plans. Every job ends in exactly one ``Finished``, whatever its process did;
results are yielded as they come, so that the caller publishes while others compile. A process that crashes gets a
second try, since machines do that too; an error or a broken limit is the kernel's own and gets none.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kernelforge.builder.compiler import ARCH_VARIABLE
from kernelforge.builder.job import LOG_FILE, PHASE_FILE, RESULT_FILE, CompileFacts, CompileJob, Finished, Setup
from kernelforge.reporting import Failure
from kernelforge.target import Target

logger = logging.getLogger(__name__)

_LOG_TAIL_BYTES = 4000
# The eighth key of a child gains a millisecond; a failure makes the rest of a group start anew.
_MOST_JOBS_OF_A_CHILD = 8


class Pool:
    """A context manager over the templates of one build; leaving it ends every process that it started."""

    def __init__(self, setups: Sequence[Setup], *, workers: int, folder: Path) -> None:
        """``setups``: one per target. ``folder``: where job folders are made; the caller removes it."""
        self._workers = workers
        self._folder = folder
        self._templates = {setup.target: _Template(setup, folder) for setup in setups}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Pool:
        try:
            for template in self._templates.values():
                template.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for template in self._templates.values():
            template.end()
        self._selector.close()

    @property
    def processes_started(self) -> int:
        """Template processes of this build."""
        return len(self._templates)

    def run(self, jobs: Sequence[CompileJob]) -> Iterator[Finished]:
        """Compile all jobs, in the given order per target; yields each when it ends."""
        for job in jobs:
            self._templates[job.target].waiting.append(job)
        for template in self._templates.values():
            self._selector.register(template.output, selectors.EVENT_READ, template)
        while any(template.has_work for template in self._templates.values()):
            self._hand_out()
            for ready, _ in self._selector.select():
                yield from ready.data.receive()
                if ready.data.is_gone:
                    self._selector.unregister(ready.fileobj)

    def _hand_out(self) -> None:
        """Give free workers jobs; a target whose template is still importing does not hold up the others."""
        free = self._workers - sum(template.children for template in self._templates.values())
        ready = [template for template in self._templates.values() if template.is_ready]
        while free > 0 and any(template.waiting for template in ready):
            template = max(ready, key=lambda candidate: len(candidate.waiting))
            template.send_group(len(template.waiting) // (2 * self._workers))
            free -= 1


@dataclass
class _Template:
    setup: Setup
    folder: Path
    waiting: deque[CompileJob] = field(default_factory=deque)
    running: dict[int, tuple[CompileJob, Path]] = field(default_factory=dict)
    child_of: dict[int, int] = field(default_factory=dict)
    crashed: dict[int, str] = field(default_factory=dict)
    is_ready: bool = False
    is_gone: bool = False
    _rest: bytes = b""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the pool was not entered"
        return self._process

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def children(self) -> int:
        """How many children have work."""
        return len({self.child_of[number] for number in self.running})

    @property
    def log(self) -> Path:
        return self.folder / f"template-{self.setup.target.arch}.log"

    def start(self) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P" if sys.version_info >= (3, 11) else "-u", "-m", "kernelforge.builder.template"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(self.setup.target, self.folder),
                start_new_session=True,
            )
        self._send(self.setup.to_json())

    def end(self) -> None:
        """End the template and its children; they have nothing to clean up."""
        if self._process is None:  # an earlier template could not be started
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:  # a message was still buffered for a template that died
                logger.debug("template for %s was gone before its last message", self.setup.target)

    def send_group(self, size: int) -> None:
        """Start a child with up to ``size`` jobs of one kernel, at least the next one; what crashed once goes alone."""
        first = self.waiting.popleft()
        group = [first]
        if first.number not in self.crashed:
            alike = [job for job in self.waiting if job.kernel == first.kernel and job.number not in self.crashed]
            group += alike[: min(size, _MOST_JOBS_OF_A_CHILD) - 1] if size > 1 else []
            taken = {job.number for job in group}
            self.waiting = deque(job for job in self.waiting if job.number not in taken)
        for job in group:
            folder = Path(tempfile.mkdtemp(prefix=f"{job.symbol}-", dir=self.folder))
            self.running[job.number] = (job, folder)
            self.child_of[job.number] = first.number
        self._send({"jobs": [self._message(job) for job in group]})

    def _message(self, job: CompileJob) -> dict[str, Any]:
        folder = str(self.running[job.number][1])
        return {"number": job.number, "symbol": job.symbol, "folder": folder, "known_ir": job.known_ir}

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # its output ends as well, which `receive` turns into the jobs' failures
            logger.debug("template for %s does not read any more", self.setup.target)

    def receive(self) -> Iterator[Finished]:
        """Read what the template sent; when it is gone, every job that it had or would get has failed."""
        chunk = os.read(self.output.fileno(), 1 << 16)
        if not chunk:
            yield from self._fail_all("the compiling process died")
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                self.is_ready = True
            elif "broken" in message:
                yield from self._fail_all(message["broken"])
                return
            elif "returned" in message:
                self._take_back(message["returned"]["number"])
            else:
                yield from self._finish(message["ended"])

    def _take_back(self, number: int) -> None:
        """A child has ended before it came to this job."""
        job, folder = self.running.pop(number)
        shutil.rmtree(folder)
        self.waiting.appendleft(job)

    def _fail_all(self, why: str) -> Iterator[Finished]:
        self.is_gone = True
        self.is_ready = False
        failure = Failure(phase="start", message=why, log_tail=_tail(self.log))
        for job, folder in self.running.values():
            yield Finished(job, folder, None, failure)
        for job in self.waiting:
            yield Finished(job, self.folder, None, failure)
        self.running.clear()
        self.waiting.clear()

    def _finish(self, ended: Mapping[str, Any]) -> Iterator[Finished]:
        """What a job came to; nothing yet if it crashed for the first time and waits for its second try."""
        job, folder = self.running.pop(ended["number"])
        if "problem" in ended:
            yield Finished(job, folder, None, Failure(phase="start", message=ended["problem"]))
        elif ended["code"] == 0 and (folder / RESULT_FILE).exists():
            yield self._result(job, folder, ended)
        elif ended["limit"] or job.number in self.crashed:
            yield Finished(job, folder, None, self._crash(ended, job, folder))
        else:
            self.crashed[job.number] = self._crash(ended, job, folder).message
            logger.warning("%s: %s; it is tried once more", job.symbol, self.crashed[job.number])
            self.waiting.appendleft(job)

    def _result(self, job: CompileJob, folder: Path, ended: Mapping[str, Any]) -> Finished:
        result = json.loads((folder / RESULT_FILE).read_text())
        if "failure" in result:
            return Finished(job, folder, None, Failure(**result["failure"], log_tail=_tail(folder / LOG_FILE)))
        if "is_known_ir" in result:
            return Finished(job, folder, None, None, is_known_ir=True)
        facts = CompileFacts.from_json(result["facts"])
        measured = replace(facts, seconds=ended["seconds"], peak_memory_bytes=ended["peak_memory_bytes"])
        return Finished(job, folder, measured, None)

    def _crash(self, ended: Mapping[str, Any], job: CompileJob, folder: Path) -> Failure:
        code, limits = ended["code"], self.setup.limits
        name = signal.Signals(-code).name if code < 0 else ""
        broken = {
            "seconds": f"took longer than the limit of {limits.seconds:g} s",
            "memory": f"took more memory than the limit of {limits.memory_bytes / (1 << 20):,.0f} MiB",
        }
        message = f"the compiling process ended with {name or f'exit code {code}'} and left no result"
        message = broken.get(ended["limit"], message) + (", in two tries" if job.number in self.crashed else "")
        phase = folder / PHASE_FILE
        return Failure(
            phase=phase.read_text() if phase.exists() else "start",
            message=message,
            signal=name,
            log_tail=_tail(folder / LOG_FILE),
            limit=ended["limit"],
        )


def _environment(target: Target, folder: Path) -> dict[str, str]:
    """A clean environment: variables of the compiler and of kernel libraries change code and are in no key."""
    return {
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CUDA_VISIBLE_DEVICES": "",
        ARCH_VARIABLE: target.arch,
    }


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    return log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
