"""The ``kernelforge`` command: the list of commands, and how an error becomes a message and an exit code.

0 all good, 1 some kernels failed or a policy tripped, 2 bad input, 3 store or toolchain trouble or what must not be
loaded, 130 interrupted.
Commands are imported when they are called, so that each pays only for what it uses.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence

import click

from kernelforge import __version__
from kernelforge.cli.console import say_error
from kernelforge.errors import KernelForgeError, StoreFull, ToolchainError

# What --help says of each: asking the commands themselves would import all of them, and in a pod some cannot be.
_COMMANDS = {
    "plan": "Show a manifest's keys: hits, misses and why.",
    "build": "Build what is missing and write the lockfile.",
    "lock": "Write the lockfile of what shards have built.",
    "sign": "Sign a lockfile, or make a key to sign with.",
    "verify": "Say whether a lockfile may be served from here.",
    "pull": "Fetch a lockfile's packs into the local cache.",
    "promote": "Point a channel at a lockfile, or back.",
    "bundle": "Put a release into one file, or take it out.",
    "gc": "Show what nothing needs any more, and delete it.",
    "inspect": "Show what is inside objects, packs and files.",
    "diff": "Say what differs between two lockfiles, and why.",
    "explain": "Say why keys exist, miss or differ.",
    "doctor": "Try what builds and loads need on this machine.",
    "report": "Show a saved report, or what is locked.",
}
EXIT_INTERRUPTED = 130


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output went away (`| head`), and nothing is left to say to it. click would exit with 1.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"kernelforge.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "KERNELFORGE"}
)
@click.version_option(__version__, prog_name="kernelforge")
@click.option("-v", "--verbose", count=True, help="Log on stderr: -v what is done, -vv every step.")
def cli(verbose: int) -> None:
    """Build CuTeDSL kernels in CI, load them in serving pods with no compiler."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    # Ours only: at DEBUG botocore writes whole requests, session tokens included.
    logging.getLogger("kernelforge").setLevel(level)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    try:
        code = cli.main(args=arguments, prog_name="kernelforge", standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except KernelForgeError as error:
        say_error(error)
        code = error.exit_code
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "kernelforge":
            raise
        missing = ToolchainError(f"{error.name} is not installed", hint="pip install 'kernelforge[build]'")
        say_error(missing)
        code = missing.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: what was published stays, the same command goes on from there", err=True)
        code = EXIT_INTERRUPTED
    except OSError as error:
        say_error(StoreFull(str(error), hint="check the folder, its permissions and the room that is left"))
        code = StoreFull.exit_code
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
