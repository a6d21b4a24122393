"""Print the one set-up command of the README whose line holds the given word."""

import re
import sys
from pathlib import Path

readme = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf8")
blocks = re.findall(r"```sh\n(.*?)```", readme, flags=re.DOTALL)
found = [block.strip() for block in blocks if block.startswith("python3 -m venv") and sys.argv[1] in block]
if len(found) != 1:
    sys.exit(f"expected one command with {sys.argv[1]!r} in README.md, found {len(found)}")
print(found[0])
