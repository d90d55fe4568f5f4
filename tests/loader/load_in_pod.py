"""What a serving process does, as a program of its own: load, call every kernel, hand the outcome to the test.

Arguments: the lockfile, the options of ``load`` as JSON.
"""

from __future__ import annotations

import json
import logging
import sys


class Heard(logging.Handler):
    """Keeps the warnings that an operator would see."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def main() -> None:
    # tvm-ffi imports these where they are installed: torch takes seconds, and cuda comes with the compiler.
    for heavy in ("torch", "cutlass", "cuda"):
        sys.modules[heavy] = None  # type: ignore[assignment]
    heard = Heard()
    logging.getLogger("kernelforge").addHandler(heard)
    from kernelforge import LocalFile, load
    from tests.loader.fake_release import H200, KEYS

    kernels = load(sys.argv[1], trust=LocalFile(), device=H200, **json.loads(sys.argv[2]))
    stats = kernels.stats()
    outcome = {
        "results": [kernels[key](1) for key in KEYS],
        "source": stats.pack_source,
        "in_memory": stats.is_in_memory,
        "errors": dict(stats.errors),
        "counters": {name: count for name, count in kernels.stats().counters.items() if ":" not in name},
        "warnings": heard.messages,
        "decision": str(kernels.decision),
    }
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main()
