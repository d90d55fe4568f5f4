"""Renderings of reports and lockfiles: terminal table, Markdown, and reports back from JSON.

``document`` and ``lock_summary`` decide what is said, ``table`` and ``markdown`` how it looks. Values in, text out:
this room reads no file, knows no terminal and prints nothing.
"""
