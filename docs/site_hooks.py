"""Hooks of MkDocs: pages of the repository's root join the site, and links to code, which is not there, become text.

`llms.txt` lists the pages for language models. The build ends with the blocks of code that the tests do not run.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tests.docs.pages import blocks

ROOT = Path(__file__).parents[1]
_FROM_ROOT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for name in _FROM_ROOT:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they are between pages of the site; the others lead out of it and are text."""
    source = page.file.src_uri
    at = posixpath.dirname(source if source in _FROM_ROOT else posixpath.join("docs", source))

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if "://" in target or target.startswith("#"):
            return found[0]
        file, hash_mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(at, file))
        if path == "docs" or path.endswith("/"):
            path = posixpath.join(path, "README.md")
        inside = path if path in _FROM_ROOT else path.removeprefix("docs/") if path.startswith("docs/") else None
        if inside is not None and files.get_file_from_path(posixpath.join(inside, "README.md")) is not None:
            inside = posixpath.join(inside, "README.md")
        if inside is None or files.get_file_from_path(inside) is None:
            return text
        shown = posixpath.relpath(inside, posixpath.dirname(source) or ".")
        return f"[{text}]({shown}{hash_mark}{anchor})"

    return _LINK.sub(link, markdown)


def on_post_build(config: Any) -> None:
    pages = _listed(config.nav)
    text = f"# {config.site_name}\n\n> {config.site_description}\n\n" + "\n".join(pages) + "\n"
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.why is not None:
                sys.stdout.write(f"not run: {page.relative_to(ROOT)}, line {block.line}: {block.why}\n")


def _listed(nav: Any) -> list[str]:
    """A line for each page of the navigation, with its title."""
    found: list[str] = []
    for entry in nav:
        if isinstance(entry, str):
            path = ROOT / entry if entry in _FROM_ROOT else ROOT / "docs" / entry
            title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            found.append(f"- [{title}]({entry.removesuffix('.md')}.html)")
        else:
            for name, inner in entry.items():
                found += [f"\n## {name}\n", *_listed(inner if isinstance(inner, list) else [inner])]
    return found
