"""Fetches the panel's vendored assets again and proves that they are the pinned ones (``make vendor``).

``manifest.json`` names each npm package with its exact version, and each file with the member of the package that it
is a copy of and its SHA-256. Packages come through the ordinary ``npm pack``, so that the registry is whatever npm is
set up with. Nothing is written before every hash matched. ``icons.svg`` is a sprite of the listed icons, built here.

An upgrade: edit a version in the manifest, run with ``--pin`` (which records the new hashes), read the difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "manifest.json"
ICON_MEMBER = "package/icons/outline/{name}.svg"
_OUTER = re.compile(r"<svg.*?>(.*)</svg>", re.DOTALL)
_BLANK = re.compile(r'\s*<path stroke="none" d="M0 0h24v24H0z" fill="none" />')


def main(arguments: list[str]) -> int:
    """Exit code 0: all files are in place. 1: something differed, and nothing was written."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--pin", action="store_true", help="record the hashes of what was fetched")
    options = parser.parse_args(arguments)
    manifest = json.loads(MANIFEST.read_text())
    with tempfile.TemporaryDirectory() as folder:
        packages = {name: pack(name, entry["version"], Path(folder)) for name, entry in manifest["packages"].items()}
        contents = {path: content(entry, packages) for path, entry in manifest["files"].items()}
    if options.pin:
        for path, data in contents.items():
            manifest["files"][path]["sha256"] = digest(data)
        MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n")
    wrong = [path for path, data in contents.items() if digest(data) != manifest["files"][path].get("sha256")]
    if wrong:
        sys.stderr.write(f"These files are not the pinned ones; nothing was written: {', '.join(wrong)}\n")
        return 1
    for path, data in contents.items():
        (HERE / path).parent.mkdir(parents=True, exist_ok=True)
        (HERE / path).write_bytes(data)
    sys.stdout.write(f"{len(contents)} vendored files are in place, {sum(map(len, contents.values())) // 1024} KiB.\n")
    return 0


def pack(name: str, version: str, folder: Path) -> dict[str, bytes]:
    """The regular files of an npm package: member name → bytes."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{name}@{version}"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 (our manifest)
    with tarfile.open(folder / listing.stdout.split()[-1]) as archive:
        return {item.name: _read(archive, item) for item in archive.getmembers() if item.isreg()}


def content(entry: dict[str, Any], packages: dict[str, dict[str, bytes]]) -> bytes:
    """The bytes a vendored file must have: a member as it is, a sprite of icons, or a text the package lacks."""
    if "text" in entry:
        return "\n".join(entry["text"]).encode()
    members = packages[entry["package"]]
    if "icons" in entry:
        return sprite({name: members[ICON_MEMBER.format(name=name)].decode() for name in entry["icons"]})
    return members[entry["member"]]


def sprite(icons: dict[str, str]) -> bytes:
    """One SVG with a symbol for each icon, used as ``<use href="…/icons.svg#NAME">``."""
    stroke = 'fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round"'
    symbols = []
    for name, source in sorted(icons.items()):
        found = _OUTER.search(source)
        if found is None:
            raise ValueError(f"The icon {name} is no SVG.")
        shapes = " ".join(_BLANK.sub("", found[1]).split())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24" {stroke}>{shapes}</symbol>')
    return ('<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n").encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    return stream.read() if stream else b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
