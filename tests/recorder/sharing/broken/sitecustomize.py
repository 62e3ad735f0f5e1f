"""Breaks every process that finds this folder on its path, in the way that a variable of its environment names."""

import os

from tests.recorder.sharing.mutations import MUTATION_VARIABLE, MUTATIONS

mutation = next(each for each in MUTATIONS if each.__name__ == os.environ[MUTATION_VARIABLE])()
mutation.__enter__()  # never left; the name keeps it
