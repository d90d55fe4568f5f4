"""A template process: imports the compiler for one target once, then forks a child for every key.

Started by ``pool`` as ``python -m kernelforge.builder.template`` with a clean environment. Messages are JSON lines: a
``Setup``, then jobs on stdin; ``ready`` and ``ended`` on the stream that was stdout at the start. Forking from a warm
process costs 20 ms a key and isolates each of them; starting Python and the compiler anew costs 1.2 s. It has one
thread, because a fork copies only one.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from kernelforge.builder.child import run_child
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
    wake_up_read, wake_up_write = os.pipe()
    os.set_blocking(wake_up_read, False)
    os.set_blocking(wake_up_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_up_write)
    os.set_blocking(0, False)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(wake_up_read, selectors.EVENT_READ)
    lines = _Lines()
    while True:
        for ready, _ in selector.select(SECONDS_BETWEEN_LOOKS if watch else None):
            if ready.fd == wake_up_read:
                os.read(wake_up_read, 512)
                for ended in watch.reap():
                    _send(messages, {"ended": ended})
                continue
            chunk = os.read(0, 1 << 16)
            if not chunk:
                watch.kill_all()
                return
            for job in lines.feed(chunk):
                if job["symbol"] in keys:
                    watch.add(_fork(setup, keys, job), job["number"])
                else:
                    _send(messages, {"ended": {"number": job["number"], "problem": _NOT_FOUND_AGAIN}})
        watch.kill_beyond_limits()


def _fork(setup: Setup, keys: dict[str, tuple[JitKernel[Any], Any]], job: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel, key = keys[job["symbol"]]
        folder, known_ir = Path(job["folder"]), job["known_ir"]
        run_child(kernel, key, symbol=job["symbol"], arch=setup.target.arch, folder=folder, known_ir=known_ir)
    return pid


class _Lines:
    """Whole JSON lines out of a stream of chunks."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            yield json.loads(line)


def _send(messages: BinaryIO, message: dict[str, Any]) -> None:
    messages.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
