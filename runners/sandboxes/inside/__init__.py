"""What runs inside a sandbox: sent there as compiled code, so that a start compiles nothing and binds no file of ours.

These modules import nothing but fast builtin modules and each other: each millisecond of their start is paid by every
trial.
"""
