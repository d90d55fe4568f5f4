"""The pod side: a lockfile in, callable kernels out, with no compiler in the image.

The order in which ``load`` works, a module each: ``source`` and ``trust`` (may these bytes be believed?), ``driver``
(which device is this?), ``select`` (which profile of the lockfile is it?), ``pack`` and ``cache`` (where are its
bytes?), ``runtime`` (does this process have what they need?), ``library`` (open them), ``preload`` (device code onto
the card), ``kernel_set`` (what the caller gets).

This room knows nothing of manifests, keys or builders. Importing it imports the standard library only: tvm_ffi comes
with the first load, a store's client with the first fetch.
"""
