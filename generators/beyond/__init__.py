"""What the papers' pipeline does not make: decoys, answer-contingent chains, changed environments, and controls."""
