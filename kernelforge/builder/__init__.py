"""Compiles keys on a machine without a GPU and links objects into packs.

The order of a build: ``build`` hands planned keys to ``pool``, which keeps one ``template`` process per target; a
template imports the compiler once (``compiler``) and forks one ``child`` per key, which compiles, checks what came out
and reads its facts (``cubin``, ``host_object``); ``link`` makes the packs. Nothing here decides what to build
(``plan``) or writes lockfiles (``release``).
"""
