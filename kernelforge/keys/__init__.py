"""Which compile keys a deployment needs, and the digest that decides whether a key's object exists already.

``enumerate`` runs the kernel's own ``dispatch`` over a request; ``toolchain`` reads the compiler's versions without
importing it; ``key_digest`` puts together what decides an object's bytes. Nothing here knows of stores or builders.
"""
