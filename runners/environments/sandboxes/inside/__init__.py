"""Modules that run inside a sandbox, sent there as compiled code.

So a start compiles nothing and binds none of our files. The modules import only fast builtin modules and each other,
because every trial pays for each millisecond of their start.
"""
