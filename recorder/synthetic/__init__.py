"""Synthetic stores: a seeded experiment of any size, written through the real recorder, to measure with."""

from recorder.synthetic.design import Design
from recorder.synthetic.making import Made, make_store

__all__ = ["Design", "Made", "make_store"]
