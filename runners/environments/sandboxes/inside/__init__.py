"""Modules that run inside a sandbox.

They are sent there as compiled code, so that starting a sandbox compiles nothing and mounts none of our files. They
import only fast builtin modules and each other, because every trial pays for their start.
"""
