"""Deaths of the recorder: kills and power cuts at every instant, and what must be left after each.

``workload`` records something of which every event is known; ``judge`` says what is wrong with what a death left.
``tracing`` and ``power`` make power cuts, ``killing`` makes kills, ``mutations`` break the program on purpose, so that
the harness shows that it can fail.
"""
