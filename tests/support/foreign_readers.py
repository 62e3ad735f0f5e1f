"""Readers of formats, which have an environment of their own."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.needs import FORMATS_PYTHON

_SAMPLES = """
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
found = []
for path in sorted(Path(sys.argv[1]).glob("*.eval")):
    log = read_eval_log(str(path))
    assert read_eval_log(str(path), header_only=True).eval == log.eval
    assert len(read_eval_log_sample_summaries(str(path))) == len(log.samples)
    for one in log.samples:
        sample = read_eval_log_sample(str(path), one.id, one.epoch)
        found.append({
            "condition": sample.metadata["condition"],
            "success": sample.scores["success"].as_float(),
            "texts": [message.text for message in sample.messages],
            "calls": [[c.function, c.arguments] for m in sample.messages for c in getattr(m, "tool_calls", None) or ()],
            "mean": log.results.scores[0].metrics["mean"].value,
        })
print(json.dumps(found))
"""


def inspect_samples(folder: Path) -> list[dict[str, Any]]:
    """The samples of all logs in a folder, as inspect_ai reads them."""
    return _asked(_SAMPLES, folder)


def _asked(code: str, path: Path) -> Any:
    command = [str(FORMATS_PYTHON), "-c", f"import json, sys\nfrom pathlib import Path\n{code}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)
