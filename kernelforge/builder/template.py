"""A template process: imports the compiler for one target once, then forks a child for every few keys of a kernel.

Started by ``pool`` as ``python -m kernelforge.builder.template`` with a clean environment. Messages are JSON lines: a
``Setup``, then groups of jobs on stdin; ``ready``, ``ended`` and ``returned`` on the stream that was stdout at the
start. Forking from a warm process costs 50 ms, of which most is memory that is touched for the first time; starting
Python and the compiler anew costs 1.2 s. It has one thread, because a fork copies only one.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from kernelforge.builder.child import ChildJob, run_child
from kernelforge.builder.hardware import KeyOnlyDevice
from kernelforge.builder.job import Setup
from kernelforge.builder.watch import SECONDS_BETWEEN_LOOKS, Watch
from kernelforge.contract import JitKernel, symbol_of
from kernelforge.errors import KernelForgeError
from kernelforge.keys.enumerate import enumerate_keys, import_kernel
from kernelforge.keys.rebuild import rebuild_key

_NOT_FOUND_AGAIN = "the key was not enumerated again: dispatch must depend on its arguments and the device alone"


def main() -> None:
    """Serve one build, until stdin closes."""
    messages = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever prints from here on must not end up between the messages
    setup = Setup.from_json(json.loads(sys.stdin.buffer.readline()))
    sys.path[:] = list(setup.sys_path)
    try:
        from kernelforge.builder.compiler import import_compiler

        import_compiler(setup.target)
        keys = _enumerate(setup)
    except Exception as error:  # noqa: BLE001 (whatever it is, the build must be told and not left waiting)
        _send(messages, {"broken": str(error) if isinstance(error, KernelForgeError) else repr(error)})
        return
    _send(messages, {"ready": {"pid": os.getpid()}})
    _serve(setup, keys, messages)


def _enumerate(setup: Setup) -> dict[str, tuple[JitKernel[Any], Any]]:
    """Symbol -> (kernel, compile key). The kernel has no profile any more: device facts are in the key or nowhere."""
    keys: dict[str, tuple[JitKernel[Any], Any]] = {}
    for profile in setup.profiles:
        for request in setup.requests:
            kernel = import_kernel(request.kernel)(device=KeyOnlyDevice(profile.arch))
            for key in enumerate_keys(request, profile).keys:
                keys.setdefault(symbol_of(request.kernel, key), (kernel, key))
    for sent in setup.sent_keys:
        key = rebuild_key(sent.kernel, sent.compile_key)
        kernel = import_kernel(sent.kernel)(device=KeyOnlyDevice(setup.target.arch))
        keys.setdefault(symbol_of(sent.kernel, key), (kernel, key))
    return keys


def _serve(setup: Setup, keys: dict[str, tuple[JitKernel[Any], Any]], messages: BinaryIO) -> None:
    watch = Watch(setup.limits)
    told_read, told_write = os.pipe()
    wake_up_read, wake_up_write = os.pipe()
    for descriptor in (0, told_read, wake_up_read, wake_up_write):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_up_write)
    selector = selectors.DefaultSelector()
    for descriptor in (0, told_read, wake_up_read):
        selector.register(descriptor, selectors.EVENT_READ)
    groups, told = _Lines(0), _Lines(told_read)
    while True:
        ready = {key.fd for key, _ in selector.select(SECONDS_BETWEEN_LOOKS if watch else None)}
        _pass_on(told, watch, messages)
        if wake_up_read in ready:
            os.read(wake_up_read, 512)
            _pass_on(told, watch, messages)  # what a child said before it ended
            for message in watch.reap():
                _send(messages, message)
        if 0 in ready:
            for group in groups.read():
                _start(group["jobs"], setup, keys, watch, messages, told_write)
            if groups.has_ended:
                watch.kill_all()
                return
        watch.kill_beyond_limits()


def _pass_on(told: _Lines, watch: Watch, messages: BinaryIO) -> None:
    """Tell the build which jobs children have done."""
    for message in told.read():
        if "done" in message:
            watch.done(message["pid"])
            _send(messages, {"ended": {**message["done"], "code": 0, "limit": ""}})
        else:
            watch.left(message["pid"])


def _start(
    jobs: list[dict[str, Any]],
    setup: Setup,
    keys: dict[str, tuple[JitKernel[Any], Any]],
    watch: Watch,
    messages: BinaryIO,
    told: int,
) -> None:
    for job in jobs:
        if job["symbol"] not in keys:
            _send(messages, {"ended": {"number": job["number"], "problem": _NOT_FOUND_AGAIN}})
    found = [ChildJob(*keys[job["symbol"]], **job) for job in jobs if job["symbol"] in keys]
    if not found:
        return
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run_child(found, arch=setup.target.arch, told=told)
    watch.add(pid, [job.number for job in found])


class _Lines:
    """Whole JSON lines out of a descriptor that does not block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.has_ended = False

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines that are there."""
        while not self.has_ended:
            try:
                chunk = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return
            self.has_ended = not chunk
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            yield from map(json.loads, whole)


def _send(messages: BinaryIO, message: dict[str, Any]) -> None:
    messages.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
