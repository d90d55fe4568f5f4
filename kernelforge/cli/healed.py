"""Takes off a store's list of damage what was found whole again."""

from __future__ import annotations

from collections.abc import Set

from kernelforge.cli.console import say
from kernelforge.digest import Digest
from kernelforge.errors import StoreError
from kernelforge.report.units import count_text
from kernelforge.store.damage import drop_damage
from kernelforge.store.interface import WriteStore


def forget_healed(store: WriteStore, healed: Set[Digest]) -> None:
    """Who may not write the list, or cannot now, leaves it to the next; a word about it, for nothing is wrong."""
    try:
        if healed:
            drop_damage(store, healed)
    except StoreError as error:
        say(f"{count_text(len(healed), 'object')} made whole stay on the store's list of damage: {error}")
