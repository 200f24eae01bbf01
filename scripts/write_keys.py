"""Write the table of keys in docs/files.md from their declarations: python scripts/write_keys.py"""

from pathlib import Path

from mpi_potts.config.inputs import describe_keys

PAGE = Path(__file__).resolve().parent.parent / "docs" / "files.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"


def table() -> str:
    """The keys as a table, the marks around it included."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in describe_keys()]
    lines = ["| key | default | accepted | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {default and f'`{default}`'} | {accepted} | {meaning} |"
        for name, default, accepted, meaning in rows
    ]
    return BEGIN + "\n".join(lines) + "\n" + END


def page(text: str) -> str:
    """The page with the table of this version."""
    return text[: text.index(BEGIN)] + table() + text[text.index(END) + len(END) :]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
