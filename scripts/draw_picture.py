"""Draw the picture of the README from the result of the demonstration.

mpirun -n 2 mpi-potts run inputs/demo.toml
python scripts/draw_picture.py out/demo/result.h5 docs/pictures/demo.png
"""

import io
import sys
from pathlib import Path

from PIL import Image

from mpi_potts.io import reading
from mpi_potts.report import figures
from mpi_potts.report import fit as fit_report

WIDTH = 380  # pixels of one figure
NAMES = ("image", "labels", "entropy")


def main(result: str, picture: str) -> None:
    drawn = figures.draw(fit_report.report_of(reading.contents(Path(result))))
    parts = [Image.open(io.BytesIO(drawn[name].png)).convert("RGB") for name in NAMES]
    parts = [part.resize((WIDTH, round(part.height * WIDTH / part.width)), Image.LANCZOS) for part in parts]
    whole = Image.new("RGB", (WIDTH * len(parts), max(part.height for part in parts)), "white")
    for number, part in enumerate(parts):
        whole.paste(part, (WIDTH * number, 0))
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    whole.quantize(48).save(picture, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
