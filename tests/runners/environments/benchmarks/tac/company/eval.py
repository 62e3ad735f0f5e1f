"""Decrypt the evaluator with the key of the environment, run it on the trajectory, and leave its result."""

import argparse
import base64
import json
import os
from pathlib import Path

from fernet import decrypt

parser = argparse.ArgumentParser()
parser.add_argument("--trajectory_path")
parser.add_argument("--result_path")
arguments = parser.parse_args()
key = os.environ["DECRYPTION_KEY"].encode()
token = Path("/utils/evaluator.py.enc").read_bytes()
source = decrypt(base64.urlsafe_b64encode(key.ljust(32, b"\0")[:32]), token)
names = {}
exec(source, names)
trajectory = json.dumps(json.loads(Path(arguments.trajectory_path).read_text()))
result = names["grade_checkpoints"](trajectory)
Path(arguments.result_path).write_text(result if isinstance(result, str) else json.dumps(result))
