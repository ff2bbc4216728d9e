"""Which folder of collector/pgtrace imports which: the picture in docs/architecture.md."""

import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
WIDTH = 100


def layers() -> list[str]:
    """The folders, what stands above first, as pyproject.toml's first contract has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract, *_ = settings["tool"]["importlinter"]["contracts"]
    found = [layer.removeprefix("pgtrace.") for layer in contract["layers"]]
    return [layer for layer in found if not layer.startswith("_") and ":" not in layer]


def lines() -> list[str]:
    """One for each folder: the folders that it imports, and by how many imports of modules."""
    graph = grimp.build_graph("pgtrace", cache_dir=None)
    folders = layers()
    modules = {
        folder: {f"pgtrace.{folder}", *graph.find_descendants(f"pgtrace.{folder}")}
        for folder in folders
    }
    drawn = []
    for number, folder in enumerate(folders):
        counts = [
            f"{below} {count}"
            for below in folders[number + 1 :]
            if (count := imports(graph, modules[folder], modules[below]))
        ]
        drawn.append(f"{folder:<10} {len(modules[folder]):>3} files   {', '.join(counts)}".rstrip())
    return drawn


def imports(graph: grimp.ImportGraph, of: set[str], what: set[str]) -> int:
    """How many pairs of a module and one that it imports there are."""
    return sum(len(graph.find_modules_directly_imported_by(one) & what) for one in of)


if __name__ == "__main__":
    print(*lines(), sep="\n")
