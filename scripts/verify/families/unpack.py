"""Unpacks the chat templates of a source distribution, without building it, from the index that pip is configured to use.

Usage: python unpack.py <package> <version> <folder>. Each template becomes one file of the folder, named by its path.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request

from pip._internal.models.index import PyPI

package, version, folder = sys.argv[1:]


def index() -> str:
    """Address of the index: the variable, then pip's settings, then pip's default."""
    setting = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    named = os.environ.get("PIP_INDEX_URL") or subprocess.run(setting, capture_output=True, text=True).stdout.strip()
    return named or PyPI.simple_url


def read(address: str, accepted: str) -> bytes:
    request = urllib.request.Request(address, headers={"Accept": accepted})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read()


page = index().rstrip("/") + f"/{package}/"
listing = json.loads(read(page, "application/vnd.pypi.simple.v1+json"))
file_name = f"{package.replace('-', '_')}-{version}.tar.gz"
[entry] = [one for one in listing["files"] if one["filename"] == file_name]
archive = read(urllib.parse.urljoin(page, entry["url"]), "*/*")
if hashlib.sha256(archive).hexdigest() != entry["hashes"]["sha256"]:
    sys.exit(f"Cannot unpack {file_name}: its SHA-256 is not the one that the index names.")
os.makedirs(folder, exist_ok=True)
with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
    for member in members:
        path = member.name.split("/", 1)[-1]
        content = members.extractfile(member) if path.endswith(".jinja") else None
        if content is not None:
            with open(os.path.join(folder, path.replace("/", "+")), "wb") as file:
                file.write(content.read())
