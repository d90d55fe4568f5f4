"""The keys that a manifest asks for, as they come out of the sources and the compiler that are here.

For questions that need no store: a plan against an empty one has the same keys.
"""

from __future__ import annotations

from kernelforge.manifest.deployment import Deployment
from kernelforge.plan import Plan, make_plan
from kernelforge.store.memory import MemoryStore

_ANY_DOMAIN = "dev"


def plan_keys(deployment: Deployment) -> Plan:
    """A plan whose keys and sources count and whose decisions do not."""
    return make_plan(
        deployment.name,
        deployment.requests,
        [(target.profile, target.target) for target in deployment.targets],
        store=MemoryStore(),
        domain=_ANY_DOMAIN,
        lock=None,
        recorded={},
    )
