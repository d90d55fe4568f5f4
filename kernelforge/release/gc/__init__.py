"""Garbage collection: what no ref, pin, recent move or young object needs goes, in two runs at least a day apart.

``roots`` says what is kept for its own sake, ``mark`` what follows from that, ``plan`` what is left over and why.
``quarantine`` is the list of what was left over before, ``sweep`` deletes what still is, under ``lease``. ``collect``
puts them together.
"""
