"""Deployment manifests, model configs and device profiles: what does this deployment need?

Everything that is wrong is reported at once, with file, line and a hint. Knows no kernel, no compiler and no store.
"""

from kernelforge.manifest.deployment import Deployment, DeploymentTarget
from kernelforge.manifest.devices import find_profile, load_profile, profile_names, profiles_folder
from kernelforge.manifest.manifest_file import load_manifest

__all__ = [
    "Deployment",
    "DeploymentTarget",
    "find_profile",
    "load_manifest",
    "load_profile",
    "profile_names",
    "profiles_folder",
]
