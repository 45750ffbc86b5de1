"""Prints its secret, which must not be readable afterwards, and a digest, which shows that it was there."""

import hashlib
import os

secret = os.environ["LAUNCH_CODE"]
print(f"the code is {secret}.")
print(f"its digest is {hashlib.sha256(secret.encode()).hexdigest()}")
