"""Decrypt the evaluator with the key of the environment, run it on the trajectory, and leave its result."""

import argparse
import base64
import json
import os

from fernet import decrypt

parser = argparse.ArgumentParser()
parser.add_argument("--trajectory_path")
parser.add_argument("--result_path")
arguments = parser.parse_args()
key = os.environ["DECRYPTION_KEY"].encode()
with open("/utils/evaluator.py.enc", "rb") as file:
    source = decrypt(base64.urlsafe_b64encode(key.ljust(32, b"\0")[:32]), file.read())
names = {}
exec(source, names)
with open(arguments.trajectory_path) as file:
    trajectory = json.dumps(json.load(file))
result = names["grade_checkpoints"](trajectory)
with open(arguments.result_path, "w") as file:
    file.write(result if isinstance(result, str) else json.dumps(result))
